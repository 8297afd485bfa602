"""How the entries of one commit are kept: a block of heads for the stream, a block of payloads beside it.

1. Reading gives exactly the entries that were written; what the version before this one wrote is read too.
2. A payload and its salt go together, and whatever is erased leaves its head and digest untouched.

Heads: a mark, the `prev` of the first entry, the length of the text, a line of text for each entry (time, type;
run and version where they change), then digest and hash of each. `prev` of the others is the hash before it.
Payloads: a mark, a salt for each entry, then their JSON, compressed together: a call's arguments and ids stand in
five of a turn's six events. What that gives up: erasing one payload writes those of its commit anew.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from typing import Any

from pydantic_core import from_json

from bot.core.chain import SALT_BYTES, Entry
from bot.core.errors import OurFault

_MARK = b"\x01"
_HASH = 32
_TEXT_AT = len(_MARK) + _HASH + 4
_BETWEEN = "\x1f"
_SECOND = len("2026-12-01T09:00:00.")
_SAME_SECOND = "+"
"""Stands for the part of a time that it shares with the entry before it."""
_ERASED = bytes(SALT_BYTES)
# Made once: `json.dumps` with options makes an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def pack_heads(entries: Sequence[Entry]) -> bytes:
    """What the stream keeps of one commit's entries. Raises `OurFault` for what could not be read back."""
    lines, sealed, before = [], [], ("", "", 0)
    for entry in entries:
        second = entry.at[:_SECOND]
        at = _SAME_SECOND + entry.at[_SECOND:] if second == before[0] else entry.at
        changed = f"{_BETWEEN}{entry.run}{_BETWEEN}{entry.v}" if (entry.run, entry.v) != before[1:] else ""
        lines.append(f"{at}{_BETWEEN}{entry.type}{changed}")
        sealed.append(bytes.fromhex(entry.payload_digest + entry.hash))
        if len(sealed[-1]) != 2 * _HASH or not f"{entry.at}{entry.type}{entry.run}".isprintable():
            raise OurFault(f"entry {entry.seq} cannot be stored: its hashes, type or run are not of the log's form")
        before = (second, entry.run, entry.v)
    text = "\n".join(lines).encode()
    return b"".join((_MARK, bytes.fromhex(entries[0].prev), len(text).to_bytes(4, "big"), text, *sealed))


def pack_payloads(entries: Sequence[Entry]) -> bytes:
    """What stands beside the stream."""
    salts = [_ERASED if entry.salt is None else bytes.fromhex(entry.salt) for entry in entries]
    if odd := [entry.seq for entry, salt in zip(entries, salts, strict=True) if len(salt) != SALT_BYTES]:
        raise OurFault(f"entry {odd[0]} cannot be stored: its salt is not of {SALT_BYTES} bytes")
    return _block(salts, [None if entry.payload is None else dict(entry.payload) for entry in entries])


def _block(salts: Sequence[bytes], payloads: Sequence[Any]) -> bytes:
    return b"".join((_MARK, *salts, zlib.compress(_encode(payloads).encode(), 1)))


def unpack(last: int, heads: bytes, payloads: bytes | None) -> list[Entry]:
    """The entries of a block whose last one has that seq; without `payloads` all of them are erased."""
    if not heads.startswith(_MARK):
        return [_unpack_first_form(last, heads, payloads)]
    sealed_at = _TEXT_AT + int.from_bytes(heads[_TEXT_AT - 4 : _TEXT_AT], "big")
    lines = heads[_TEXT_AT:sealed_at].decode().split("\n")
    salts, values = _opened(payloads, len(lines))
    sealed, prev = heads[sealed_at:].hex(), heads[1 : 1 + _HASH].hex()
    entries: list[Entry] = []
    second, run, v, seq = "", "", 0, last - len(lines)
    for line, payload, salt in zip(lines, values, salts, strict=True):
        at, kind, *changed = line.split(_BETWEEN)
        if changed:
            run, v = changed[0], int(changed[1])
        if at[0] == _SAME_SECOND:
            at = second + at[1:]
        else:
            second = at[:_SECOND]
        place = len(entries) * 4 * _HASH
        own, seq = sealed[place + 2 * _HASH : place + 4 * _HASH], seq + 1
        fields = {"v": v, "seq": seq, "at": at, "type": kind, "run": run, "payload": payload, "salt": salt}
        fields |= {"payload_digest": sealed[place : place + 2 * _HASH], "prev": prev, "hash": own}
        entries.append(_entry(fields))
        prev = own
    return entries


def _opened(payloads: bytes | None, count: int) -> tuple[list[str | None], list[Any]]:
    if payloads is None:
        return [None] * count, [None] * count
    text = zlib.decompress(payloads[1 + count * SALT_BYTES :])
    try:
        values: list[Any] = from_json(text, cache_strings="keys")
    except ValueError:  # nested deeper than that reader goes, twice as fast as the standard library's
        values = json.loads(text)
    salts = payloads[1 : 1 + count * SALT_BYTES].hex()
    return [
        None if value is None else salts[place : place + 2 * SALT_BYTES]
        for place, value in zip(range(0, len(salts), 2 * SALT_BYTES), values, strict=True)
    ], values


def _entry(fields: dict[str, Any]) -> Entry:
    # A frozen dataclass sets its fields one by one, at twice the cost of all the rest of reading an entry.
    entry = object.__new__(Entry)
    object.__setattr__(entry, "__dict__", fields)
    return entry


def entries_in(heads: bytes) -> int:
    """How many entries a block holds."""
    if not heads.startswith(_MARK):
        return 1
    sealed_at = _TEXT_AT + int.from_bytes(heads[_TEXT_AT - 4 : _TEXT_AT], "big")
    return (len(heads) - sealed_at) // (2 * _HASH)


def without(last: int, heads: bytes, payloads: bytes, seqs: Collection[int]) -> bytes | None:
    """A block's payloads without those of `seqs`; `None` when none is left."""
    entries = unpack(last, heads, payloads)
    kept = [None if entry.seq in seqs else entry.payload for entry in entries]
    if not any(payload is not None for payload in kept):
        return None
    pairs = zip(entries, kept, strict=True)
    return _block([_ERASED if left is None else bytes.fromhex(entry.salt or "") for entry, left in pairs], kept)


def _unpack_first_form(seq: int, head: bytes, packed: bytes | None) -> Entry:
    """One entry as JSON texts: what the first version wrote."""
    v, at, kind, run, prev, digest, own = json.loads(head)
    salt, payload = json.loads(packed) if packed is not None else (None, None)
    return Entry(v, seq, at, kind, run, payload, salt, digest, prev, own)
