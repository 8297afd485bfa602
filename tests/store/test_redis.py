"""A server that loses replies, is full, forgets, or is not there: one effect, one clear line."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.core.chain import genesis, seal_entry
from bot.core.effects import Notice
from bot.core.errors import Misconfigured, OutsideFailed
from bot.core.events import MessageIgnored
from bot.core.words import ThreadId
from bot.engine.storage import Commit, Held, InboxItem
from bot.store.embedded import Embedded
from bot.store.redis_store import RedisStore
from tests.valkey import fresh_store

pytestmark = pytest.mark.wire
THREAD = ThreadId("T1", "C1", "1.1")


@contextlib.asynccontextmanager
async def _losing(socket: Path, chance: float, seed: int = 7) -> AsyncIterator[str]:
    """A proxy that cuts the connection instead of passing on a share of the replies."""
    dice = random.Random(seed)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(str(socket))

        async def up() -> None:
            while data := await reader.read(65536):
                server_writer.write(data)
            server_writer.close()

        forwarding = asyncio.ensure_future(up())
        with contextlib.suppress(ConnectionError):
            while data := await server_reader.read(65536):
                if dice.random() < chance:
                    break
                writer.write(data)
        forwarding.cancel()
        writer.close()

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with proxy:
        yield f"redis://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/0"


async def test_lost_replies_double_nothing(valkey: Embedded) -> None:
    """A tenth of all replies vanish; what was called is there once."""
    async with fresh_store(valkey) as sure:
        async with _losing(valkey.socket, 0.10) as url:
            shaky = await _connected(url)
            for number in range(80):
                item = InboxItem(THREAD, "message", {"ts": str(number)})
                await _persist(lambda item=item, number=number: shaky.inbox.enqueue(item, claim=f"m{number}"))
            held = await sure.lease.next_ready("w", wait_s=1, lease_s=60)
            assert held is not None
            prev = genesis(THREAD)
            for seq in range(1, 81):
                event = MessageIgnored(ts=str(seq), reason="x")
                entry = seal_entry(event, seq=seq, at="2026-12-01T09:00:00.000000Z", run="", prev=prev, salt=b"s" * 16)
                prev = entry.hash
                step = Commit(entries=[entry], effects=[Notice(key=f"n{seq}", text="x")])
                await _persist(lambda step=step: shaky.log.commit(held, step))
            await shaky.close()

        assert [item.body["ts"] for item in await sure.inbox.peek(THREAD)] == [str(number) for number in range(80)]
        assert [entry.seq for entry in await sure.log.read(THREAD)] == list(range(1, 81))
        assert len(await sure.outbox.rows(THREAD)) == 80


async def test_lost_replies_neither_deliver_twice_nor_make_a_first_attempt_look_like_a_second(valkey: Embedded) -> None:
    """What was posted comes back once; a call that was never made is not called unknown."""
    async with fresh_store(valkey) as sure:
        await sure.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "1"}), claim="m1")
        held = await sure.lease.next_ready("w", wait_s=1, lease_s=60)
        assert held is not None
        effects = [Notice(key=f"n{number}", text="x") for number in range(80)]
        await sure.log.commit(held, Commit(effects=effects))

        async with _losing(valkey.socket, 0.10) as url:
            shaky = await _connected(url)
            for row in await sure.outbox.rows(THREAD):
                await _persist(lambda row=row: shaky.outbox.done(held, row.id, [(row.id, "1.1")]))
            begun = [await _begun(shaky, held, f"c{number}") for number in range(80)]
            await shaky.close()

        posted = [item.body["keys"] for item in await sure.inbox.peek(THREAD) if item.kind == "posted"]
        assert len(posted) == 80 and await sure.outbox.rows(THREAD) == []
        assert set(begun) <= {"new", "lost"} and begun.count("new") > 70


async def _begun(store: RedisStore, held: Held, call_id: str) -> str:
    try:
        return (await store.ledger.begin(held, call_id, "key"))[0]
    except OutsideFailed:
        return "lost"


async def _connected(url: str) -> RedisStore:
    for _ in range(20):
        with contextlib.suppress(OutsideFailed):
            return await RedisStore.connect(url)
    raise AssertionError("the proxy lost everything")


async def _persist(call: object) -> None:
    """What a caller does that must get through."""
    for _ in range(20):
        with contextlib.suppress(OutsideFailed):
            await call()  # type: ignore[operator]  # a coroutine function
            return
    raise AssertionError("never got through")


async def test_a_full_store_takes_nothing_new_and_lets_what_was_begun_be_finished(valkey: Embedded) -> None:
    """Refused before Slack is told, so Slack sends it again."""
    async with fresh_store(valkey) as store:
        await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "1"}), claim="m1")
        held = await store.lease.next_ready("w", wait_s=1, lease_s=60)
        assert held is not None
        await store.ledger.begin(held, "c1", "key")
        await store.clients.commands.config_set("maxmemory", "1mb")
        try:
            with pytest.raises(OutsideFailed, match="maxmemory"):
                await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "2"}), claim="m2")
            await store.lease.renew(held, 60)
            await store.ledger.end(held, "c1", {"ok": True})
            await store.lease.release(held, parked=True)
        finally:
            await store.clients.commands.config_set("maxmemory", "0")

        assert await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "2"}), claim="m2") == "accepted"


@pytest.mark.parametrize(
    ("setting", "value", "line"),
    [("maxmemory-policy", "allkeys-lru", "maxmemory-policy noeviction"), ("appendonly", "no", "appendonly yes")],
)
async def test_a_server_that_would_forget_is_refused_with_the_line_to_change(
    tmp_path: Path, setting: str, value: str, line: str
) -> None:
    """Evicting, or without an append-only file."""
    server = Embedded(tmp_path).start()
    store = await RedisStore.connect(server.url)
    await store.clients.commands.config_set(setting, value)
    await store.close()
    try:
        with pytest.raises(Misconfigured, match=line):
            await RedisStore.connect(server.url)
        if setting == "appendonly":
            await (await RedisStore.connect(server.url, ephemeral=True)).close()
    finally:
        server.close()


async def test_a_replica_is_refused_and_its_primary_is_asked_for(tmp_path: Path) -> None:
    """Its writes would be refused, or lost."""
    server = Embedded(tmp_path).start()
    try:
        store = await RedisStore.connect(server.url)
        await store.clients.commands.replicaof("127.0.0.1", "1")
        await store.close()

        with pytest.raises(Misconfigured, match="is a replica; point REDIS_URL at its primary"):
            await RedisStore.connect(server.url)
    finally:
        server.close()


async def test_a_server_that_lost_its_functions_or_everything_is_served_again(valkey: Embedded) -> None:
    """FUNCTION FLUSH, FLUSHALL: the next call brings what it needs."""
    async with fresh_store(valkey) as store:
        await store.clients.commands.function_flush()
        assert await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "1"}), claim="m1") == "accepted"

        await store.clients.commands.flushall()
        assert await store.lease.next_ready("w", wait_s=0.1, lease_s=15) is None
        await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "1"}), claim="m1")
        assert await store.lease.next_ready("w", wait_s=1, lease_s=15) is not None


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("redis://:s3cret@127.0.0.1:1/0", OutsideFailed),
        (":s3cret@host:6379", Misconfigured),
        ("redis://:s3cret@host:port/0", Misconfigured),
        ("http://:s3cret@host", Misconfigured),
        ("unix:///nowhere/s3cret.sock", OutsideFailed),
    ],
)
async def test_a_server_that_cannot_be_reached_is_one_line_without_a_password(url: str, error: type[Exception]) -> None:
    """Named by host and port."""
    with pytest.raises(error) as failed:
        await RedisStore.connect(url)

    assert "\n" not in str(failed.value)
    assert "s3cret@" not in str(failed.value) and ":s3cret" not in str(failed.value)


async def test_a_claim_is_forgotten_after_three_days_and_one_of_the_first_version_still_holds(valkey: Embedded) -> None:
    """Claims are one key, which does not grow for ever."""
    async with fresh_store(valkey) as store:
        commands, claims = store.clients.commands, store.keys.claims(store.keys.tag(THREAD))
        await commands.set(store.keys.old_claim(THREAD, "m0"), "1", px=60_000)
        answers = [
            await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": claim}), claim=claim)
            for claim in ("m0", "m1", "m1")
        ]
        [(_, until)] = await commands.zrange(claims, 0, -1, withscores=True)
        seconds, _ = await commands.time()
        await commands.zadd(claims, {"m1": seconds * 1000 - 1})  # three days later

        later = await store.inbox.enqueue(InboxItem(THREAD, "message", {"ts": "m2"}), claim="m2")

        assert answers == ["duplicate", "accepted", "duplicate"]
        assert abs(until - (seconds + 3 * 24 * 3600) * 1000) < 10_000
        assert later == "accepted"
        assert await commands.zrange(claims, 0, -1) == ["m2"]
