"""Every store, and its time: each contract test runs on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bot.app.clock import SystemClock
from bot.core.chain import Entry, genesis, seal_entry
from bot.core.events import MessageIgnored
from bot.core.words import ThreadId
from bot.engine.storage import Held, InboxItem
from bot.lab.clock import LabClock
from bot.lab.memory import MemoryStore
from tests.valkey import fresh_store

THREAD = ThreadId("T0PLIMSOLL", "C0SUPPORT", "1780000000.000100")
OTHER = replace(THREAD, root_ts="1780000000.000200")
LEASE_S = 0.3


@dataclass
class Place:
    """A store and its time."""

    store: Any
    clock: Any
    passes: Callable[[float], Awaitable[None]]

    async def lease(self, owner: str = "w1", lease_s: float = LEASE_S) -> Held:
        """The next thread, which must be there."""
        held = await self.store.lease.next_ready(owner, wait_s=1.0, lease_s=lease_s)
        assert held is not None, "no thread was ready"
        return held

    async def idle(self, owner: str = "w9") -> bool:
        """Nothing is ready."""
        return await self.store.lease.next_ready(owner, wait_s=0.02, lease_s=LEASE_S) is None

    async def arrives(self, thread: ThreadId = THREAD, claim: str = "m1", kind: Any = "message", **body: Any) -> str:
        """Something for that thread."""
        return str(await self.store.inbox.enqueue(InboxItem(thread, kind, body or {"ts": claim}), claim=claim))


@pytest.fixture(params=["memory", pytest.param("valkey", marks=pytest.mark.wire)])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """Each test runs on both."""
    if request.param == "memory":
        clock = LabClock()

        async def moves(seconds: float) -> None:
            clock.advance(seconds)

        yield Place(MemoryStore(clock), clock, moves)
        return
    async with fresh_store(request.getfixturevalue("valkey")) as store:
        yield Place(store, SystemClock(), asyncio.sleep)


def entries_after(count: int, after: Entry | None = None, thread: ThreadId = THREAD) -> list[Entry]:
    entries: list[Entry] = []
    seq, prev = (after.seq, after.hash) if after else (0, genesis(thread))
    for number in range(seq + 1, seq + count + 1):
        event = MessageIgnored(ts=f"1.{number}", reason="ä\n" * 3, author="U0BOB")
        at = f"2026-12-01T09:00:00.{number:06d}Z"
        entries.append(seal_entry(event, seq=number, at=at, run="", prev=prev, salt=b"0123456789abcdef"))
        prev = entries[-1].hash
    return entries


async def until_leased(place: Place, owner: str) -> Held:
    """Taken over by that worker, soon."""
    for _ in range(50):
        held = await place.store.lease.next_ready(owner, wait_s=0.05, lease_s=LEASE_S)
        if held is not None:
            return held
    raise AssertionError("nobody took the thread over")
