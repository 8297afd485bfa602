"""How the entries of one commit are kept: a block of heads for the stream, a block of payloads beside it.

1. Reading gives exactly the entries that were written; what the version before this one wrote is read too.
2. A payload and its salt go together, and whatever is erased leaves its head and digest untouched.
3. What cannot be read is neither an error nor an erasure: it becomes what no verifier and no replay accepts.

Heads: a mark; the `prev` of the first entry (that of the others is the hash before them); the length of the text;
the text, a column each of times, types, runs and versions; digest and hash of each entry.
Payloads: a mark; a salt for each entry; their JSON, compressed together, for a call's ids and arguments stand in
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
_SECOND = len("2026-12-01T09:00:00.")
_SAME_SECOND = "+"
"""Stands for the part of a time that it shares with the entry before it."""
_ERASED = bytes(SALT_BYTES)
# Made once: `json.dumps` with options makes an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_COMMON = (
    b'[{"ts":"1780000000.000100","author":"U0","trust":"principal","text":"","lowered_by":[]}'
    b'{"lost":{"input_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"output_tokens":0,"calls":0},"lost_usd":0.0'
    b'"pins":{},"by_bot":false,"policy_version":"","call_id":"toolu_01","ok":false,"content":{"refused":'
    b'[{"turn":1,"role":"agent","content":[{"type":"thinking","thinking":"","signature":"'
    b'{"type":"text","text":"","citations":null},{"type":"tool_use","id":"toolu_01","name":"","input":{"'
    b'}}],"stop_reason":"end_turn","tool_use","usage":{"input_tokens":1,"cache_read_tokens":1,"cache_write_tokens":1,'
    b'"output_tokens":1,"calls":1},"cost_usd":0.01,"model":"claude-","request_id":"req_","cache_miss_reason":"",'
    b'"invalid_calls":{}},{"call_id":"toolu_01","tool":"","arguments":{"},"authority":"observe","stage":0,"invalid":""},'
    b'{"call_id":"toolu_01","verdict":"allowed","reason":"","ceiling":"critical"},'
    b'{"call_id":"toolu_01","idempotency_key":"'
    b'"},{"call_id":"toolu_01","ok":true,"content":"","trust":"internal","readers":"team","facts_added":1,"ran":true,'
    b'"retryable":false},{"turn":1,"role":"agent","reserved_tokens":1,"reserved_usd":0.01,"model":"claude-",'
    b'"max_output_tokens":8192,"lost":{"input_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"output_tokens":0,'
    b'"calls":0},"lost_usd":0.0,"request_bytes":1,"request_digest":"'
)
"""What the payloads of any turn have in common, known to the compressor beforehand: a sixth of what is kept.

Part of the form, so never changed: with another text (new fields, say) goes another mark.
"""


def pack_heads(entries: Sequence[Entry]) -> bytes:
    """What the stream keeps of one commit's entries. Raises `OurFault` for what could not be read back."""
    times, sealed, second = [], [], ""
    for entry in entries:
        times.append(_SAME_SECOND + entry.at[_SECOND:] if second == entry.at[:_SECOND] else entry.at)
        second = entry.at[:_SECOND]
        sealed.append(bytes.fromhex(entry.payload_digest + entry.hash))
        if len(sealed[-1]) != 2 * _HASH or not f"{entry.at}{entry.type}{entry.run}".isprintable():
            raise OurFault(f"entry {entry.seq} cannot be stored: its hashes, type or run are not of the log's form")
    columns = (times, [one.type for one in entries], [one.run for one in entries], [str(one.v) for one in entries])
    text = "\x1f".join("\n".join(column if len(set(column)) > 1 else column[:1]) for column in columns).encode()
    return b"".join((_MARK, bytes.fromhex(entries[0].prev), len(text).to_bytes(4, "big"), text, *sealed))


def pack_payloads(entries: Sequence[Entry]) -> bytes:
    """What stands beside the stream."""
    salts = [_ERASED if entry.salt is None else bytes.fromhex(entry.salt) for entry in entries]
    if odd := [entry.seq for entry, salt in zip(entries, salts, strict=True) if len(salt) != SALT_BYTES]:
        raise OurFault(f"entry {odd[0]} cannot be stored: its salt is not of {SALT_BYTES} bytes")
    return _block(salts, [None if entry.payload is None else dict(entry.payload) for entry in entries])


def _block(salts: Sequence[bytes], payloads: Sequence[Any]) -> bytes:
    packer = zlib.compressobj(1, zdict=_COMMON)
    return b"".join((_MARK, *salts, packer.compress(_encode(payloads).encode()), packer.flush()))


def unpack(last: int, heads: bytes, payloads: bytes | None) -> list[Entry]:
    """The entries of a block whose last one has that seq; without `payloads` all of them are erased."""
    try:
        if not heads.startswith(_MARK):
            return [_unpack_first_form(last, heads, payloads)]
        return _unpack(last, heads, payloads)
    except (ValueError, LookupError, TypeError) as damage:
        return [Entry(0, last, "", "Unreadable", "", _unreadable(damage), "", "", "", "")]


def _unreadable(damage: Exception) -> dict[str, Any]:
    return {"unreadable": f"{type(damage).__name__}: {damage}"}


def _unpack(last: int, heads: bytes, payloads: bytes | None) -> list[Entry]:
    sealed_at = _sealed_at(heads)
    text, sealed = heads[_TEXT_AT:sealed_at].decode(), heads[sealed_at:].hex()
    hashes = [sealed[place : place + 2 * _HASH] for place in range(0, len(sealed), 2 * _HASH)]
    digests, own = hashes[::2], hashes[1::2]
    times, kinds, runs, versions = (_column(column, len(own)) for column in text.split("\x1f"))
    salts, values = _opened(payloads, len(own))
    seqs = range(last - len(own) + 1, last + 1)
    prevs = [heads[1 : 1 + _HASH].hex(), *own[:-1]]
    rows = zip(map(int, versions), seqs, _whole(times), kinds, runs, values, salts, digests, prevs, own, strict=True)
    return [_entry(row) for row in rows]


def _sealed_at(heads: bytes) -> int:
    return _TEXT_AT + int.from_bytes(heads[_TEXT_AT - 4 : _TEXT_AT], "big")


def _column(text: str, count: int) -> list[str]:
    values = text.split("\n")
    return values if len(values) == count else values * count


def _whole(times: list[str]) -> list[str]:
    found, second = [], ""
    for at in times:
        if at[0] == _SAME_SECOND:
            found.append(second + at[1:])
        else:
            found.append(at)
            second = at[:_SECOND]
    return found


def _opened(payloads: bytes | None, count: int) -> tuple[list[str | None], list[Any]]:
    if payloads is None:
        return [None] * count, [None] * count
    start = 1 + count * SALT_BYTES
    try:
        values = _values(zlib.decompressobj(zdict=_COMMON).decompress(payloads[start:]))
    except (ValueError, zlib.error) as damage:
        values = [_unreadable(damage)] * count
    salts = [payloads[place : place + SALT_BYTES].hex() for place in range(1, start, SALT_BYTES)]
    return [None if value is None else salt for value, salt in zip(values, salts, strict=True)], values


def _values(text: bytes) -> Any:
    try:
        return from_json(text, cache_strings="keys")
    except ValueError:  # nested deeper than that reader goes; it is twice as fast as the standard library's
        return json.loads(text)


def _entry(row: tuple[Any, ...]) -> Entry:
    # A frozen dataclass sets its fields one by one, at the cost of all the rest of reading an entry.
    v, seq, at, kind, run, payload, salt, digest, prev, own = row
    entry = object.__new__(Entry)
    fields = {
        "v": v,
        "seq": seq,
        "at": at,
        "type": kind,
        "run": run,
        "payload": payload,
        "salt": salt,
        "payload_digest": digest,
        "prev": prev,
        "hash": own,
    }
    object.__setattr__(entry, "__dict__", fields)
    return entry


def entries_in(heads: bytes) -> int:
    """How many entries a block holds."""
    return (len(heads) - _sealed_at(heads)) // (2 * _HASH) if heads.startswith(_MARK) else 1


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
