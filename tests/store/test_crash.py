"""A worker that dies with a thread in its hands: another one takes over, and no traffic is needed for it."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from bot.core.chain import genesis, seal_entry
from bot.core.errors import Fenced
from bot.core.events import MessageIgnored
from bot.core.words import ThreadId
from bot.engine.storage import Commit, Held, InboxItem
from bot.store.embedded import Embedded
from bot.store.redis_store import RedisStore
from tests.valkey import fresh_store

pytestmark = pytest.mark.wire
THREAD = ThreadId("T1", "C1", "1.1")
LEASE_S = 1.0
TAKEOVER_S = LEASE_S + LEASE_S / 4 + 1.0
"""What the design promises for a queue on which nothing else happens."""
WORKER = """
import asyncio, sys
from bot.store.redis_store import RedisStore

async def main():
    store = await RedisStore.connect(sys.argv[1])
    held = await store.lease.next_ready("doomed", wait_s=5, lease_s=float(sys.argv[2]))
    await store.inbox.pending(held.thread)
    while True:
        await store.lease.renew(held, float(sys.argv[2]))
        print(held.epoch, held.ready_id, flush=True)
        await asyncio.sleep(float(sys.argv[2]) / 3)

asyncio.run(main())
"""


async def _dies_in_mid_lease(server: Embedded) -> Held:
    """A process that took the thread, renewed once, and was killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", WORKER, server.url, str(LEASE_S)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert process.stdout is not None
    epoch, ready_id = (await process.stdout.readline()).split()
    process.kill()
    await process.wait()
    return Held(THREAD, int(epoch), "doomed", ready_id.decode())


async def _taken_over(store: RedisStore) -> Held:
    while True:
        if held := await store.lease.next_ready("heir", wait_s=5, lease_s=LEASE_S):
            return held


async def test_a_killed_workers_thread_is_taken_over_in_time_on_an_idle_queue(valkey: Embedded) -> None:
    """With its message still waiting, by a worker that had long been looking."""
    async with fresh_store(valkey) as store:
        await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "1"}), claim="m1")
        dead = await _dies_in_mid_lease(valkey)

        begun = time.monotonic()
        heir = await asyncio.wait_for(_taken_over(store), TAKEOVER_S)
        took = time.monotonic() - begun
        waiting = await store.inbox.pending(THREAD)

        assert heir.thread == THREAD and heir.epoch == dead.epoch + 1
        assert took > LEASE_S / 2, "taken from a worker that might have been alive"
        assert [item.body["ts"] for item in waiting] == ["1"]


async def test_what_a_dead_worker_still_had_under_way_is_refused_after_the_takeover(valkey: Embedded) -> None:
    """A packet of the old worker that arrives late cannot write, nor give back what it lost."""
    async with fresh_store(valkey) as store:
        await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "1"}), claim="m1")
        dead = await _dies_in_mid_lease(valkey)
        heir = await asyncio.wait_for(_taken_over(store), TAKEOVER_S)

        event = MessageIgnored(ts="1", reason="x")
        at, prev = "2026-12-01T09:00:00.000000Z", genesis(THREAD)
        late = seal_entry(event, seq=1, at=at, run="", prev=prev, salt=b"s" * 16)
        with pytest.raises(Fenced):
            await store.log.commit(dead, Commit(entries=[late]))
        with pytest.raises(Fenced):
            await store.lease.release(dead, parked=False)

        await store.lease.renew(heir, LEASE_S)
        assert await store.log.read(THREAD) == []
