"""The SDK, as far as it is used: authentication, addresses, connections, error types. Imported with the first question.

1. The body goes out as it is (`client.post(content=...)`), the response comes back unread: the SDK's copy of each
   request and its typed events were half of what a call cost.
2. aiohttp carries it: its pool stays cheap with hundreds of connections in use, the SDK's own does not.
3. A proxy of the environment is obeyed, except for this machine. Redirects are not followed: a conversation goes only
   where an operator said.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

import aiohttp
import anthropic
import httpx2
from anthropic import AsyncAnthropic, AsyncStream, DefaultAioHttpClient

from bot.claude import retry
from bot.claude.sse import Frames
from bot.claude.stream import InBand, Incomplete, Message

READ_TIMEOUT_S, CONNECT_TIMEOUT_S = 60.0, 5.0
"""Nothing at all for this long is a dead stream; the service pings more often."""
CONNECTIONS = 4096
"""At once: more than a process has threads that think."""
IDLE_S = 30.0
"""How long a connection is kept for the next call: most tools are done by then."""
LINGER_S = 0.05
"""How long the end of a response is waited for, so that its connection can be used again."""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_NETWORK = (httpx2.RequestError, aiohttp.ClientError, OSError)
_NOT_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
"""Raised before the request has left us."""


class Wire:
    """One long-lived client."""

    def __init__(self, *, api_key: str, base_url: str | None = None) -> None:
        timeout = anthropic.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        carrier = DefaultAioHttpClient(
            timeout=timeout,
            limits=httpx2.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE_S
            ),
            mounts={f"all://{host}": None for host in LOOPBACK},
            follow_redirects=False,
        )
        self.client = AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=timeout,
            open_telemetry=False,
            http_client=carrier,
        )

    async def send(self, body: bytes, message: Message) -> None:
        """One attempt: afterwards `message` is whole; it fills up on the way. Raises `retry.Failed`."""
        try:
            async with self._opened(body) as response, aclosing(response.aiter_bytes()) as pieces:
                await _read(response, pieces, message)
                message.finish()
                await _to_the_end(pieces)
        except InBand as error:
            raise retry.Failed(retry.told(error.kind, error.code, error.said)) from error
        except Incomplete as error:
            raise retry.Failed(retry.broken(str(error), "incomplete")) from error
        except (anthropic.APIError, *_NETWORK) as error:
            raise retry.Failed(_trouble(error)) from error

    @asynccontextmanager
    async def _opened(self, body: bytes) -> AsyncIterator[httpx2.Response]:
        response = await self.client.post(
            "/v1/messages", cast_to=httpx2.Response, content=body, stream=True, stream_cls=AsyncStream[Any]
        )
        # With that `cast_to` the SDK hands out the response itself, whatever the stream's class.
        opened = cast(httpx2.Response, response)
        try:
            yield opened
        finally:
            await opened.aclose()

    async def probe(self) -> str:
        """Why the service does not answer, in one line; empty when it does, be it that it has no list of models."""
        try:
            await self.client.get("/v1/models", cast_to=httpx2.Response, options={"params": {"limit": 1}})
        except (anthropic.APIError, *_NETWORK) as error:
            trouble = _trouble(error)
            status = error.status_code if isinstance(error, anthropic.APIStatusError) else 0
            return trouble.line if trouble.kind in ("away", "lost") or status == 401 or status < 400 else ""
        return ""

    async def close(self) -> None:
        """End the connections."""
        await self.client.close()


async def _read(response: httpx2.Response, pieces: AsyncIterator[bytes], message: Message) -> None:
    kind = response.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        raise Incomplete(f"the answer was {kind or 'of no kind'}, no stream of events")
    frames = Frames()
    async for piece in pieces:
        for name, data in frames.feed(piece):
            message.read(name, data)
            if message.whole:
                return


async def _to_the_end(pieces: AsyncIterator[bytes]) -> None:
    # Whatever happens now, the reply is whole.
    with suppress(TimeoutError, *_NETWORK):
        async with asyncio.timeout(LINGER_S):
            async for _ in pieces:
                pass


def _trouble(error: BaseException) -> retry.Trouble:
    if isinstance(error, anthropic.APIStatusError):
        kind, code = str(error.type or ""), str(error.error_code or "")
        said = error.api_message if isinstance(error.api_message, str) else ""
        return retry.answered(error.status_code, kind, code, said, error.response.headers)
    chain = list(_causes(error))
    network = [one for one in chain if isinstance(one, _NETWORK)]
    if not network:
        raise error  # the SDK wraps whatever happens while it sends: this is a bug, not the network
    words = str(network[-1]) or type(network[-1]).__name__
    return (
        retry.unreachable(words)
        if any(isinstance(one, _NOT_SENT) for one in chain)
        else retry.broken(words, "connection")
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
