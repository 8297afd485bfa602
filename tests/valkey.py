"""A real Valkey for tests that need one: one server a session, emptied before each test."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from bot.store.embedded import Embedded
from bot.store.redis_store import RedisStore


@contextlib.contextmanager
def running_valkey() -> Iterator[Embedded]:
    """Started for this process, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-test-") as home:
        server = Embedded(Path(home), appendfsync="everysec").start()
        try:
            yield server
        finally:
            server.close()


@contextlib.asynccontextmanager
async def fresh_store(server: Embedded) -> AsyncIterator[RedisStore]:
    """Connected, and empty."""
    store = await RedisStore.connect(server.url)
    try:
        await store.clients.commands.flushall()
        for tag in store.keys.tags():
            await store.lease.make_group(store.keys.ready(tag), "workers")
        yield store
        await _no_stray_key(store)
    finally:
        await store.close()


async def _no_stray_key(store: RedisStore) -> None:
    """Every key is of a known family, and what is not part of a log or a queue expires."""
    lasting = ("st:", "log:", "pl:", "in:", "out:", "fx:", "pin:", "ready", "timers", "timerbody", "index", "claims")
    for key in await store.clients.commands.keys("*"):
        family = key.partition(":")[2]
        if not family.startswith(lasting):
            assert await store.clients.commands.ttl(key) > 0, f"{key} has no expiry and no reason to stay"
