"""Goal 16: a process of ours, from its start to the first Slack event that it acknowledged."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.places import ROOT
from tests.bench.table import Bar, Row
from tests.live import live

BAR = Bar(0.6, " s")
WITHIN_S = 20.0


async def _first_ack() -> float:
    """Seconds; the event waits before the process is there, as after a restart. The store starts with it."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as home:
        async with live(Path(home)) as world:
            await world.ask("hello")
            waiting = list(world.slack.delivering.all)
            begun = time.monotonic()
            await world.spawn("serve")
            acked = [asyncio.ensure_future(one.done.wait()) for one in waiting]
            await asyncio.wait(acked, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            found = time.monotonic() - begun
            assert any(one.acked for one in waiting), "no event was acknowledged"
            for one in acked:
                one.cancel()
            return found


def _import_of(module: str) -> float:
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True, cwd=ROOT)
    return time.monotonic() - begun


async def row(*, quick: bool) -> Row:
    """The median of a few starts; the floor is a bare interpreter that imports the SDK."""
    times = 2 if quick else 5
    ours = statistics.median([await _first_ack() for _ in range(times)])
    floor = statistics.median([await asyncio.to_thread(_import_of, "anthropic") for _ in range(times)])
    return Row(
        16,
        "process start to the first acknowledged event",
        f"{ours:.2f} s",
        f"{floor:.2f} s SDK import",
        f"{ours / floor:.2f} x",
        str(BAR),
        BAR.over(ours),
        f"imports of the wiring alone {await asyncio.to_thread(_import_of, 'bot.app.wiring'):.2f} s, then the store",
    )
