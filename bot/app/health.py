"""What a load balancer, an orchestrator and a scraper ask: /healthz, /readyz, /metrics."""

from __future__ import annotations

import asyncio
import socket

from aiohttp import web

from bot.app.wiring import Plant
from bot.core.errors import OutsideFailed


async def serve_public(
    plant: Plant, listener: socket.socket, *, http: bool, ingress: bool, working: bool
) -> web.AppRunner:
    """/healthz and /readyz; /slack/events with --http."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        troubles = await _troubles(plant, ingress=ingress and not http, working=working)
        return web.Response(text="\n".join(troubles or ["ready"]) + "\n", status=503 if troubles else 200)

    app = web.Application(client_max_size=2 * 2**20)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    if http and ingress:
        app.router.add_post("/slack/events", plant.ingress.events)
    return await _listen(app, listener)


async def serve_admin(plant: Plant, listener: socket.socket) -> web.AppRunner:
    """/metrics, on the administrators' address only."""

    async def metrics(_: web.Request) -> web.Response:
        counts = sorted(plant.tracer.counts.items())
        lines = ["# TYPE plimsoll_notes_total counter"]
        lines += [f'plimsoll_notes_total{{event="{name}"}} {count}' for name, count in counts]
        return web.Response(text="\n".join(lines) + "\n")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return await _listen(app, listener)


async def _listen(app: web.Application, listener: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner


async def _troubles(plant: Plant, *, ingress: bool, working: bool) -> list[str]:
    found: list[str] = []
    try:
        async with asyncio.timeout(2):
            await plant.desk.store.ping()
    except (OutsideFailed, TimeoutError) as failure:
        found.append(str(failure) or "the store does not answer")
    if ingress and not await plant.ingress.healthy():
        found.append("the Slack socket is not connected")
    if working and (trouble := await plant.model.trouble()):
        found.append(trouble)
    return found
