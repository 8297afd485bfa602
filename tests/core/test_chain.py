"""The log's chain, recomputed with nothing but hashlib: the code under test is not its own judge."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.chain import Entry, genesis, seal_entry, verify
from bot.core.events import MessageIgnored, PayloadErased, parse_event
from tests.builders import THREAD


def _log(count: int = 6) -> list[Entry]:
    entries: list[Entry] = []
    prev = genesis(THREAD)
    for number in range(count):
        event = MessageIgnored(ts=f"1.{number}", reason=f"r{number}", author="U0BOB")
        entry = seal_entry(
            event,
            seq=number + 1,
            at=f"2026-12-01T09:00:0{number}.000000Z",
            run="",
            prev=prev,
            salt=bytes([number]) * 16,
        )
        entries.append(entry)
        prev = entry.hash
    return entries


def _oracle_hash(line: dict[str, Any]) -> str:
    payload = json.dumps(line["payload"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(bytes.fromhex(line["salt"]) + payload).hexdigest()
    head = {name: line[name] for name in ("v", "seq", "at", "type", "run", "prev")} | {"payload_digest": digest}
    return hashlib.sha256(json.dumps(head, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_each_entry_is_hashed_as_the_handbook_says() -> None:
    """An auditor's own twenty lines come to the same hashes."""
    first = hashlib.sha256(b"plimsoll/1:T0PLIMSOLL/C0SUPPORT/1780000000.000100").hexdigest()

    lines = [entry.dump() for entry in _log()]

    assert [line["prev"] for line in lines] == [first, *(line["hash"] for line in lines[:-1])]
    assert [line["hash"] for line in lines] == [_oracle_hash(line) for line in lines]


def test_a_whole_log_verifies_to_its_head() -> None:
    """With the thread known or not, and with the head anchored."""
    lines = [entry.dump() for entry in _log()]

    assert verify(THREAD, lines).whole
    assert verify(None, lines).whole
    assert verify(THREAD, lines, head=lines[-1]["hash"].upper()).whole
    assert verify(THREAD, []).head == genesis(THREAD)


def test_an_erased_payload_keeps_the_chain_whole_and_is_counted() -> None:
    """The digest alone stays."""
    lines = [replace(entry, payload=None, salt=None).dump() if entry.seq == 3 else entry.dump() for entry in _log()]

    found = verify(THREAD, lines)

    assert (found.whole, found.erased) == (True, 1)
    assert "payload" not in lines[2]


def test_a_cut_tail_is_noticed_by_an_anchored_head() -> None:
    """Without the anchor nothing could tell."""
    lines = [entry.dump() for entry in _log()]

    found = verify(THREAD, lines[:-1], head=lines[-1]["hash"])

    assert not found.whole
    assert "cut off" in found.why


def test_a_log_of_another_thread_does_not_pass_for_this_one() -> None:
    """The first prev names the thread."""
    assert not verify(replace(THREAD, channel="C0OTHER"), [entry.dump() for entry in _log()]).whole


@given(
    st.integers(0, 5),
    st.sampled_from(["drop", "swap", "payload", "at", "run", "salt", "hash", "type", "garble"]),
    st.data(),
)
def test_any_single_change_is_noticed_and_placed(place: int, what: str, data: st.DataObject) -> None:
    """Whatever moves, verify names an entry at or before it."""
    lines: list[Any] = [entry.dump() for entry in _log()]
    if what == "drop":
        place = min(place, 4)
        del lines[place]
    elif what == "swap":
        place = min(place, 4)
        lines[place], lines[place + 1] = lines[place + 1], lines[place]
    elif what == "payload":
        lines[place]["payload"] = {**lines[place]["payload"], "reason": data.draw(st.text()) + "x9"}
    elif what == "garble":
        lines[place] = data.draw(st.sampled_from([{}, {"seq": place + 1}, None, "text"]))
    else:
        lines[place][what] = ("0" if lines[place][what][:1] != "0" else "1") + lines[place][what][1:]

    found = verify(THREAD, lines)

    assert not found.whole
    assert found.broken_at in (place + 1, place + 2)
    assert found.why


def test_an_event_and_its_type_are_what_the_entry_says() -> None:
    """The class's name is the type."""
    assert PayloadErased(seqs=[1], by="U0ERIN").type == "PayloadErased"


@pytest.mark.parametrize("kind", ["Nonsense", "", "runstarted"])
def test_a_type_this_version_does_not_know_is_refused(kind: str) -> None:
    """It is left for a version that does."""
    with pytest.raises(KeyError):
        parse_event(kind, {})
