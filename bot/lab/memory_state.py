"""What the memory twins of one store share: an actor for each thread, a ready queue, claims, timers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from bot.core.chain import Entry
from bot.core.effects import Effect
from bot.core.errors import Fenced, OutsideFailed
from bot.core.words import ThreadId
from bot.engine.ports import Clock
from bot.engine.storage import Held, InboxItem


@dataclass
class Actor:
    """Everything that the store keeps of one thread."""

    epoch: int = 0
    owner: str = ""
    until: datetime | None = None
    ready: bool = False
    inbox: list[InboxItem] = field(default_factory=list)
    seen: str = ""
    log: list[Entry] = field(default_factory=list)
    out: dict[str, tuple[Effect, int]] = field(default_factory=dict)
    ledger: dict[str, Any] = field(default_factory=dict)


class Memory:
    """What all twins of one store share."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.actors: dict[ThreadId, Actor] = {}
        self.ready: list[ThreadId] = []
        self.claims: dict[str, datetime] = {}
        self.timers: dict[tuple[ThreadId, str], tuple[datetime, dict[str, Any]]] = {}
        self.pins: dict[str, str] = {}
        self.count = 0
        self.away = False

    def actor(self, thread: ThreadId) -> Actor:
        """Raises `OutsideFailed` while the store is away."""
        if self.away:
            raise OutsideFailed("the store is away", retryable=True)
        return self.actors.setdefault(thread, Actor())

    def number(self) -> str:
        """Rising ids whose text sorts as their order."""
        self.count += 1
        return f"{self.count:012d}"

    def make_ready(self, thread: ThreadId) -> None:
        """One place in the queue for each thread."""
        actor = self.actor(thread)
        if not actor.ready:
            actor.ready = True
            self.ready.append(thread)

    def put(self, item: InboxItem) -> None:
        """Into the inbox, and ready."""
        at = self.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
        self.actor(item.thread).inbox.append(replace(item, id=self.number(), at=at))
        self.make_ready(item.thread)

    def held(self, held: Held) -> Actor:
        """The actor, if that lease still is the newest one."""
        actor = self.actor(held.thread)
        if actor.epoch != held.epoch or actor.owner != held.owner:
            raise Fenced("another worker owns this thread now")
        return actor
