"""Goals 5, 6, 7 and 14: what a session takes up in the store, what it cost to write, and how fast it comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.core.words import ThreadId
from bot.engine.storage import InboxItem
from bot.engine.writer import Writer
from bot.store.redis_store import RedisStore
from tests.bench.cpu import name
from tests.bench.ours import Ours
from tests.bench.places import valkey, wire
from tests.bench.script import TOOL, page
from tests.bench.table import Bar, Row, overs
from tests.bench.wire import Plan

STORED, WRITTEN, TRIPS, KEYS, LOAD = Bar(1.05, " x"), Bar(1.1, " x"), Bar(1, ""), Bar(3, ""), Bar(1.5, " ms")
LOADS = 20
_SENT = re.compile(rb'\] "(\w+)"(?: "([^"]*)")?')
_FUNCTION = re.compile(rb"^plimsoll_[0-9a-f]+_(\w+)$")


@dataclass
class Sent:
    """Commands by name."""

    often: Counter[str] = field(default_factory=Counter)
    size: Counter[str] = field(default_factory=Counter)
    """Bytes, as MONITOR writes them down: good for shares."""


@contextlib.asynccontextmanager
async def sent_to(socket: Path) -> AsyncIterator[Sent]:
    """Every command that a client sends while the body runs, Functions by their name.

    Neither `commandstats` nor a connection's own count would do: both count what a Function does inside.
    """
    reader, writer = await asyncio.open_unix_connection(str(socket))
    found = Sent()

    async def watch() -> None:
        async for line in reader:
            if (words := _SENT.search(line)) and b" lua]" not in line[:60]:
                function = _FUNCTION.match(words[2])
                name = function[1].decode() if function else words[1].decode().lower()
                found.often[name] += 1
                found.size[name] += len(line)

    writer.write(b"MONITOR\r\n")
    await reader.readline()
    watching = asyncio.create_task(watch())
    try:
        yield found
        await asyncio.sleep(0.2)  # the last lines are on their way
    finally:
        watching.cancel()
        writer.close()


async def written(client: Any) -> int:
    """Bytes that clients have sent so far."""
    return int((await client.info("stats"))["total_net_input_bytes"])


def raw_turns(turns: int) -> int:
    """Bytes of what N turns said and read, as compact JSON of the API's own blocks, each once."""
    total = 0
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"toolu_{turn:04d}_00", "name": TOOL, "input": {"page": turn}}
        said = {"role": "assistant", "content": [{"type": "text", "text": "I read on."}, call]}
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": page(turn)}
        read = {"role": "user", "content": [block]}
        total += sum(len(json.dumps(one, separators=(",", ":")).encode()) for one in (said, read))
    return total


async def _memory(client: Any, thread: ThreadId) -> dict[str, int]:
    """Kind of key -> bytes, of every key that names the thread."""
    found: dict[str, int] = {}
    async for key in client.scan_iter(match=f"*{str(thread).rpartition('/')[2]}*", count=1000):
        kind = re.sub(r"^\{[^}]*\}:(\w+):.*$", r"\1", key)
        found[kind] = found.get(kind, 0) + (await client.memory_usage(key, samples=0) or 0)
    return found


async def rows(turns: int = 100) -> list[Row]:
    """Goals 5, 6, 7 and 14."""
    plan = Plan(turns)
    with wire() as server, valkey("everysec") as place:
        ours = await Ours.open(place.url, server.url(plan.path))
        other = await RedisStore.connect(place.url)
        client = other.clients.commands
        try:
            await ours.session(name())
            async with sent_to(place.socket) as sent:
                await ours.session(name())
            session = name()
            keys, before = await client.dbsize(), await written(client)
            await ours.session(session)
            input_bytes, keys = await written(client) - before, await client.dbsize() - keys
            thread = ours.thread(session)
            memory = await _memory(client, thread)
            found = [_bytes(turns, memory), _written(input_bytes, memory, sent), _trips(turns, sent, keys, memory)]
            return [*found, await _load(ours, client, thread, turns)]
        finally:
            await other.close()
            await ours.close()


def _bytes(turns: int, memory: dict[str, int]) -> Row:
    stored, raw = sum(memory.values()), raw_turns(turns)
    ratio = stored / raw
    parts = ", ".join(f"{kind} {size / turns:.0f}" for kind, size in sorted(memory.items(), key=lambda one: -one[1]))
    return Row(
        5,
        f"bytes stored per turn, {turns} turns",
        f"{stored / turns:.0f} B",
        f"{raw / turns:.0f} B raw",
        f"{ratio:.2f} x",
        str(STORED),
        STORED.over(ratio),
        f"bytes a turn by key: {parts}",
    )


def _written(input_bytes: int, memory: dict[str, int], sent: Sent) -> Row:
    stored = sum(memory.values())
    ratio = input_bytes / stored
    whole = sum(sent.size.values())
    parts = ", ".join(f"{kind} {size / whole:.0%}" for kind, size in sent.size.most_common(5))
    return Row(
        6,
        "bytes written to the store over bytes stored",
        f"{input_bytes / 1024:.0f} KiB",
        f"{stored / 1024:.0f} KiB stored",
        f"{ratio:.2f} x",
        str(WRITTEN),
        WRITTEN.over(ratio),
        f"written by: {parts}",
    )


def _trips(turns: int, sent: Sent, keys: int, memory: dict[str, int]) -> Row:
    trips = sum(sent.often.values()) / turns
    parts = ", ".join(f"{often / turns:.2f} {kind}" for kind, often in sent.often.most_common(6))
    return Row(
        7,
        "round trips per turn; keys per session",
        f"{trips:.2f}; {keys}",
        "1; 2",
        f"{trips:.1f} x",
        "<= 1; <= 3",
        overs(TRIPS.over(trips), KEYS.over(keys) and f"{keys - 3} keys"),
        f"a turn: {parts}; keys: {', '.join(sorted(memory))}",
    )


async def _load(ours: Ours, client: Any, thread: ThreadId, turns: int) -> Row:
    """Log read and session replayed, beside a bare list of the same bytes read back."""
    await client.rpush("{p00}:bench:list", *[page(turn) + "x" * 300 for turn in range(turns)])
    held = await _held(ours, thread)
    times: dict[str, list[float]] = {"ours": [], "read": [], "floor": []}
    works: dict[str, Callable[[], Awaitable[Any]]] = {
        "ours": lambda: Writer.open(held, ours.store.log, ours.desk.clock, ours.tracer),
        "read": lambda: ours.store.log.read(thread),
        "floor": lambda: client.lrange("{p00}:bench:list", 0, -1),
    }
    for _ in range(LOADS):
        for side, work in works.items():
            begun = time.perf_counter()
            await work()
            times[side].append((time.perf_counter() - begun) * 1000)
    loaded = (await Writer.open(held, ours.store.log, ours.desk.clock, ours.tracer)).session
    assert loaded.heard, "nothing was loaded"
    # The quietest of them: neighbours only ever add.
    found, read, floor = (min(times[side]) for side in works)
    return Row(
        14,
        f"load of a {turns}-turn session",
        f"{found:.2f} ms",
        f"{floor:.2f} ms list read",
        f"{found / floor:.1f} x",
        str(LOAD),
        LOAD.over(found),
        f"{loaded.entries} entries: {read:.1f} ms read and parsed, {found - read:.1f} replayed",
    )


async def _held(ours: Ours, thread: ThreadId) -> Any:
    """A lease on that thread, for somebody who writes nothing."""
    stop = InboxItem(thread, "stop", {"user": "U0ALICE"})
    await ours.store.inbox.enqueue(stop, claim=f"stop:{thread}")
    while (held := await ours.store.lease.next_ready("bench", wait_s=1, lease_s=60)) is None or held.thread != thread:
        assert held is not None, "the thread did not become ready"
    return held
