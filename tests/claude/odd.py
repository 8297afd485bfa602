"""A service of a test's own: whatever the handler does, on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from tests.claude.recorded import RECORDED

STREAM = {"content-type": "text/event-stream; charset=utf-8"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def loopback(handler: Handler) -> AsyncIterator[str]:
    """Its address, for any path."""
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def recorded(_: web.Request) -> web.StreamResponse:
    """The recorded reply."""
    return web.Response(body=RECORDED, headers=STREAM)
