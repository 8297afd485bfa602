"""Timers: due ones become inbox items, each once, whichever process looks."""

from __future__ import annotations

from bot.core.words import ThreadId
from bot.store.clients import Clients
from bot.store.keys import Keys


class RedisTimers:
    """The Timers port."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        self._clients = clients
        self._keys = keys

    async def fire_due(self, limit: int = 100) -> int:
        """The server's clock decides what is due."""
        fired = 0
        for tag in self._keys.tags():
            async with self._clients.failures("look for due timers"):
                seconds, micros = await self._clients.commands.time()
                until = seconds * 1000 + micros // 1000
                members = await self._clients.commands.zrange(
                    self._keys.timers(tag), "-inf", until, byscore=True, offset=0, num=limit
                )
            for member in members:
                fired += await self._fire(tag, member)
        return fired

    async def count(self, prefix: str) -> int:
        """The whole set is read: it holds a few timers for each open approval, and a scan may show one twice."""
        found = 0
        for tag in self._keys.tags():
            async with self._clients.failures("count timers"):
                members = await self._clients.commands.zrange(self._keys.timers(tag), 0, -1)
            found += sum(member.split("\x1f", 1)[-1].startswith(prefix) for member in members)
        return found

    async def _fire(self, tag: str, member: str) -> int:
        thread = ThreadId(*member.split("\x1f", 1)[0].split("/"))
        keys = self._keys
        names = [
            keys.timers(tag),
            keys.timer_bodies(tag),
            keys.state(thread),
            keys.inbox(thread),
            keys.ready(tag),
        ]
        return int(await self._clients.call("fire_timers", names, member, str(thread)))
