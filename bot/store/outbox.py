"""What a thread still has to say."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bot.core.effects import EffectAdapter
from bot.core.words import ThreadId
from bot.engine.storage import Held, OutboxRow
from bot.store.clients import Clients
from bot.store.keys import Keys


class RedisOutbox:
    """The Outbox port."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        self._clients = clients
        self._keys = keys

    async def rows(self, thread: ThreadId) -> list[OutboxRow]:
        """In the order they were said."""
        async with self._clients.failures("read an outbox"):
            fields = await self._clients.commands.hgetall(self._keys.outbox(thread))
        rows = sorted((name for name in fields if ":" not in name), key=int)
        return [
            OutboxRow(row, EffectAdapter.validate_json(fields[row]), int(fields.get(f"{row}:a", 0))) for row in rows
        ]

    async def begin(self, held: Held, row_id: str) -> int:
        """Attempts before this one. Raises `Fenced`."""
        names = [self._keys.state(held.thread), self._keys.outbox(held.thread)]
        return int(await self._clients.call("out_begin", names, held.epoch, held.owner, row_id))

    async def done(self, held: Held, row_id: str, posted: Sequence[tuple[str, str]]) -> None:
        """The row goes; what was posted comes back through the inbox. Raises `Fenced`."""
        thread, keys = held.thread, self._keys
        names = [keys.state(thread), keys.outbox(thread), keys.inbox(thread), keys.ready(keys.tag(thread))]
        body = json.dumps({"keys": [list(pair) for pair in posted]}) if posted else ""
        await self._clients.call("out_done", names, held.epoch, held.owner, row_id, str(thread), body)
