"""Connections: kept, enough of them, closed when nobody listens, and through a proxy only where one is meant."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import anthropic
import pytest
from aiohttp import web

from bot.claude.client import Claude
from bot.claude.retry import Patience
from bot.engine.ports import ModelFailure
from bot.lab.messages_server import API_KEY
from tests.claude.asked import request, within
from tests.claude.odd import STREAM, loopback, recorded
from tests.claude.recorded import BLOCKS, RECORDED

pytestmark = pytest.mark.wire
ONCE = Patience(attempts=1)


async def test_a_connection_is_used_again() -> None:
    """Twenty questions, one connection: no new handshake for each, though the end of a stream comes a little later."""
    seen = set[object]()

    async def note(asked: web.Request) -> web.StreamResponse:
        seen.add(asked.transport)
        answer = web.StreamResponse(headers=STREAM)
        await answer.prepare(asked)
        await answer.write(RECORDED)
        await asyncio.sleep(0.002)
        return answer

    async with loopback(note) as url:
        client = Claude(api_key=API_KEY, base_url=url)
        for _ in range(20):
            await client.ask(request(), within(10))
        await client.close()

    assert len(seen) == 1


async def test_a_thousand_ask_at_once() -> None:
    """Nobody waits for anybody's connection."""
    here, together = 0, asyncio.Event()

    async def wait_for_all(asked: web.Request) -> web.StreamResponse:
        nonlocal here
        here += 1
        if here == 1000:
            together.set()
        await together.wait()
        return await recorded(asked)

    async with loopback(wait_for_all) as url:
        client = Claude(api_key=API_KEY, base_url=url)
        replies = await asyncio.gather(*(client.ask(request(), within(60)) for _ in range(1000)))
        await client.close()

    assert all(reply.content == BLOCKS for reply in replies)


@pytest.mark.parametrize("how", ["stopped", "deadline"])
@pytest.mark.parametrize("begun", [False, True])
async def test_the_service_sees_that_nobody_listens_any_more(how: str, begun: bool) -> None:
    """Before the reply and in its middle: what it writes then is paid for nothing."""
    arrived, left = asyncio.Event(), asyncio.Event()

    async def endless(asked: web.Request) -> web.StreamResponse:
        try:
            if begun:
                answer = web.StreamResponse(headers=STREAM)
                await answer.prepare(asked)
                await answer.write(RECORDED[:600])
            arrived.set()
            await asyncio.sleep(60)
        finally:
            left.set()
        raise AssertionError("nobody left")

    async with loopback(endless) as url:
        client = Claude(api_key=API_KEY, base_url=url)
        await client.warm_up()
        asking = asyncio.create_task(client.ask(request(), within(60 if how == "stopped" else 0.4)))
        await asyncio.wait_for(arrived.wait(), 5)
        if how == "stopped":
            asking.cancel()
        with pytest.raises((asyncio.CancelledError, ModelFailure)):
            await asking
        await asyncio.wait_for(left.wait(), 2)
        await client.close()


async def test_what_a_connection_does_after_the_end_loses_no_reply() -> None:
    """It may stay open for long, or break: the reply was whole."""
    for breaks in (False, True):

        async def odd(asked: web.Request) -> web.StreamResponse:
            answer = web.StreamResponse(headers=STREAM)
            await answer.prepare(asked)
            await answer.write(RECORDED)
            if breaks and asked.transport:  # noqa: B023  asked within this round alone
                asked.transport.abort()
            await asyncio.sleep(60)
            return answer

        async with loopback(odd) as url:
            client = Claude(api_key=API_KEY, base_url=url)
            await client.warm_up()
            begun = time.monotonic()
            reply = await client.ask(request(), within(10))
            await client.close()

        assert reply.content == BLOCKS
        assert time.monotonic() - begun < 0.5


async def test_a_reply_that_is_whole_outlives_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was paid for; only the end of its connection was still waited for."""
    monkeypatch.setattr("bot.claude.wire.LINGER_S", 60.0)

    async def stays(asked: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=STREAM)
        await answer.prepare(asked)
        await answer.write(RECORDED)
        await asyncio.sleep(60)
        return answer

    async with loopback(stays) as url:
        client = Claude(api_key=API_KEY, base_url=url)
        await client.warm_up()
        reply = await client.ask(request(), within(0.4))
        await client.close()

    assert reply.content == BLOCKS


@pytest.mark.parametrize("how", ["before the status", "in the headers"])
async def test_a_request_that_was_sent_and_not_answered_is_lost(how: str) -> None:
    """It may have been charged: it is not sent a second time here."""
    seen = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await reader.readuntil(b"\r\n\r\n")
        if how != "before the status":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/eve")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        client = Claude(api_key=API_KEY, base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(ModelFailure) as failed:
            await client.ask(request(), within(10))
        await client.close()

    assert (failed.value.kind, seen) == ("lost", 1)


async def test_a_bug_that_the_sdk_wraps_as_trouble_of_the_connection_stays_loud(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told as what it is, and never tried again."""
    tried = 0

    class Buggy(anthropic.DefaultAioHttpClient):
        async def send(self, *_: Any, **__: Any) -> Any:
            nonlocal tried
            tried += 1
            raise TypeError("a bug")

    monkeypatch.setattr("bot.claude.wire.DefaultAioHttpClient", Buggy)
    client = Claude(api_key=API_KEY, base_url="http://127.0.0.1:9")
    with pytest.raises(anthropic.APIConnectionError) as raised:
        await client.ask(request(), within(10))
    await client.close()

    assert isinstance(raised.value.__cause__, TypeError) and tried == 1


async def test_a_proxy_is_obeyed_for_the_service_and_never_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of an office names one; what stands on loopback is not behind it."""
    through: list[str] = []

    async def proxy(asked: web.Request) -> web.StreamResponse:
        through.append(asked.host)
        return await recorded(asked)

    async with loopback(proxy) as proxy_url, loopback(recorded) as own_url:
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy_url)
        for url in (own_url, own_url.replace("127.0.0.1", "localhost"), "http://models.example"):
            client = Claude(api_key=API_KEY, base_url=url, patience=ONCE)
            assert (await client.ask(request(), within(10))).content == BLOCKS
            await client.close()

    assert through == ["models.example"]


def test_making_a_client_imports_no_sdk() -> None:
    """A second of imports comes with the first question."""
    code = (
        "import sys; from bot.claude.client import Claude; Claude(api_key='x');"
        "print([one for one in ('anthropic', 'aiohttp') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
