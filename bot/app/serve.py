"""`plimsoll serve`: ingress, worker and timers of one process, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from aiohttp import web

from bot.app.health import serve_admin, serve_public
from bot.app.settings import Settings, listening_socket
from bot.app.wiring import Plant, build
from bot.core.errors import OutsideFailed
from bot.core.policy import Policy
from bot.engine.timers import run_timers
from bot.engine.worker import Worker
from bot.telemetry.notes import quiet_libraries

DRAIN_S = 10.0
"""How long threads under way may finish their step after a stop signal."""


async def serve(settings: Settings, policy: Policy, *, role: str, http: bool) -> None:
    """Until SIGTERM or SIGINT. Raises `Misconfigured` or `OutsideFailed` when it cannot start."""
    quiet_libraries()
    wanted = {"PLIMSOLL_HTTP": settings.http, "PLIMSOLL_ADMIN": settings.admin}
    # What was asked for is taken first: a default must not stand in its way.
    order = sorted(wanted, key=lambda name: not wanted[name][2])
    listeners = {name: listening_socket(name, wanted[name]) for name in order}
    public, admin = listeners["PLIMSOLL_HTTP"], listeners["PLIMSOLL_ADMIN"]
    print(f"plimsoll: http {_shown(public)}, admin {_shown(admin)}", flush=True)
    plant = await build(settings, policy, http=http, role=role)
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    ingress, working = role in ("all", "ingress"), role in ("all", "worker")
    runners: list[web.AppRunner] = []
    try:
        runners.append(await serve_public(plant, public, http=http, ingress=ingress, working=working))
        runners.append(await serve_admin(plant, admin))
        if ingress and not http:
            await plant.ingress.start()
        print(f"plimsoll: ready as {role}; store: {plant.storage.place}", flush=True)
        await _run(plant, stopping, working=working)
    finally:
        await plant.ingress.stop()
        for runner in runners:
            await runner.cleanup()
        await plant.close()


def _shown(listener: object) -> str:
    host, port = listener.getsockname()[:2]  # type: ignore[attr-defined]  # a bound socket
    return f"http://{host}:{port}"


async def _run(plant: Plant, stopping: asyncio.Event, *, working: bool) -> None:
    """Timers and the keeper of the embedded server always; a worker when asked for."""
    helpers = [
        asyncio.create_task(run_timers(plant.desk, stopping)),
        asyncio.create_task(_keep_server(plant, stopping)),
    ]
    worker = Worker(plant.desk, plant.desk.clock.new_id(f"worker-{os.getpid()}"))
    if working:
        helpers.append(asyncio.create_task(worker.run()))
        # The SDK takes a second to import: now, not with the first question.
        helpers.append(asyncio.create_task(_warm(plant)))
    await stopping.wait()
    worker.stopping.set()
    done = asyncio.gather(*helpers, return_exceptions=True)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(done, DRAIN_S)


async def _warm(plant: Plant) -> None:
    await plant.model.warm_up()


async def _keep_server(plant: Plant, stopping: asyncio.Event) -> None:
    """Bring the embedded server back when it was killed; every acknowledged write is in its file."""
    embedded = plant.storage.embedded
    while embedded is not None and not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), 1.0)
        if not stopping.is_set() and not await asyncio.to_thread(embedded.alive):
            plant.tracer.note("embedded.restart", home=str(embedded.home))
            try:
                await asyncio.to_thread(embedded.start)
            except OutsideFailed as failure:
                plant.tracer.note("embedded.down", why=str(failure))
