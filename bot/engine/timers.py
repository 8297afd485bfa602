"""Fire what is due, in every process; each timer fires once wherever it is looked for."""

from __future__ import annotations

import asyncio

from bot.core.errors import OutsideFailed
from bot.engine.desk import Desk


async def run_timers(desk: Desk, stopping: asyncio.Event, *, every_s: float = 0.5) -> None:
    """Until told to stop. An unreachable store is waited out: nothing is lost, it fires later."""
    while not stopping.is_set():
        try:
            fired = await desk.store.timers.fire_due()
        except OutsideFailed as failure:
            desk.tracer.note("timers.waiting", why=str(failure))
            fired = 0
        if not fired:
            await desk.clock.sleep(every_s)
