"""Memory twins of the store's ports: the same promises and the same errors, for tests that must be fast.

`tests/contracts` holds them and the real store to one suite.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from bot.core.chain import Entry, genesis
from bot.core.effects import EffectAdapter
from bot.core.errors import Fenced, OutsideFailed
from bot.core.words import ThreadId
from bot.engine.ports import Clock
from bot.engine.storage import Begun, Commit, Enqueued, Held, InboxItem, OutboxRow, ThreadSummary
from bot.lab.memory_state import Actor, Memory


@dataclass
class MemoryInbox:
    """The Inbox port."""

    memory: Memory

    async def enqueue(self, item: InboxItem, *, claim: str, only_known: bool = False) -> Enqueued:
        """Claims last three days."""
        memory = self.memory
        if memory.away:
            raise OutsideFailed("the store is away", retryable=True)
        if only_known and item.thread not in memory.actors:
            return "unknown_thread"
        now = memory.clock.now()
        if claim in memory.claims and memory.claims[claim] > now:
            return "duplicate"
        memory.claims[claim] = now + timedelta(days=3)
        memory.put(item)
        return "accepted"

    async def pending(self, thread: ThreadId) -> list[InboxItem]:
        """Oldest first; counts as read."""
        items = await self.peek(thread)
        if items:
            self.memory.actor(thread).seen = items[-1].id
        return items

    async def peek(self, thread: ThreadId) -> list[InboxItem]:
        """The same, without counting as read."""
        if self.memory.away:
            raise OutsideFailed("the store is away", retryable=True)
        return list(self.memory.actors[thread].inbox) if thread in self.memory.actors else []


@dataclass
class MemoryLease:
    """The Lease port; never waits: when nothing is ready it answers at once."""

    memory: Memory

    async def next_ready(self, owner: str, *, wait_s: float, lease_s: float) -> Held | None:
        """Threads whose worker died come first."""
        memory, now = self.memory, self.memory.clock.now()
        if memory.away:
            raise OutsideFailed("the store is away", retryable=True)
        dead = [one for one, actor in memory.actors.items() if actor.owner and actor.until and actor.until <= now]
        thread = dead[0] if dead else memory.ready.pop(0) if memory.ready else None
        if thread is None:
            return None
        actor = memory.actor(thread)
        actor.epoch, actor.owner, actor.seen = actor.epoch + 1, owner, ""
        actor.until = now + timedelta(seconds=lease_s)
        return Held(thread, actor.epoch, owner)

    async def renew(self, held: Held, lease_s: float) -> str:
        """Id of the newest inbox item."""
        actor = self.memory.held(held)
        actor.until = self.memory.clock.now() + timedelta(seconds=lease_s)
        return actor.inbox[-1].id if actor.inbox else ""

    async def release(self, held: Held, *, parked: bool) -> None:
        """Ready again when something came in that was never read."""
        actor = self.memory.actor(held.thread)
        if actor.epoch == held.epoch and not actor.owner:
            return
        actor = self.memory.held(held)
        actor.owner, actor.until, actor.ready = "", None, False
        if actor.inbox and actor.inbox[-1].id > actor.seen:
            self.memory.make_ready(held.thread)

    def let_go(self, held: Held) -> None:
        """Nothing is kept in a process."""


@dataclass
class MemoryLog:
    """The EventLog port."""

    memory: Memory

    async def read(self, thread: ThreadId, after: int = 0) -> list[Entry]:
        """Oldest first."""
        actor = self.memory.actors.get(thread)
        return [entry for entry in actor.log if entry.seq > after] if actor else []

    async def commit(self, held: Held, step: Commit) -> str:
        """All or nothing; then the id of the newest inbox item."""
        actor = self.memory.held(held)
        self._apply(actor, held, step)
        return actor.inbox[-1].id if actor.inbox else ""

    def _apply(self, actor: Actor, held: Held, step: Commit) -> None:
        if step.entries:
            head = actor.log[-1].hash if actor.log else genesis(held.thread)
            first = step.entries[0]
            if head == step.entries[-1].hash:
                return
            if first.seq != len(actor.log) + 1 or first.prev != head:
                raise Fenced("the log has moved on without this writer")
        actor.log += step.entries
        actor.inbox = [item for item in actor.inbox if item.id not in set(step.consumed)]
        for call_id in step.settled:
            actor.ledger.pop(call_id, None)
        for effect in step.effects:
            actor.out[self.memory.number()] = (EffectAdapter.validate_json(effect.model_dump_json()), 0)
        for timer in step.timers:
            self.memory.timers.pop((held.thread, timer.name), None)
            if timer.due is not None:
                self.memory.timers[held.thread, timer.name] = (timer.due, {"name": timer.name, **timer.body})
        self.memory.pins.update({key: content for key, content in step.pins.items() if key not in self.memory.pins})

    async def erase(self, held: Held, seqs: Collection[int]) -> None:
        """Payload and salt go."""
        actor = self.memory.held(held)
        actor.log = [replace(one, payload=None, salt=None) if one.seq in seqs else one for one in actor.log]


@dataclass
class MemoryOutbox:
    """The Outbox port."""

    memory: Memory

    async def rows(self, thread: ThreadId) -> list[OutboxRow]:
        """In the order they were said."""
        actor = self.memory.actors.get(thread)
        return [OutboxRow(row, effect, tries) for row, (effect, tries) in actor.out.items()] if actor else []

    async def begin(self, held: Held, row_id: str) -> int:
        """Attempts before this one."""
        actor = self.memory.held(held)
        if row_id not in actor.out:
            return 0
        effect, tries = actor.out[row_id]
        actor.out[row_id] = (effect, tries + 1)
        return tries

    async def done(self, held: Held, row_id: str, posted: Sequence[tuple[str, str]]) -> None:
        """The row goes; what was posted comes back through the inbox."""
        actor = self.memory.held(held)
        if actor.out.pop(row_id, None) and posted:
            body = {"keys": [list(pair) for pair in posted]}
            self.memory.put(InboxItem(held.thread, "posted", body))


@dataclass
class MemoryLedger:
    """The Ledger port."""

    memory: Memory

    async def begin(self, held: Held, call_id: str, key: str) -> Begun:
        """Intent, once."""
        [begun] = await self.begin_all(held, [(call_id, key)])
        return begun

    async def begin_all(self, held: Held, calls: Sequence[tuple[str, str]]) -> list[Begun]:
        """Intents, each once."""
        ledger, found = self.memory.held(held).ledger, list[Begun]()
        for call_id, _ in calls:
            if call_id in ledger:
                found.append(("started", None) if ledger[call_id] is None else ("done", ledger[call_id]))
            else:
                ledger[call_id] = None
                found.append(("new", None))
        return found

    async def end(self, held: Held, call_id: str, result: Mapping[str, Any]) -> None:
        """Kept even when the writer is stale."""
        ledger = self.memory.actor(held.thread).ledger
        if call_id in ledger and ledger[call_id] is None:
            ledger[call_id] = dict(result)
        self.memory.held(held)


@dataclass
class MemoryTimers:
    """The Timers port."""

    memory: Memory

    async def fire_due(self, limit: int = 100) -> int:
        """By the clock's time."""
        now = self.memory.clock.now()
        due = [key for key, (when, _) in self.memory.timers.items() if when <= now][:limit]
        for thread, name in due:
            _, body = self.memory.timers.pop((thread, name))
            self.memory.put(InboxItem(thread, "timer", body))
        return len(due)

    async def count(self, prefix: str) -> int:
        """By name. Raises `OutsideFailed` while the store is away."""
        if self.memory.away:
            raise OutsideFailed("the store is away", retryable=True)
        return sum(name.startswith(prefix) for _, name in self.memory.timers)


@dataclass
class MemoryArchive:
    """The Archive port."""

    memory: Memory

    async def threads(self, limit: int = 1000) -> list[ThreadSummary]:
        """Most recently changed first."""
        found = [
            ThreadSummary(thread, len(actor.log), actor.log[-1].hash, actor.log[-1].at)
            for thread, actor in self.memory.actors.items()
            if actor.log
        ]
        return sorted(found, key=lambda one: one.changed_at, reverse=True)[:limit]

    async def read(self, thread: ThreadId) -> list[Entry]:
        """The whole log."""
        actor = self.memory.actors.get(thread)
        return list(actor.log) if actor else []

    async def pinned(self, digest: str) -> str | None:
        """The content behind a digest."""
        return self.memory.pins.get(digest)


class MemoryStore:
    """The Store port in memory."""

    def __init__(self, clock: Clock) -> None:
        self.memory = Memory(clock)
        self.inbox = MemoryInbox(self.memory)
        self.lease = MemoryLease(self.memory)
        self.log = MemoryLog(self.memory)
        self.outbox = MemoryOutbox(self.memory)
        self.ledger = MemoryLedger(self.memory)
        self.timers = MemoryTimers(self.memory)
        self.archive = MemoryArchive(self.memory)

    async def ping(self) -> None:
        """Raises `OutsideFailed` while it is away."""
        if self.memory.away:
            raise OutsideFailed("the store is away", retryable=True)

    async def close(self) -> None:
        """Nothing to end."""
