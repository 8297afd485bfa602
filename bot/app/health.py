"""What a load balancer, an orchestrator and a scraper ask: /healthz, /readyz, /metrics."""

from __future__ import annotations

import asyncio
import socket

from aiohttp import web

from bot.app.wiring import Plant
from bot.core.errors import OutsideFailed
from bot.telemetry.metrics import CONTENT_TYPE


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
        try:
            async with asyncio.timeout(2):
                waiting = await plant.desk.store.timers.count("expire:")
        except (OutsideFailed, TimeoutError):
            waiting = None  # a gauge that nobody can know is left out, never shown as 0
        body = plant.tracer.measures.text(approvals_waiting=waiting).encode()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

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
