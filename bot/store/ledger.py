"""Which effects were begun, and how they ended."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from bot.engine.storage import Held, LedgerState
from bot.store.clients import Clients
from bot.store.keys import Keys


class RedisLedger:
    """The Ledger port."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        self._clients = clients
        self._keys = keys

    def _names(self, held: Held) -> list[str]:
        return [self._keys.state(held.thread), self._keys.effects(held.thread)]

    async def begin(self, held: Held, call_id: str, key: str) -> tuple[LedgerState, Mapping[str, Any] | None]:
        """Raises `Fenced`: then nothing was begun."""
        token = f"{key}:{secrets.token_hex(8)}"
        answer = str(await self._clients.call("fx_begin", self._names(held), held.epoch, held.owner, call_id, token))
        if answer.startswith("D:"):
            return "done", json.loads(answer[2:])
        return ("new" if answer == "new" else "started"), None

    async def end(self, held: Held, call_id: str, result: Mapping[str, Any]) -> None:
        """Kept even when the writer is stale; then raises `Fenced`."""
        body = json.dumps(dict(result))
        await self._clients.call("fx_end", self._names(held), held.epoch, held.owner, call_id, body)
