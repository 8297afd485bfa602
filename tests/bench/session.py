"""A session of 100 turns in the store: bytes kept and sent, keys, round trips, and what loading it costs."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from bot.core import events as e
from bot.core.chain import Entry, genesis, seal_entry
from bot.core.session import replay
from bot.core.words import ThreadId
from bot.engine.storage import Commit, Held, InboxItem
from bot.store.log import read_blocks
from bot.store.redis_store import RedisStore

TURNS = 100
RESULT_BYTES = 2048
LOADS = 60
STORED_BAR = 1.05
WRITTEN_BAR = 1.10
LOAD_BAR_MS = 1.5
# Plain words of support work: a result in prose. The other text is random hex, about the worst there is.
_PROSE = (
    "the order was shipped on Monday and should arrive within two working days customer asked for a refund of"
    " because item arrived broken we replied that policy allows returns up to thirty days after delivery please"
    " check address before sending new parcel warehouse confirmed stock is low tracking number carrier delayed"
    " payment method card ending invoice attached account email verified phone not reachable note from agent"
    " escalate if no answer by Friday loyalty discount applied subscription renewed cancelled previous ticket"
)


@dataclass
class Session:
    """What one session of that shape took up and cost."""

    held: Held
    entries: list[Entry]
    commits: list[list[Entry]]
    stored: int = 0
    written: int = 0
    calls: int = 0

    @property
    def raw(self) -> int:
        """The JSON of every payload, without spaces."""
        return sum(len(_json(dict(entry.payload or {}))) for entry in self.entries)

    @property
    def heard(self) -> int:
        """Only what a turn adds to the model's messages: the reply's blocks and the result."""
        blocks = [entry.payload["content"] for entry in self.entries if entry.payload and "content" in entry.payload]
        return sum(len(_json(block)) for block in blocks)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _text(dice: random.Random, noise: bool) -> str:
    if noise:
        return dice.randbytes(RESULT_BYTES // 2).hex()
    text, words = "", _PROSE.split()
    while len(text) < RESULT_BYTES:
        text += f"{dice.choice(words)} {dice.randrange(10_000) if dice.random() < 0.1 else dice.choice(words)} "
    return text[:RESULT_BYTES]


def _turn(dice: random.Random, turn: int, text: str) -> list[e.Event]:
    call, arguments = f"toolu_{dice.randbytes(12).hex()}", {"order_id": str(40_000 + turn)}
    blocks = [
        {"type": "text", "text": "I look at the next record."},
        {"type": "tool_use", "id": call, "name": "get_order", "input": arguments},
    ]
    usage = e.Usage(input_tokens=12, cache_read_tokens=569 * turn, cache_write_tokens=569, output_tokens=71, calls=1)
    model, request = "claude-sonnet-5-5", dice.randbytes(32).hex()
    return [
        e.ModelRequested(
            turn=turn, reserved_tokens=9000 + turn, reserved_usd=0.0512, model=model, request_digest=request
        ),
        e.ModelReplied(turn=turn, content=blocks, stop_reason="tool_use", usage=usage, cost_usd=0.0042, model=model),
        e.ToolRequested(call_id=call, tool="get_order", arguments=arguments, authority="observe"),
        e.GateDecided(call_id=call, verdict="allowed", reason="observe is within critical", ceiling="critical"),
        e.ToolStarted(call_id=call, idempotency_key=dice.randbytes(20).hex()),
        e.ToolReturned(call_id=call, ok=True, content=text, trust="internal", facts_added=1),
    ]


def _events(dice: random.Random, noise: bool) -> Iterator[list[e.Event]]:
    deadline = "2026-12-01T10:00:00.000000Z"
    started = e.RunStarted(run_id="run-1", principal="U0ALICE", policy_version="1", deadline=deadline, pins={})
    asked = e.MessageReceived(ts="1.1", author="U0ALICE", trust="principal", text="Look at all of these.")
    yield [started, asked]
    for turn in range(1, TURNS + 1):
        yield _turn(dice, turn, _text(dice, noise))


async def _session(store: RedisStore, name: str, *, shape: tuple[int, ...], noise: bool) -> Session:
    """Written turn by turn; `shape` says how a turn's six entries are divided into commits."""
    dice, thread = random.Random(7), ThreadId("T0BENCH", "C0BENCH", name)
    await store.inbox.enqueue(InboxItem(thread, "message", {"ts": "1"}), claim=name)
    held = await store.lease.next_ready("host-12345-0a1b2c3d", wait_s=1, lease_s=600)
    assert held is not None
    [item] = await store.inbox.pending(thread)
    await store.log.commit(held, Commit(consumed=[item.id]))
    session, prev = Session(held, [], []), genesis(thread)
    for turn, events in enumerate(_events(dice, noise)):
        entries = []
        for place, event in enumerate(events):
            seq = len(session.entries) + len(entries) + 1
            second = 3 * turn + 2 * (place > 0)  # the model takes its time, everything else is of one moment
            at = f"2026-12-01T09:{second // 60:02d}:{second % 60:02d}.{seq * 137 % 10**6:06d}Z"
            entries.append(seal_entry(event, seq=seq, at=at, run="run-1", prev=prev, salt=dice.randbytes(16)))
            prev = entries[-1].hash
        session.entries += entries
        for count in shape if len(entries) == sum(shape) else (len(entries),):
            session.commits.append(entries[:count])
            entries = entries[count:]
    await _store(store, session)
    await store.lease.release(held, parked=False)
    return session


async def _store(store: RedisStore, session: Session) -> None:
    commands, before = store.clients.commands, await _sent(store)
    for entries in session.commits:
        await store.log.commit(session.held, Commit(entries=entries))
    sent, calls = await _sent(store)
    session.written, session.calls = sent - before[0], calls - before[1]
    names = [build(session.held.thread) for build in (store.keys.state, store.keys.log, store.keys.payloads)]
    session.stored = sum([await commands.memory_usage(name, samples=0) or 0 for name in names])


async def _sent(store: RedisStore) -> tuple[int, int]:
    stats, commands = [await store.clients.commands.info(section) for section in ("stats", "commandstats")]
    return int(stats["total_net_input_bytes"]), int(commands["cmdstat_fcall"]["calls"])


async def session_rows(store: RedisStore) -> list[str]:
    """Lines of the table."""
    rows = []
    for name, shape, noise in (
        ("prose, 1 commit a turn", (6,), False),
        ("prose, 2 commits a turn", (2, 4), False),
        ("random hex, 1 commit a turn", (6,), True),
    ):
        session = await _session(store, f"5.{len(rows)}", shape=shape, noise=noise)
        rows += _sizes(session, name, await _keys(store, session))
        if shape == (6,) and not noise:
            loads = await _loads(store, session)
    return rows + loads


async def _keys(store: RedisStore, session: Session) -> int:
    return len(await store.clients.commands.keys(f"*{session.held.thread}"))


def _sizes(session: Session, name: str, keys: int) -> list[str]:
    stored, written = session.stored / session.raw, session.written / session.stored
    return [
        f"{f'stored a turn ({name})':<58} {session.stored / TURNS:>10.0f} bytes {session.raw / TURNS:>9.0f} raw "
        f"{stored:>7.2f}x   {_judged(stored, STORED_BAR, 'x')}; {session.stored / session.heard:.2f} x of what the "
        f"model hears",
        f"{f'written a turn ({name})':<58} {session.written / TURNS:>10.0f} bytes {session.stored / TURNS:>9.0f} kept "
        f"{written:>6.2f}x   {_judged(written, WRITTEN_BAR, 'x')}; {session.written / session.raw:.2f} x raw",
        f"{f'round trips a turn, keys at rest ({name})':<58} {session.calls / TURNS:>10.2f} {keys:>9} keys",
    ]


def _judged(found: float, bar: float, unit: str) -> str:
    return f"<= {bar} {unit}: {'met' if found <= bar else f'MISSED by {found - bar:.2f} {unit}'}"


async def _loads(store: RedisStore, session: Session) -> list[str]:
    thread = session.held.thread
    entries = await store.log.read(thread)
    assert entries == session.entries
    fetch = await _quietest(lambda: read_blocks(store.clients, store.keys, thread))
    read = await _quietest(lambda: store.log.read(thread))

    async def folded() -> None:
        replay(thread, entries)

    fold = await _quietest(folded)
    label = f"load of {TURNS} turns, {len(entries)} entries"
    return [
        f"{label + ': fetch':<58} {fetch:>10.2f} ms",
        f"{label + ': fetch and parse':<58} {read:>10.2f} ms   {_judged(read, LOAD_BAR_MS, 'ms')}",
        f"{label + ': replay into a session':<58} {fold:>10.2f} ms",
    ]


async def _quietest(work: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(LOADS):
        begun = time.perf_counter()
        await work()
        times.append((time.perf_counter() - begun) * 1000)
    return min(times)
