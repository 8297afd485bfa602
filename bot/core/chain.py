"""The hash chain of a thread's log: how an entry is sealed, and how a reader proves that nothing moved.

1. The chain covers salted digests of payloads, so that erasing a payload with its salt keeps it whole.
2. Nothing here trusts a stored hash: `verify` computes every one again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.core.canon import canonical
from bot.core.events import SCHEMA_VERSION, Event
from bot.core.words import ThreadId

SALT_BYTES = 16


@dataclass(frozen=True)
class Entry:
    """One line of a log as it is stored and exported."""

    v: int
    seq: int
    """Counts from 1 within the thread."""
    at: str
    """RFC 3339 UTC with microseconds and Z."""
    type: str
    run: str
    """Empty for what belongs to no run."""
    payload: Mapping[str, Any] | None
    """`None` after erasure."""
    salt: str | None
    """Hex; `None` after erasure."""
    payload_digest: str
    prev: str
    hash: str

    def dump(self) -> dict[str, Any]:
        """As a line of an export; an erased entry carries the digest alone."""
        line = {"v": self.v, "seq": self.seq, "at": self.at, "type": self.type, "run": self.run}
        if self.payload is not None:
            line |= {"payload": dict(self.payload), "salt": self.salt}
        return line | {"payload_digest": self.payload_digest, "prev": self.prev, "hash": self.hash}


def genesis(thread: ThreadId) -> str:
    """The `prev` of the first entry."""
    return hashlib.sha256(f"plimsoll/1:{thread}".encode()).hexdigest()


def payload_digest(salt: bytes, payload: Mapping[str, Any]) -> str:
    """sha256(salt bytes + JCS(payload)), hex."""
    return hashlib.sha256(salt + canonical(dict(payload))).hexdigest()


def entry_hash(v: int, seq: int, at: str, kind: str, run: str, prev: str, digest: str) -> str:
    """sha256(JCS({v, seq, at, type, run, prev, payload_digest})), hex."""
    head = {"v": v, "seq": seq, "at": at, "type": kind, "run": run, "prev": prev, "payload_digest": digest}
    return hashlib.sha256(canonical(head)).hexdigest()


def seal_entry(event: Event, *, seq: int, at: str, run: str, prev: str, salt: bytes) -> Entry:
    """The entry that follows the one whose hash is `prev`."""
    payload = event.model_dump(mode="json")
    digest = payload_digest(salt, payload)
    sealed = entry_hash(SCHEMA_VERSION, seq, at, event.type, run, prev, digest)
    return Entry(SCHEMA_VERSION, seq, at, event.type, run, payload, salt.hex(), digest, prev, sealed)


@dataclass(frozen=True)
class Verdict:
    """What `verify` found."""

    whole: bool
    entries: int
    head: str
    """Hash of the last entry that holds; the genesis where there is none."""
    erased: int = 0
    broken_at: int | None = None
    """The seq of the first entry that does not hold."""
    why: str = ""


def verify(thread: ThreadId | None, lines: Iterable[Mapping[str, Any]], head: str | None = None) -> Verdict:
    """Walk an export (or stored entries as `dump` gives them) and name the first place that does not hold.

    Without `thread` the first line's `prev` is taken as given: whole, but of a thread unknown to the reader.
    With `head` (an anchored hash, hex) a cut tail is noticed too: that hash must be one of the chain's.
    """
    prev, count, erased, seen = genesis(thread) if thread else "", 0, 0, set[str]()
    for line in lines:
        prev = prev or str(line.get("prev", ""))
        if fault := _fault(line, count + 1, prev):
            return Verdict(False, count, prev, erased, count + 1, fault)
        prev, count = str(line["hash"]), count + 1
        erased += "payload" not in line
        seen.add(prev)
    if head is not None and head.lower() not in seen:
        why = "the anchored head is not in this log: its end was cut off, or it is another log"
        return Verdict(False, count, prev, erased, count + 1, why)
    return Verdict(True, count, prev, erased)


def _fault(line: Mapping[str, Any], seq: int, prev: str) -> str:
    try:
        if line["seq"] != seq:
            return f"entry {seq} is missing or out of order (found {line['seq']})"
        if line["prev"] != prev:
            return "it does not follow the entry before it"
        if line.get("payload") is not None or line.get("salt") is not None:
            found = payload_digest(bytes.fromhex(line["salt"]), line["payload"])
            if found != line["payload_digest"]:
                return "its payload is not what was written"
        values = (line["v"], line["seq"], line["at"], line["type"], line["run"], prev, line["payload_digest"])
        return "" if entry_hash(*values) == line["hash"] else "its hash does not cover what it says"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"it cannot be read as an entry ({type(error).__name__}: {error})"
