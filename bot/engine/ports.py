"""What the engine needs of the world besides its store (`engine/storage.py`).

1. Ports speak in the core's nouns; no vendor's type crosses them.
2. Failures of the outside are `OutsideFailed` with one clear line; anything else is our bug and stays loud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from bot.core.effects import Effect
from bot.core.event import Event, Role
from bot.core.events import Usage
from bot.core.item import Message
from bot.core.policy import ApproverRule
from bot.core.state import Session
from bot.core.tool import Tool, ToolContext, ToolResult, ToolSpec
from bot.core.words import Person, ThreadId

# -- time and chance ----------------------------------------------------------------------------------


class Clock(Protocol):
    """Time and ids come in as values; tests bring their own."""

    def now(self) -> datetime:
        """Aware, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a test clock returns as soon as its time is moved on."""
        ...

    def new_id(self, prefix: str) -> str:
        """A fresh id, e.g. `run-3f9c…`; never seen before in any process."""
        ...

    def salt(self) -> bytes:
        """16 random bytes for a payload's digest."""
        ...


# -- the model ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelRequest:
    """One call of the model; plain JSON."""

    model: str
    system: str
    tools: Sequence[ToolSpec]
    """Any order; the port sorts by name."""
    messages: Sequence[Message]
    """Pieces that stay the same objects from one request to the next, each encoded once (`Item.encoded`)."""
    max_output_tokens: int
    conversation: str
    """For traces; the thread."""
    role: Role = "agent"
    """Who is asked: the agent itself, or a side question that no later request builds on."""
    previous_id: str = ""
    """The service's id of the conversation's last reply: it then says why its cache could not be used."""
    wait_likely: bool = False
    """A person may have to decide about what comes back: what is cached should outlive the wait."""


@dataclass(frozen=True)
class ModelReply:
    """A complete reply. There is no such thing as a partial one."""

    content: Sequence[Mapping[str, Any]]
    """Blocks as received, in order; a call with unreadable arguments has safe ones (see `invalid_calls`)."""
    stop_reason: str
    usage: Usage
    cost_usd: float
    model: str
    request_id: str = ""
    """The id of the message."""
    cache_miss_reason: str = ""
    """The service's word on why it could not read from its cache; empty when it could, or did not say."""
    stop_category: str = ""
    """Of a refusal: the service's word on what was declined."""
    invalid_calls: Mapping[str, str] = field(default_factory=dict)
    """Call id -> why its arguments cannot be read."""


FailureKind = Literal["lost", "away", "deadline", "too_long", "final"]
"""lost: the attempt was begun and may have been charged, another may succeed under a new reservation;
away: overloaded or unreachable after every free retry, another model may answer; deadline: time ran out (or the service
asked to wait longer than there is); too_long: the conversation does not fit into the model; final: nothing helps."""


class ModelFailure(Exception):
    """No complete reply came. The text is one clear line for a person."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = "final",
        cause: str = "",
        usage: Usage | None = None,
        cost_usd: float = 0.0,
        wait_s: float = 0.0,
    ):
        super().__init__(message)
        self.kind: FailureKind = kind
        """What can still be done."""
        self.cause = cause or kind
        """What failed, in one word of a small set, for counting."""
        self.usage = usage or Usage()
        """What the lost attempt is known to have used."""
        self.cost_usd = cost_usd
        self.wait_s = wait_s
        """How long to wait before another attempt makes sense."""


class Model(Protocol):
    """A language model that may ask for tools."""

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """Raises `ModelFailure`; returns or raises before `deadline`. Cancellable at any await.

        Retries what cost nothing (refused connections, error answers) by itself. At most one attempt of a call may be
        charged: one that was begun and lost is `ModelFailure(kind="lost")`, so that the caller reserves anew.
        """
        ...

    def price(self, model: str, usage: Usage) -> float | None:
        """US dollars for that usage at its dearest (writes at the longest lifetime); `None`: unpriced."""
        ...


# -- tools, people, surface, traces -------------------------------------------------------------------


class Toolbox(Protocol):
    """The tools of this installation, as the policy leaves them."""

    @property
    def resources(self) -> Mapping[str, Any]:
        """What `ToolContext.resources` holds."""
        ...

    def get(self, name: str) -> Tool | None: ...

    def specs(self, channel: str) -> tuple[ToolSpec, ...]:
        """What is offered in that channel, sorted by name."""
        ...

    def size(self, channel: str) -> int:
        """Bytes of those definitions as JSON, for budgets."""
        ...

    async def run(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Never raises for a tool's own failure: that is a result with `ok=False`."""
        ...


class People(Protocol):
    """Who somebody is, asked when it matters."""

    async def lookup(self, user: str) -> Person:
        """Raises `OutsideFailed` when nobody could say (callers fail closed)."""
        ...

    async def approvers(self, rule: ApproverRule) -> frozenset[str]:
        """Members that the rule names, groups expanded; guests, bots and strangers left out.

        Raises `OutsideFailed`.
        """
        ...


@dataclass(frozen=True)
class Piece:
    """One message to deliver: what an effect became."""

    key: str
    """Unique within the thread; a later piece of the same key updates the message."""
    how: Literal["post", "whisper", "status"]
    body: Mapping[str, Any]
    """The surface's own."""
    channel: str = ""
    """Elsewhere than the thread; empty: in the thread."""


class Surface(Protocol):
    """Where people see the thread."""

    renderer: str
    """Version of how effects are rendered; pinned by `RunStarted`."""

    def render(self, thread: ThreadId, effect: Effect, posted: Mapping[str, str]) -> list[Piece]:
        """Pure. `posted`: key -> ts of what is already there."""
        ...

    async def post(self, thread: ThreadId, piece: Piece) -> str:
        """Returns the ts. Raises `OutsideFailed(retryable=True)` when it may or may not have been posted."""
        ...

    async def update(self, thread: ThreadId, ts: str, piece: Piece) -> None: ...

    async def find(self, thread: ThreadId, piece: Piece) -> str | None:
        """The ts of an earlier post of this piece, looked up by its marker."""
        ...

    async def history(self, thread: ThreadId, before_ts: str) -> tuple[list[dict[str, Any]], int]:
        """Earlier messages `{ts, author, text, bot}` oldest first, and how many were left out."""
        ...


class Span(Protocol):
    """A step under way, as traces show it. Never a text that somebody wrote: traces leave the house."""

    def set(self, **attributes: Any) -> None:
        """More about it, in our nouns; the telemetry knows what others call them. `None` says nothing."""
        ...

    def failed(self, error_type: str) -> None:
        """It did not work out; one word of a small set. An exception that leaves the span says so by itself."""
        ...


@dataclass(frozen=True)
class Step:
    """One event that is in the log now, with the session before and after it."""

    before: Session
    event: Event
    after: Session
    seq: int


class Tracer(Protocol):
    """Spans, counts and notes; never raises, and costs next to nothing unless telemetry is set up."""

    def lease(self, session: Session) -> AbstractContextManager[None]:
        """One lease of that thread: what its body does and commits belongs to its runs."""
        ...

    def span(self, name: str, **attributes: Any) -> AbstractContextManager[Span]:
        """An expensive step within a lease; thread, run and turn are added to it."""
        ...

    def seen(self, steps: Sequence[Step]) -> None:
        """These were committed, in this order. Runs, turns and metrics are made of them and of nothing else."""
        ...

    def note(self, event: str, **fields: Any) -> None:
        """One line for an operator."""
        ...

    def fault(self, event: str, error: BaseException, **fields: Any) -> None:
        """A bug of ours, with its stack, for an operator."""
        ...
