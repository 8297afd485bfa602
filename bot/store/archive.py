"""What console and command line read."""

from __future__ import annotations

from redis.client import NEVER_DECODE

from bot.core.chain import Entry
from bot.core.words import ThreadId
from bot.engine.storage import ThreadSummary
from bot.store.clients import Clients
from bot.store.keys import Keys
from bot.store.log import read_entries
from bot.store.packing import unpack


class RedisArchive:
    """The Archive port; never writes."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        self._clients = clients
        self._keys = keys

    async def threads(self, limit: int = 1000) -> list[ThreadSummary]:
        """Most recently changed first."""
        found: list[ThreadSummary] = []
        for tag in self._keys.tags():
            async with self._clients.failures("list threads"):
                names = await self._clients.commands.zrange(self._keys.index(tag), 0, limit - 1, desc=True)
            for name in names:
                found.append(await self._summary(ThreadId(*name.split("/"))))
        return sorted(found, key=lambda one: one.changed_at, reverse=True)[:limit]

    async def _summary(self, thread: ThreadId) -> ThreadSummary:
        async with self._clients.failures("read a thread's state"):
            ask = ("XREVRANGE", self._keys.log(thread), "+", "-", "COUNT", 1)
            rows = await self._clients.commands.execute_command(*ask, **{NEVER_DECODE: True})
        if not rows:
            return ThreadSummary(thread, 0, "", "")
        entry_id, fields = rows[0]
        last = unpack(int(entry_id.partition(b"-")[0]), fields[b"h"], None)[-1]
        return ThreadSummary(thread, last.seq, last.hash, last.at)

    async def read(self, thread: ThreadId) -> list[Entry]:
        """The whole log; empty for an unknown thread."""
        return await read_entries(self._clients, self._keys, thread)

    async def pinned(self, digest: str) -> str | None:
        """The content behind a digest."""
        for tag in self._keys.tags():
            async with self._clients.failures("read a pinned content"):
                content = await self._clients.commands.get(self._keys.pin(tag, digest))
            if content is not None:
                return str(content)
        return None
