"""One worker at a time for each thread, by the server's clock.

1. A ready entry is acknowledged only when its thread is given back, so a dead worker's thread is found again.
2. The sweep for dead workers runs on an idle queue too, every quarter of a lease, jittered.
"""

from __future__ import annotations

import contextlib
import random
import time

from redis.exceptions import ResponseError

from bot.core.words import ThreadId
from bot.engine.storage import Held
from bot.store.clients import Clients
from bot.store.keys import GROUP, Keys


class RedisLease:
    """The Lease port."""

    def __init__(self, clients: Clients, keys: Keys, seen: dict[str, str]) -> None:
        self._clients = clients
        self._keys = keys
        self._seen = seen
        self._swept = 0.0

    async def make_group(self, ready: str, group: str) -> None:
        """The consumer group of a ready stream, made once."""
        async with self._clients.failures("make its consumer group"):
            with contextlib.suppress(ResponseError):  # BUSYGROUP: it is there already
                await self._clients.commands.xgroup_create(ready, group, id="0", mkstream=True)

    async def next_ready(self, owner: str, *, wait_s: float, lease_s: float) -> Held | None:
        """New work first; when there is none, or it is time, a thread whose worker died."""
        ready = self._keys.ready(self._keys.tags()[0])
        lease_ms = int(lease_s * 1000)
        if time.monotonic() - self._swept > lease_s / 4:
            self._swept = time.monotonic() - random.uniform(0, lease_s / 16)
            if (held := await self._sweep(ready, owner, lease_ms)) is not None:
                return held
        block_ms = max(1, int(min(wait_s, lease_s / 4) * 1000))
        for entry_id, fields in await self._read(ready, owner, block_ms):
            return await self._take(entry_id, fields, owner, lease_ms, ready)
        return None

    async def _read(self, ready: str, owner: str, block_ms: int) -> list[tuple[str, dict[str, str]]]:
        async with self._clients.failures("wait for work"):
            try:
                found = await self._clients.blocking.xreadgroup(
                    GROUP, owner, {ready: ">"}, count=1, block=block_ms
                )
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                await self.make_group(ready, GROUP)
                return []
        return _entries(found, ready)

    async def _sweep(self, ready: str, owner: str, lease_ms: int) -> Held | None:
        async with self._clients.failures("look for dead workers"):
            try:
                claimed = await self._clients.commands.xautoclaim(
                    ready, GROUP, owner, lease_ms, "0-0", count=50
                )
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                return None
        held = None
        for entry_id, fields in claimed[1]:
            if held is None and fields:
                held = await self._take(entry_id, fields, owner, lease_ms, ready)
        return held

    async def _take(
        self, entry_id: str, fields: dict[str, str], owner: str, lease_ms: int, ready: str
    ) -> Held | None:
        thread = ThreadId(*fields["t"].split("/"))
        self._seen.pop(str(thread), None)
        names = [self._keys.state(thread), ready]
        epoch = await self._clients.call("lease", names, owner, lease_ms, entry_id, GROUP)
        return Held(thread, int(epoch), owner, entry_id) if epoch else None

    async def renew(self, held: Held, lease_s: float) -> int:
        """How many inbox items wait. Raises `Fenced`."""
        names = [self._keys.state(held.thread), self._keys.inbox(held.thread)]
        return int(await self._clients.call("renew", names, held.epoch, held.owner, int(lease_s * 1000)))

    async def release(self, held: Held, *, parked: bool) -> None:
        """Ready again at once when something came in that its holder never read."""
        thread, keys = held.thread, self._keys
        names = [keys.state(thread), keys.inbox(thread), keys.ready(keys.tag(thread))]
        seen = self._seen.pop(str(thread), "0-0")
        name, state = ("park", "parked") if parked else ("release", "idle")
        await self._clients.call(
            name, names, held.epoch, held.owner, held.ready_id, GROUP, str(thread), seen, state
        )


def _entries(found: object, ready: str) -> list[tuple[str, dict[str, str]]]:
    # RESP3 gives {stream: [[id, fields], …]}; older servers a list of pairs; nothing at all on a timeout.
    if not found:
        return []
    rows = found[ready] if isinstance(found, dict) else found[0][1]  # type: ignore[index]  # a reply of one of two shapes
    flat = (
        rows[0]
        if rows and isinstance(rows[0], list) and rows[0] and isinstance(rows[0][0], (list, tuple))
        else rows
    )
    return [(entry_id, fields) for entry_id, fields in flat]
