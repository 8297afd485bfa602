"""Which effects were begun, and how they ended."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from bot.engine.storage import Begun, Held
from bot.store.clients import Clients
from bot.store.keys import Keys


class RedisLedger:
    """The Ledger port."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        self._clients = clients
        self._keys = keys

    def _names(self, held: Held) -> list[str]:
        return [self._keys.state(held.thread), self._keys.effects(held.thread)]

    async def begin(self, held: Held, call_id: str, key: str) -> Begun:
        """Raises `Fenced`: then nothing was begun."""
        [begun] = await self.begin_all(held, [(call_id, key)])
        return begun

    async def begin_all(self, held: Held, calls: Sequence[tuple[str, str]]) -> list[Begun]:
        """Raises `Fenced`: then nothing was begun."""
        # Each attempt has a token of its own, so that a repeat after a lost reply is no second attempt.
        given = [part for call_id, key in calls for part in (call_id, f"{key}:{secrets.token_hex(8)}")]
        answers = await self._clients.call("fx_begin", self._names(held), held.epoch, held.owner, *given)
        return [_begun(str(answer)) for answer in answers]

    async def end(self, held: Held, call_id: str, result: Mapping[str, Any]) -> None:
        """Kept even when the writer is stale; then raises `Fenced`."""
        body = json.dumps(dict(result))
        await self._clients.call("fx_end", self._names(held), held.epoch, held.owner, call_id, body)


def _begun(answer: str) -> Begun:
    if answer.startswith("D:"):
        return "done", json.loads(answer[2:])
    return ("new" if answer == "new" else "started"), None
