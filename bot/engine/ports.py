"""What the engine needs of the world. One suite of contract tests holds every implementation.

1. Ports speak in the core's nouns; no vendor's type crosses them.
2. Whatever changes a thread carries the epoch of a held lease; a stale one raises `Fenced` and changes nothing.
3. Failures of the outside are `OutsideFailed` with one clear line; anything else is our bug and stays loud.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from bot.core.chain import Entry
from bot.core.effects import Effect
from bot.core.events import Usage
from bot.core.policy import ApproverRule
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


# -- the inbox ----------------------------------------------------------------------------------------

InboxKind = Literal["message", "edit", "delete", "click", "stop", "timer", "posted"]


@dataclass(frozen=True)
class InboxItem:
    """One thing that happened to a thread, waiting for its one writer."""

    thread: ThreadId
    kind: InboxKind
    body: Mapping[str, Any]
    """JSON; by kind: message {ts, author, text, mentions_us, direct, quoted: [..], external, bot, thread_reply};
    edit {ts, author, text}; delete {ts}; click {user, team, approval_id, vote}; stop {user};
    timer {name, ...}; posted {keys: [[key, ts], ..]}."""
    id: str = ""
    """Given by the store; ordered within the thread."""
    at: str = ""
    """RFC 3339, the store's clock at arrival; expiry compares this."""


Enqueued = Literal["accepted", "duplicate", "unknown_thread"]


class Inbox(Protocol):
    """Ordered by thread; a thread with anything in it is readied, parked or not."""

    async def enqueue(self, item: InboxItem, *, claim: str, only_known: bool = False) -> Enqueued:
        """Claim and store in one step.

        The same claim within three days is `duplicate` and stores nothing. With `only_known` a thread that
        has no log yet is `unknown_thread` and nothing is stored or claimed.
        """
        ...

    async def pending(self, thread: ThreadId) -> list[InboxItem]:
        """What waits, oldest first, held messages included."""
        ...


# -- lease, log, outbox, ledger, timers ---------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """A lease on a thread: who writes it now."""

    thread: ThreadId
    epoch: int
    """Rises with every lease of the thread; the fencing token."""
    owner: str
    ready_id: str = ""
    """The ready-queue entry that is acknowledged on release."""


class Lease(Protocol):
    """One worker at a time for each thread, by the store's own clock."""

    async def next_ready(self, owner: str, *, wait_s: float, lease_s: float) -> Held | None:
        """Lease the next thread that has work; `None` when none came within `wait_s`.

        Also takes over threads whose worker died (its lease ran out), on an idle queue too.
        """
        ...

    async def renew(self, held: Held, lease_s: float) -> int:
        """Extend; returns how many inbox items wait. Raises `Fenced` when another worker owns the thread."""
        ...

    async def release(self, held: Held, *, parked: bool) -> None:
        """Give the thread back; it is readied again at once when anything came in that was never read.

        Items that were read and left (messages held while the thread is parked) do not ready it by themselves.
        """
        ...


@dataclass(frozen=True)
class OutboxRow:
    """A thing to say that is not yet known to be said."""

    id: str
    effect: Effect
    attempts: int = 0
    """How often a delivery was begun; above 0 the post is looked up before it is sent again."""


@dataclass(frozen=True)
class TimerSet:
    """Asks for an inbox item later, once, also after everything was down."""

    name: str
    """Unique within the thread; setting it again moves it."""
    due: datetime | None
    """`None` cancels."""
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """One atomic step of a thread."""

    entries: Sequence[Entry] = ()
    consumed: Sequence[str] = ()
    """Ids of inbox items that are now in the log."""
    effects: Sequence[Effect] = ()
    timers: Sequence[TimerSet] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    """Digest -> content that an entry pins; kept once."""


class EventLog(Protocol):
    """Append-only, one writer at a time, chained."""

    async def read(self, thread: ThreadId, after: int = 0) -> list[Entry]:
        """Entries with a seq above `after`, oldest first; empty for an unknown thread."""
        ...

    async def commit(self, held: Held, step: Commit) -> None:
        """All of it or nothing.

        Raises `Fenced` on a stale epoch, and on entries that do not follow the stored head (seq and prev).
        A repeat of a commit that had already been stored whole (a lost reply) succeeds and changes nothing.
        """
        ...


class Outbox(Protocol):
    """What the thread's writer still has to say, in order."""

    async def rows(self, thread: ThreadId) -> list[OutboxRow]: ...

    async def begin(self, held: Held, row_id: str) -> int:
        """Note that a delivery starts; returns the attempts before this one. Fenced."""
        ...

    async def done(self, held: Held, row_id: str, posted: Sequence[tuple[str, str]]) -> None:
        """Remove the row; `(key, ts)` pairs, if any, come back as one `posted` inbox item. Fenced."""
        ...


LedgerState = Literal["new", "started", "done"]


class Ledger(Protocol):
    """Which effects were begun and how they ended, beside the log."""

    async def begin(self, held: Held, call_id: str, key: str) -> tuple[LedgerState, Mapping[str, Any] | None]:
        """Record the intent unless there is one. Fenced: this is the check right before the effect.

        `("new", None)`: go on. `("started", None)`: begun before, end unknown. `("done", result)`: replay it.
        """
        ...

    async def end(self, held: Held, call_id: str, result: Mapping[str, Any]) -> None:
        """Record the result at once. Fenced, but the result is kept for the next worker even when stale."""
        ...

    async def forget(self, held: Held, call_ids: Sequence[str]) -> None:
        """Drop records whose results are in the log."""
        ...


class Timers(Protocol):
    """Fires what is due into inboxes; any process may do it, each timer fires once."""

    async def fire_due(self, limit: int = 100) -> int:
        """Returns how many fired."""
        ...


@dataclass(frozen=True)
class ThreadSummary:
    """One row of a list of threads."""

    thread: ThreadId
    entries: int
    head: str
    changed_at: str
    """RFC 3339 of the last entry."""


class Archive(Protocol):
    """What console and command line read; never writes a thread."""

    async def threads(self, limit: int = 1000) -> list[ThreadSummary]:
        """Most recently changed first."""
        ...

    async def read(self, thread: ThreadId) -> list[Entry]: ...

    async def pinned(self, digest: str) -> str | None:
        """The content behind a digest; `None` when it is not kept here."""
        ...


class Store(Protocol):
    """All store ports of one backend."""

    inbox: Inbox
    lease: Lease
    log: EventLog
    outbox: Outbox
    ledger: Ledger
    timers: Timers
    archive: Archive

    async def ping(self) -> None:
        """Raises `OutsideFailed` when the backend cannot be used, with one clear line."""
        ...

    async def close(self) -> None: ...


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
        self, message: str, *, deadline: bool = False, usage: Usage | None = None, cost_usd: float = 0.0
    ):
        super().__init__(message)
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
        """US dollars for that usage at its dearest (cache writes at the longest lifetime); `None`: unpriced."""
        ...


# -- tools, people, surface, traces -------------------------------------------------------------------


class Toolbox(Protocol):
    """The tools of this installation, as the policy leaves them."""

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


class Tracer(Protocol):
    """Spans and counts; a no-op unless telemetry is set up."""

    def span(self, name: str, **attributes: Any) -> AbstractContextManager[None]: ...

    def note(self, event: str, **fields: Any) -> None:
        """One line for an operator."""
        ...


Nudge = Callable[[], Awaitable[None]]
