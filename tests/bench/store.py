"""The store beside a PING on the same socket, and what a run takes up."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bot.core.chain import Entry, genesis, seal_entry
from bot.core.effects import Notice
from bot.core.events import ToolReturned
from bot.core.words import ThreadId
from bot.engine.storage import Commit, Held, InboxItem
from bot.store.embedded import Embedded
from bot.store.redis_store import RedisStore
from tests.bench.session import session_rows

ROUNDS = 1500
BLOCK = 100
WARM = 10
PAYLOAD_BYTES = 2048
APPEND_BAR = 3.0
"""A fenced append costs at most this many PINGs (appendfsync everysec)."""


async def rows() -> list[str]:
    """Lines of the table."""
    found: list[str] = []
    for fsync in ("everysec", "always"):
        with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as home:
            begun = time.perf_counter()
            server = Embedded(Path(home), appendfsync=fsync).start()
            started = (time.perf_counter() - begun) * 1000
            store = await RedisStore.connect(server.url)
            try:
                if fsync == "everysec":
                    found.append(f"{'start of the embedded server':<58} {started:>13.0f} ms")
                found += await _appends(store, fsync)
                if fsync == "everysec":
                    found += await _wake_ups(store)
                    found += await session_rows(store)
            finally:
                await store.close()
                server.close()
    return found


async def _timed(*works: Callable[[], Awaitable[object]]) -> list[float]:
    """The p50 of each one's quietest block in us: what neighbours on the machine add is in neither side.

    Single calls in turn would not do: a PING right after a write is slower than one among PINGs, a kinder floor.
    """
    times: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS // BLOCK):
        for work, found in zip(works, times, strict=True):
            block = []
            for _ in range(WARM + BLOCK):
                begun = time.perf_counter()
                await work()
                block.append((time.perf_counter() - begun) * 1e6)
            found.append(statistics.median(block[WARM:]))
    return [min(found) for found in times]


async def _leased(store: RedisStore, name: str) -> Held:
    thread = ThreadId("T0BENCH", "C0BENCH", name)
    await store.inbox.enqueue(InboxItem(thread, "message", {"ts": "1"}), claim=name)
    held = await store.lease.next_ready("bench", wait_s=1, lease_s=600)
    assert held is not None
    return held


class _Log:
    """Entries that follow each other, made before the clock starts."""

    def __init__(self, thread: ThreadId, count: int, size: int = PAYLOAD_BYTES) -> None:
        self.entries: list[Entry] = []
        prev = genesis(thread)
        for seq in range(1, count + 1):
            event = ToolReturned(call_id=f"c{seq}", ok=True, content="x" * size, trust="internal")
            at = f"2026-12-01T09:00:00.{seq:06d}Z"
            self.entries.append(seal_entry(event, seq=seq, at=at, run="run-1", prev=prev, salt=b"s" * 16))
            prev = self.entries[-1].hash
        self.place = -1

    def next(self) -> Entry:
        """The next one."""
        self.place += 1
        return self.entries[self.place]


async def _appends(store: RedisStore, fsync: str) -> list[str]:
    client = store.clients.commands
    held, other = await _leased(store, f"1.{fsync}"), await _leased(store, f"2.{fsync}")
    log, bare = (
        _Log(held.thread, ROUNDS // BLOCK * (BLOCK + WARM)),
        _Log(other.thread, ROUNDS // BLOCK * (BLOCK + WARM)),
    )
    said = Notice(key="n", text="x")
    floor, append, whole, stream = await _timed(
        client.ping,
        lambda: store.log.commit(held, Commit(entries=[log.next()])),
        lambda: store.log.commit(other, Commit(entries=[bare.next()], effects=[said])),
        lambda: client.xadd("{p00}:bench", {"h": "x" * PAYLOAD_BYTES}),
    )
    lines = []
    for name, p50, bar in (
        ("a 2 KB entry (Function append)", append, APPEND_BAR),
        ("and one thing to say (Function commit)", whole, 0.0),
        ("plain XADD of 2 KB", stream, 0.0),
    ):
        ratio = p50 / floor
        judged = (
            f"<= {bar:.0f} x: {'met' if ratio <= bar else f'MISSED by {ratio - bar:.2f} x'}"
            if bar and fsync == "everysec"
            else ""
        )
        lines.append(
            f"{name + ', appendfsync ' + fsync:<58} {p50:>10.0f} us p50 {floor:>9.0f} us {ratio:>7.2f}x   {judged}"
        )
    return lines


async def _wake_ups(store: RedisStore) -> list[str]:
    times = []
    for number in range(300):
        thread = ThreadId("T0BENCH", "C0BENCH", f"3.{number}")
        begun = time.perf_counter()
        await store.inbox.enqueue(InboxItem(thread, "message", {"ts": "1"}), claim=f"w{number}")
        held = await store.lease.next_ready("bench", wait_s=1, lease_s=15)
        times.append((time.perf_counter() - begun) * 1000)
        assert held is not None
        await store.inbox.pending(held.thread)
        await store.lease.release(held, parked=False)
        store.lease.let_go(held)
    times.sort()
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
    return [f"{'enqueue to lease':<58} {p50:>8.2f} / {p99:.2f} ms p50 / p99"]
