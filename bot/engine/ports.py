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
from bot.core.events import Event, Usage
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
    messages: Sequence[Mapping[str, Any]]
    max_output_tokens: int
    conversation: str
    """For traces; the thread."""


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
    invalid_calls: Mapping[str, str] = field(default_factory=dict)


class ModelFailure(Exception):
    """No complete reply came, after every retry that made sense."""

    def __init__(
        self, message: str, *, deadline: bool = False, usage: Usage | None = None, cost_usd: float = 0.0, kind: str = ""
    ):
        super().__init__(message)
        self.kind = kind or ("deadline" if deadline else "unknown")
        """What failed, in one word of a small set, for counting."""
        self.deadline = deadline
        """Time ran out (or the service asked to wait longer than there is)."""
        self.usage = usage or Usage()
        """What lost attempts cost."""
        self.cost_usd = cost_usd


class Model(Protocol):
    """A language model that may ask for tools."""

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """Raises `ModelFailure`; returns or raises before `deadline`. Cancellable at any await."""
        ...

    def input_tokens_at_most(self, request: ModelRequest) -> int:
        """An upper bound of the input, without asking the service."""
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
