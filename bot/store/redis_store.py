"""All store ports on Redis 7.2+ or Valkey 8+, each operation one Function call."""

from __future__ import annotations

from bot.core.errors import Misconfigured
from bot.store.archive import RedisArchive
from bot.store.clients import Clients
from bot.store.inbox import RedisInbox
from bot.store.keys import GROUP, Keys
from bot.store.lease import RedisLease
from bot.store.ledger import RedisLedger
from bot.store.log import RedisLog
from bot.store.outbox import RedisOutbox
from bot.store.timers import RedisTimers


class RedisStore:
    """The Store port; make one with `connect`."""

    def __init__(self, clients: Clients, keys: Keys) -> None:
        seen: dict[str, str] = {}
        self.clients = clients
        self.keys = keys
        self.inbox = RedisInbox(clients, keys, seen)
        self.lease = RedisLease(clients, keys, seen)
        self.log = RedisLog(clients, keys)
        self.outbox = RedisOutbox(clients, keys)
        self.ledger = RedisLedger(clients, keys)
        self.timers = RedisTimers(clients, keys)
        self.archive = RedisArchive(clients, keys)

    @classmethod
    async def connect(cls, url: str, *, ephemeral: bool = False) -> RedisStore:
        """Connect, check that the server keeps what it is given, and bring the library.

        Raises `OutsideFailed` when it cannot be reached, `Misconfigured` when it would lose data
        (`ephemeral=True` allows a server without an append-only file).
        """
        clients, keys = Clients(url), Keys()
        try:
            async with clients.failures("be reached"):
                await clients.commands.ping()
                await _check(clients, ephemeral)
                await clients.load()
            store = cls(clients, keys)
            for tag in keys.tags():
                await store.lease.make_group(keys.ready(tag), GROUP)
        except BaseException:
            await clients.close()
            raise
        return store

    async def ping(self) -> None:
        """Raises `OutsideFailed` when the server does not answer."""
        async with self.clients.failures("answer a ping"):
            await self.clients.commands.ping()

    async def close(self) -> None:
        """End all connections."""
        await self.clients.close()


async def _check(clients: Clients, ephemeral: bool) -> None:
    """Refuse a server that would forget; each refusal says the line to change."""
    memory = await clients.commands.info("memory")
    if (policy := memory.get("maxmemory_policy", "noeviction")) != "noeviction":
        raise Misconfigured(
            f"Redis at {clients.place} evicts keys (maxmemory-policy {policy}); set `maxmemory-policy noeviction`"
        )
    persistence = await clients.commands.info("persistence")
    if not ephemeral and not persistence.get("aof_enabled"):
        raise Misconfigured(
            f"Redis at {clients.place} has no append-only file (appendonly no); set `appendonly yes`, "
            "or pass --ephemeral to lose everything at its restart"
        )
    replication = await clients.commands.info("replication")
    if replication.get("role") not in ("master", None):
        raise Misconfigured(f"Redis at {clients.place} is a replica; point REDIS_URL at its primary")
