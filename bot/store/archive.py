"""What console and command line read."""

from __future__ import annotations

import json

from bot.core.chain import Entry
from bot.core.words import ThreadId
from bot.engine.storage import ThreadSummary
from bot.store.clients import Clients
from bot.store.keys import Keys
from bot.store.log import read_entries


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
            rows = await self._clients.commands.xrevrange(self._keys.log(thread), count=1)
        if not rows:
            return ThreadSummary(thread, 0, "", "")
        entry_id, fields = rows[0]
        _, at, *_rest, own = json.loads(fields["h"])
        return ThreadSummary(thread, int(entry_id.partition("-")[0]), own, at)

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
