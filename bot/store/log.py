"""The append-only log of a thread: heads in a stream, payloads beside it, a block of each for every commit."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import pairwise

from bot.core.chain import Entry, genesis
from bot.core.errors import Fenced, OurFault
from bot.core.words import ThreadId
from bot.engine.storage import Commit, Held
from bot.store.clients import Argument, Clients
from bot.store.keys import Keys
from bot.store.packing import entries_in, pack_heads, pack_payloads, unpack, without

Block = tuple[int, bytes, bytes | None]
"""Seq of its last entry, heads, payloads (`None`: all erased)."""
_STREAM_ID = re.compile(r"^\d+-\d+$")


class RedisLog:
    """The EventLog port."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        self._clients = clients
        self._keys = keys

    async def read(self, thread: ThreadId, after: int = 0) -> list[Entry]:
        """Oldest first."""
        return await read_entries(self._clients, self._keys, thread, after)

    async def commit(self, held: Held, step: Commit) -> str:
        """All of it in one call; returns the id of the newest inbox item. Raises `Fenced`."""
        _check(held.thread, step)
        if step.entries and not (step.consumed or step.effects or step.timers or step.pins or step.settled):
            return await self._append(held, step.entries)
        given: list[Argument] = [held.epoch, held.owner, secrets.token_hex(8), str(held.thread)]
        if step.entries:
            first, last = step.entries[0], step.entries[-1]
            blocks = (pack_heads(step.entries), pack_payloads(step.entries))
            given += [first.seq - 1, last.seq, _ms(last.at), *blocks]
        else:
            given += [0, 0, 0, "", ""]
        given += [len(step.consumed), len(step.effects), len(step.timers), len(step.settled), len(step.pins)]
        return str(await self._clients.call("commit", self._names(held.thread, step), *given, *_items(step)))

    def _names(self, thread: ThreadId, step: Commit) -> list[str]:
        keys = self._keys
        tag = keys.tag(thread)
        names = [keys.state(thread), keys.log(thread), keys.payloads(thread), keys.inbox(thread), keys.index(tag)]
        if step.effects:
            names.append(keys.outbox(thread))
        if step.timers:
            names += [keys.timers(tag), keys.timer_bodies(tag)]
        if step.settled:
            names.append(keys.effects(thread))
        return names + [keys.pin(tag, digest) for digest in step.pins]

    async def _append(self, held: Held, entries: Sequence[Entry]) -> str:
        """Entries and nothing else: the cheap case."""
        last, names = entries[-1], self._names(held.thread, Commit(entries))
        small = f"{held.epoch} {held.owner} {entries[0].seq - 1} {last.seq} {_ms(last.at)}"
        blocks = (pack_heads(entries), pack_payloads(entries))
        return str(await self._clients.call("append", names, small, *blocks))

    async def erase(self, held: Held, seqs: Collection[int]) -> None:
        """Payloads and salts of those entries go; a block that holds others too is written anew."""
        thread, keys = held.thread, self._keys
        changed: list[Argument] = []
        for last, heads, payloads in await read_blocks(self._clients, keys, thread, after=min(seqs, default=1) - 1):
            mine = range(last - entries_in(heads) + 1, last + 1)
            if payloads is not None and any(seq in mine for seq in seqs):
                changed += [last, without(last, heads, payloads, seqs) or ""]
        await self._clients.call("erase", [keys.state(thread), keys.payloads(thread)], held.epoch, held.owner, *changed)


def _check(thread: ThreadId, step: Commit) -> None:
    """Lua does not roll back: what could fail half-way is found before anything is written."""
    for before, after in pairwise(step.entries):
        if after.seq != before.seq + 1 or after.prev != before.hash:
            raise OurFault(f"entry {after.seq} does not follow entry {before.seq} of the same commit")
    if step.entries and step.entries[0].seq == 1 and step.entries[0].prev != genesis(thread):
        raise Fenced("the first entry belongs to another thread")
    if odd := [one for one in step.consumed if not _STREAM_ID.match(one)]:
        raise OurFault(f"{odd[0]!r} is no id of an inbox item")


def _items(step: Commit) -> list[Argument]:
    items: list[Argument] = [*step.consumed, *(effect.model_dump_json() for effect in step.effects)]
    for timer in step.timers:
        due = -1 if timer.due is None else int(timer.due.timestamp() * 1000)
        items += [timer.name, due, json.dumps({"name": timer.name, **timer.body})]
    return [*items, *step.settled, *step.pins.values()]


async def read_blocks(clients: Clients, keys: Keys, thread: ThreadId, after: int = 0) -> list[Block]:
    """Blocks that reach above `after`, oldest first, in one round trip."""
    found = await clients.read("read_log", [keys.log(thread), keys.payloads(thread)], after + 1)
    return [
        (int(last or 0), heads or b"", payloads)
        for last, heads, payloads in zip(found[::3], found[1::3], found[2::3], strict=True)
    ]


async def read_entries(clients: Clients, keys: Keys, thread: ThreadId, after: int = 0) -> list[Entry]:
    """Entries above `after`; an erased payload is `None`."""
    entries: list[Entry] = []
    for block in await read_blocks(clients, keys, thread, after):
        entries += unpack(*block)
    return [entry for entry in entries if entry.seq > after] if after else entries


def _ms(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1000)
