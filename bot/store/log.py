"""The append-only log of a thread: heads in a stream, payloads beside it."""

from __future__ import annotations

import json
import re
import secrets
from datetime import datetime
from itertools import pairwise
from typing import Any

from bot.core.chain import Entry, genesis
from bot.core.errors import Fenced, OurFault
from bot.core.words import ThreadId
from bot.engine.storage import Commit, Held
from bot.store.clients import Clients
from bot.store.keys import Keys

# Made once: `json.dumps` with options makes an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_STREAM_ID = re.compile(r"^\d+-\d+$")


class RedisLog:
    """The EventLog port."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        self._clients = clients
        self._keys = keys

    async def read(self, thread: ThreadId, after: int = 0) -> list[Entry]:
        """Oldest first."""
        return await read_entries(self._clients, self._keys, thread, after)

    async def commit(self, held: Held, step: Commit) -> None:
        """All of it in one call. Raises `Fenced`."""
        _check(held.thread, step)
        if len(step.entries) == 1 and not (step.consumed or step.effects or step.timers or step.pins):
            await self._append(held, step.entries[0])
            return
        thread, keys = held.thread, self._keys
        tag = keys.tag(thread)
        names = [
            keys.state(thread),
            keys.log(thread),
            keys.payloads(thread),
            keys.inbox(thread),
            keys.outbox(thread),
            keys.timers(tag),
            keys.timer_bodies(tag),
            keys.index(tag),
            *(keys.pin(tag, digest) for digest in step.pins),
        ]
        first, last = (step.entries[0], step.entries[-1]) if step.entries else (None, None)
        head: list[str | int] = [
            held.epoch,
            held.owner,
            secrets.token_hex(8),
            str(thread),
            first.seq - 1 if first else 0,
            first.prev if first else "",
            last.hash if last else "",
            _ms(last.at) if last else 0,
            len(step.entries),
            len(step.consumed),
            len(step.effects),
            len(step.timers),
            len(step.pins),
        ]
        await self._clients.call("commit", names, *head, *_items(step))

    async def _append(self, held: Held, entry: Entry) -> None:
        """One entry and nothing else: the cheap case."""
        thread, keys = held.thread, self._keys
        names = [keys.state(thread), keys.log(thread), keys.payloads(thread), keys.index(keys.tag(thread))]
        small = f"{held.epoch} {held.owner} {entry.seq - 1} {entry.prev} {entry.hash} {_ms(entry.at)}"
        await self._clients.call("append", names, small, pack_head(entry), pack_payload(entry))


def _check(thread: ThreadId, step: Commit) -> None:
    """Lua does not roll back: what could fail half-way is found before anything is written."""
    for before, after in pairwise(step.entries):
        if after.seq != before.seq + 1 or after.prev != before.hash:
            raise OurFault(f"entry {after.seq} does not follow entry {before.seq} of the same commit")
    if step.entries and step.entries[0].seq == 1 and step.entries[0].prev != genesis(thread):
        raise Fenced("the first entry belongs to another thread")
    if odd := [one for one in step.consumed if not _STREAM_ID.match(one)]:
        raise OurFault(f"{odd[0]!r} is no id of an inbox item")


def _items(step: Commit) -> list[str | int]:
    items: list[str | int] = []
    for entry in step.entries:
        items += [entry.seq, pack_head(entry), pack_payload(entry)]
    items += step.consumed
    items += [effect.model_dump_json() for effect in step.effects]
    for timer in step.timers:
        due = -1 if timer.due is None else int(timer.due.timestamp() * 1000)
        items += [timer.name, due, json.dumps({"name": timer.name, **timer.body})]
    return items + list(step.pins.values())


def pack_head(entry: Entry) -> str:
    """What the stream keeps of an entry."""
    return _encode([entry.v, entry.at, entry.type, entry.run, entry.prev, entry.payload_digest, entry.hash])


def pack_payload(entry: Entry) -> str:
    """What stands beside the stream, and can be erased alone."""
    return _encode([entry.salt, dict(entry.payload or {})])


async def read_entries(clients: Clients, keys: Keys, thread: ThreadId, after: int = 0) -> list[Entry]:
    """Entries above `after`; an erased payload is `None`."""
    async with clients.failures("read a log"):
        heads = await clients.commands.xrange(keys.log(thread), min=f"{after + 1}-0")
        seqs = [entry_id.partition("-")[0] for entry_id, _ in heads]
        found = await clients.commands.hmget(keys.payloads(thread), seqs) if seqs else []
    payloads = {seq: packed for seq, packed in zip(seqs, found, strict=True) if packed is not None}
    return [_entry(entry_id, fields, payloads) for entry_id, fields in heads]


def _entry(entry_id: str, fields: dict[str, str], payloads: dict[str, str]) -> Entry:
    seq = entry_id.partition("-")[0]
    v, at, kind, run, prev, digest, own = json.loads(fields["h"])
    salt: str | None = None
    payload: dict[str, Any] | None = None
    if seq in payloads:
        salt, payload = json.loads(payloads[seq])
    return Entry(v, int(seq), at, kind, run, payload, salt, digest, prev, own)


def _ms(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1000)
