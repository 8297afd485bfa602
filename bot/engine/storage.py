"""What the engine needs of its store: inbox, lease, log, outbox, ledger, timers, archive.

1. What changes a thread carries the epoch of a held lease; a stale one raises `Fenced`, changing nothing.
2. One commit is atomic: log, inbox, outbox, timers and pins move together or not at all.
3. One suite of contract tests holds every implementation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from bot.core.chain import Entry
from bot.core.effects import Effect
from bot.core.words import ThreadId

# -- the inbox ----------------------------------------------------------------------------------------

InboxKind = Literal["message", "edit", "delete", "click", "stop", "timer", "posted"]


@dataclass(frozen=True)
class InboxItem:
    """One thing that happened to a thread, waiting for its one writer."""

    thread: ThreadId
    kind: InboxKind
    body: Mapping[str, Any]
    """JSON; by kind:
    message {ts, author, text, mentions_us, direct, quoted: [..], external, bot, thread_reply};
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

        The same claim (it names the event, whatever its thread) within three days is `duplicate` and
        stores nothing. With `only_known` a thread that has no log yet is `unknown_thread`: nothing is
        stored or claimed.
        """
        ...

    async def pending(self, thread: ThreadId) -> list[InboxItem]:
        """What waits, oldest first, held messages included; counts as read when the lease is given back."""
        ...

    async def peek(self, thread: ThreadId) -> list[InboxItem]:
        """The same, without counting as read."""
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

    async def renew(self, held: Held, lease_s: float) -> str:
        """Extend; returns the id of the newest inbox item, empty when none waits. Raises `Fenced`."""
        ...

    async def release(self, held: Held, *, parked: bool) -> None:
        """Give the thread back; it is readied again at once when anything came in that was never read.

        Items that were read and left (messages held while it is parked) do not ready it by themselves.
        """
        ...

    def let_go(self, held: Held) -> None:
        """This process no longer works on the thread, however that ended; it may lease it again."""
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
    settled: Sequence[str] = ()
    """Ids of calls whose results are in the log now: the ledger drops their rows."""


class EventLog(Protocol):
    """Append-only, one writer at a time, chained."""

    async def read(self, thread: ThreadId, after: int = 0) -> list[Entry]:
        """Entries with a seq above `after`, oldest first; empty for an unknown thread."""
        ...

    async def commit(self, held: Held, step: Commit) -> str:
        """All of it or nothing; returns the id of the newest inbox item, empty when none waits (as `renew` does).

        Raises `Fenced` on a stale epoch, and on entries that do not follow the stored head (seq and prev).
        A repeat of a commit that had already been stored whole (a lost reply) succeeds and changes nothing.
        """
        ...

    async def erase(self, held: Held, seqs: Collection[int]) -> None:
        """Drop payload and salt of those entries; heads and digests stay, so the chain stays whole. Fenced.

        A seq that is not there or is erased already changes nothing.
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
Begun = tuple[LedgerState, Mapping[str, Any] | None]
"""`("new", None)`: go on. `("started", None)`: begun before, end unknown. `("done", result)`: replay it."""


class Ledger(Protocol):
    """Which effects were begun and how they ended, beside the log."""

    async def begin(self, held: Held, call_id: str, key: str) -> Begun:
        """Record the intent unless there is one. Fenced: this is the check right before the effect."""
        ...

    async def begin_all(self, held: Held, calls: Sequence[tuple[str, str]]) -> list[Begun]:
        """The same for `(call id, key)` of calls that start side by side, in one step and in their order."""
        ...

    async def end(self, held: Held, call_id: str, result: Mapping[str, Any]) -> None:
        """Record the result at once. Fenced, but the result is kept for the next worker even when stale."""
        ...


class Timers(Protocol):
    """Fires what is due into inboxes; any process may do it, each timer fires once."""

    async def fire_due(self, limit: int = 100) -> int:
        """Returns how many fired."""
        ...

    async def count(self, prefix: str) -> int:
        """How many timers are set whose names begin so, in all threads.

        An open approval has one (`expire:ID`), set and cancelled in the commits that open and close it.
        """
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

    @property
    def inbox(self) -> Inbox: ...

    @property
    def lease(self) -> Lease: ...

    @property
    def log(self) -> EventLog: ...

    @property
    def outbox(self) -> Outbox: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def archive(self) -> Archive: ...

    async def ping(self) -> None:
        """Raises `OutsideFailed` when the backend cannot be used, with one clear line."""
        ...

    async def close(self) -> None: ...
