"""One worker at a time for each thread, by the server's clock.

1. A ready entry is acknowledged only when its thread is given back, so a dead worker's thread is found again.
2. The sweep for dead workers runs on an idle queue too, every quarter of a lease, jittered.
3. Renewing counts as attending to the ready entry: a live worker's thread is never swept.
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

LONGEST_BLOCK_S = 5.0
"""A blocking read ends before its socket's timeout; the caller asks again."""
_Rows = list[tuple[str, dict[str, str]]]


class RedisLease:
    """The Lease port. `seen` is shared with the inbox: thread -> newest item that its holder has read."""

    def __init__(self, clients: Clients, keys: Keys, seen: dict[str, str]) -> None:
        self._clients = clients
        self._keys = keys
        self._seen = seen
        self._swept = 0.0
        self._cursor = "0-0"
        self._holding: set[str] = set()
        """Ready entries of threads that this process holds: its own sweep must not lease them twice."""

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
                self._swept = 0.0  # there may be more: look again at once
                return held
        block_ms = max(1, int(min(wait_s, lease_s / 4, LONGEST_BLOCK_S) * 1000))
        for entry_id, fields in await self._read(ready, owner, block_ms):
            return await self._take(entry_id, fields, owner, lease_ms, ready)
        return None

    async def _read(self, ready: str, owner: str, block_ms: int) -> _Rows:
        async with self._clients.failures("wait for work"):
            try:
                found = await self._clients.blocking.xreadgroup(GROUP, owner, {ready: ">"}, count=1, block=block_ms)
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                await self.make_group(ready, GROUP)
                return []
        return [(entry_id, fields) for entry_id, fields in (found or {}).get(ready, [])]

    async def _sweep(self, ready: str, owner: str, lease_ms: int) -> Held | None:
        """One dead worker's thread; the next call looks on from where this one stopped."""
        while True:
            claimed = await self._claim_one(ready, owner, lease_ms)
            for entry_id, fields in claimed:
                if fields and (held := await self._take(entry_id, fields, owner, lease_ms, ready)):
                    return held
            if self._cursor == "0-0":
                return None

    async def _claim_one(self, ready: str, owner: str, lease_ms: int) -> _Rows:
        # One at a time: claiming resets an entry's idle time, and what is claimed and not taken waits again.
        async with self._clients.failures("look for dead workers"):
            try:
                found = await self._clients.commands.xautoclaim(ready, GROUP, owner, lease_ms, self._cursor, count=1)
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                self._cursor = "0-0"
                return []
        self._cursor = str(found[0])
        return [(entry_id, fields) for entry_id, fields in found[1]]

    async def _take(self, entry_id: str, fields: dict[str, str], owner: str, lease_ms: int, ready: str) -> Held | None:
        if entry_id in self._holding:
            return None
        thread = ThreadId(*fields["t"].split("/"))
        self._seen.pop(str(thread), None)
        names = [self._keys.state(thread), ready]
        epoch = await self._clients.call("lease", names, owner, lease_ms, entry_id, GROUP)
        if not epoch:
            return None
        self._holding.add(entry_id)
        return Held(thread, int(epoch), owner, entry_id)

    async def renew(self, held: Held, lease_s: float) -> str:
        """Id of the newest inbox item. Raises `Fenced`."""
        thread, keys = held.thread, self._keys
        names = [keys.state(thread), keys.inbox(thread), keys.ready(keys.tag(thread))]
        given = (held.epoch, held.owner, int(lease_s * 1000), GROUP, held.ready_id)
        return str(await self._clients.call("renew", names, *given))

    async def release(self, held: Held, *, parked: bool) -> None:
        """Ready again at once when something came in that its holder never read."""
        thread, keys = held.thread, self._keys
        names = [keys.state(thread), keys.inbox(thread), keys.ready(keys.tag(thread))]
        seen = self._seen.get(str(thread), "0-0")
        name, state = ("park", "parked") if parked else ("release", "idle")
        given = (held.epoch, held.owner, held.ready_id, GROUP, str(thread), seen, state)
        await self._clients.call(name, names, *given)

    def let_go(self, held: Held) -> None:
        """This process no longer works on the thread, however that ended."""
        self._holding.discard(held.ready_id)
        self._seen.pop(str(held.thread), None)
