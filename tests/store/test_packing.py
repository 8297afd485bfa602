"""Compact in the store, the same entries when read: of this version's form and of the first one's."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.chain import Entry, genesis, verify
from bot.core.effects import Notice
from bot.core.errors import OurFault
from bot.core.session import replay
from bot.engine.storage import Commit, Held, InboxItem
from bot.store.embedded import Embedded
from bot.store.packing import entries_in, pack_heads, pack_payloads, unpack, without
from bot.store.redis_store import RedisStore
from tests.contracts.conftest import THREAD, entries_after
from tests.valkey import fresh_store

FIRST_FORM: dict[str, Any] = json.loads(Path(__file__).with_name("log_of_version_1.json").read_text())
"""A log as the first version stored it (its fourth payload erased), with the entries it read from it."""

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_NAME = st.text(st.characters(categories=["L", "N"]), max_size=8)
_ENTRY = st.tuples(
    st.integers(1, 2),
    st.datetimes().map(lambda at: at.isoformat(timespec="microseconds") + "Z"),
    st.sampled_from(["ToolReturned", "Posted"]),
    _NAME,
    st.none() | st.dictionaries(_TEXT, _JSON, max_size=3),
)


def _chained(rows: list[Any], first: int) -> list[Entry]:
    entries: list[Entry] = []
    for seq, (v, at, kind, run, payload) in enumerate(rows, first):
        own = hashlib.sha256(str(seq).encode()).hexdigest()
        prev = entries[-1].hash if entries else "ab" * 32
        salt = None if payload is None else f"{seq:032x}"
        entries.append(Entry(v, seq, at, kind, run, payload, salt, "cd" * 32, prev, own))
    return entries


@settings(max_examples=200)
@given(st.lists(_ENTRY, min_size=1, max_size=6), st.integers(1, 10**6))
def test_what_is_read_is_what_was_written(rows: list[Any], first: int) -> None:
    """Every value of every entry, erased ones and those of an older schema among them."""
    entries = _chained(rows, first)
    heads = pack_heads(entries)

    found = unpack(entries[-1].seq, heads, pack_payloads(entries))

    assert found == entries
    assert [json.dumps(one.dump(), sort_keys=True) for one in found] == [
        json.dumps(one.dump(), sort_keys=True) for one in entries
    ]
    assert entries_in(heads) == len(entries)


def test_a_payload_nested_deeper_than_the_fast_reader_goes_is_read_all_the_same() -> None:
    """What could be hashed can be read."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    [entry] = _chained([(1, "2026-12-01T09:00:00.000000Z", "Posted", "", {"deep": deep})], 1)

    assert unpack(1, pack_heads([entry]), pack_payloads([entry])) == [entry]


def test_what_was_erased_is_nowhere_in_the_block() -> None:
    """Neither the text nor its salt; the others keep theirs."""
    entries = entries_after(3)
    heads, payloads = pack_heads(entries), pack_payloads(entries)
    own = [replace(one, salt=f"{one.seq:02x}" * 16) for one in entries]

    left = without(3, heads, pack_payloads(own), {2})

    assert left is not None
    assert unpack(3, heads, left) == [own[0], replace(own[1], payload=None, salt=None), own[2]]
    assert bytes([2] * 16) not in left
    assert without(3, heads, payloads, {1, 2, 3}) is None
    assert without(3, heads, left, {1, 3}) is None


@pytest.mark.parametrize("wrong", [{"run": "a\x1fb"}, {"type": "A\nB"}, {"salt": "00"}, {"hash": "00"}])
def test_what_could_not_be_read_back_is_not_written(wrong: dict[str, str]) -> None:
    """A separator in a name, a hash of another length."""
    entry = replace(entries_after(1)[0], **wrong)

    with pytest.raises(OurFault, match="entry 1 cannot be stored"):
        (pack_heads([entry]), pack_payloads([entry]))


def test_a_turn_takes_up_less_than_its_raw_json() -> None:
    """Hashes and salts of six entries included, for a text that hardly compresses."""
    noise = hashlib.shake_256(b"seed").hexdigest(1024)
    rows = [(1, f"2026-12-01T09:00:00.00000{number}Z", "ToolReturned", "run", {"n": 1}) for number in range(5)]
    entries = _chained([*rows, (1, "2026-12-01T09:00:00.000006Z", "ToolReturned", "run", {"content": noise})], 1)

    assert len(pack_heads(entries)) + len(pack_payloads(entries)) < len(noise)


async def _first_form(store: RedisStore) -> Held:
    """As if that version had written it, and this one taken the thread over."""
    commands, keys = store.clients.commands, store.keys
    for entry_id, head in FIRST_FORM["log"]:
        await commands.xadd(keys.log(THREAD), {"h": head}, id=entry_id)
    await commands.hset(keys.payloads(THREAD), mapping=FIRST_FORM["payloads"])
    await commands.hset(keys.state(THREAD), mapping={**FIRST_FORM["state"], "ep": 1, "own": "w", "rdy": 1})
    await commands.zadd(keys.index(keys.tag(THREAD)), {str(THREAD): 1})
    return Held(THREAD, 1, "w")


def test_any_flipped_bit_is_found_by_who_verifies_and_by_who_replays() -> None:
    """In heads or payloads, of this form or the first: named within its block, and nothing runs on it."""
    entries = entries_after(5)
    first, heads, payloads = entries[:2], pack_heads(entries[2:4]), pack_payloads(entries[2:4])
    after = unpack(5, pack_heads(entries[4:]), pack_payloads(entries[4:]))

    for place in range(len(heads + payloads)):
        bent = bytearray(heads + payloads)
        bent[place] ^= 4
        found = unpack(4, bytes(bent[: len(heads)]), bytes(bent[len(heads) :]))
        if found == entries[2:4]:
            assert place == len(heads), "only the mark of the payloads says nothing"
            continue

        verdict = verify(THREAD, [entry.dump() for entry in (*first, *found, *after)])

        assert verdict.broken_at in (3, 4)
        assert not any(entry.payload is None for entry in found), "damage must not pass for an erasure"


def test_what_cannot_be_read_stops_a_replay() -> None:
    """A worker sets the thread aside instead of going on without it."""
    [entry] = entries = entries_after(1)
    for heads, payloads in (
        (pack_heads(entries)[:40], pack_payloads(entries)),
        (b"[1,", b"[]"),
        (pack_heads(entries), pack_payloads(entries)[:-20]),
        (pack_heads(entries), pack_payloads([entry, entry])),
    ):
        with pytest.raises((KeyError, ValueError)):
            replay(THREAD, unpack(1, heads, payloads))


def test_a_block_that_was_stored_once_is_read_for_ever() -> None:
    """Recorded with its second payload erased; what the compressor knows beforehand is part of the form."""
    block: dict[str, Any] = json.loads(Path(__file__).with_name("block_of_version_2.json").read_text())

    found = unpack(block["last"], bytes.fromhex(block["heads"]), bytes.fromhex(block["payloads"]))

    assert [entry.dump() for entry in found] == block["entries"]
    assert verify(THREAD, block["entries"]).erased == 1


@pytest.mark.wire
async def test_a_log_of_the_first_version_is_read_and_written_on(valkey: Embedded) -> None:
    """Its own export is the judge; new blocks follow old entries, and an old one can be erased."""
    async with fresh_store(valkey) as store:
        held = await _first_form(store)
        old = await store.log.read(THREAD)
        summary = (await store.archive.threads())[0]
        new = entries_after(3, after=old[-1])

        for _ in range(2):
            await store.log.commit(held, Commit(entries=new))
        await store.log.erase(held, [2, new[1].seq])

        found = [entry.dump() for entry in await store.log.read(THREAD)]
        assert [entry.dump() for entry in old] == FIRST_FORM["entries"]
        assert (summary.entries, summary.head, summary.changed_at) == (5, old[-1].hash, old[-1].at)
        assert [line["seq"] for line in found] == list(range(1, 9))
        assert [line["seq"] for line in found if "payload" not in line] == [2, 4, 7]
        assert verify(THREAD, found, head=new[-1].hash).whole
        assert await store.log.read(THREAD, after=6) == [replace(new[1], payload=None, salt=None), new[2]]
        assert found[0]["prev"] == genesis(THREAD)


@pytest.mark.wire
async def test_a_session_at_rest_is_three_keys_and_nothing_in_the_process(valkey: Embedded) -> None:
    """State, log and payloads; what comes next is found all the same."""
    async with fresh_store(valkey) as store:
        for number in range(3):
            await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": str(number)}), claim=str(number))
            held = await store.lease.next_ready("w", wait_s=1, lease_s=60)
            assert held is not None and held.epoch == number + 1
            [item] = await store.inbox.pending(THREAD)
            entries = entries_after(2, after=(await store.log.read(THREAD) or [None])[-1])
            await store.ledger.begin(held, "c1", "key")
            await store.ledger.end(held, "c1", {"ok": True})
            said = [Notice(key="n", text="x")]
            step = Commit(entries=entries, consumed=[item.id], effects=said, settled=["c1"])
            await store.log.commit(held, step)
            [row] = await store.outbox.rows(THREAD)
            await store.outbox.done(held, row.id, [])
            await store.lease.release(held, parked=False)
            store.lease.let_go(held)

        names = await store.clients.commands.keys(f"*{THREAD}")
        assert sorted(names) == sorted(name(THREAD) for name in (store.keys.state, store.keys.log, store.keys.payloads))
        assert not any(value for value in vars(store.lease).values() if isinstance(value, dict | set))
