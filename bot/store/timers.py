"""Timers: due ones become inbox items, each once, whichever process looks."""

from __future__ import annotations

import time

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
            # A generous look ahead: the Function compares with the server's own clock.
            until = int(time.time() * 1000) + 60_000
            async with self._clients.failures("look for due timers"):
                members = await self._clients.commands.zrange(
                    self._keys.timers(tag), "-inf", until, byscore=True, offset=0, num=limit
                )
            for member in members:
                fired += await self._fire(tag, member)
        return fired

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
