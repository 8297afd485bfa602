"""Where our CPU goes: cProfile of sessions of N turns, by own time."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from typing import Any

from tests.bench.cpu import name
from tests.bench.ours import Ours
from tests.bench.places import valkey, wire
from tests.bench.wire import Plan

Figures = dict[Any, Any]
"""(file, line, function) -> (primitive calls, calls, own s, s with callees, callers), as pstats has them."""
WARM = 2
TRIES = 6


async def profiled(turns: int, sessions: int) -> Figures:
    """Of our side alone, warm."""
    plan = Plan(turns)
    with wire() as server, valkey() as store:
        ours = await Ours.open(store.url, server.url(plan.path))
        try:
            for _ in range(WARM):
                await ours.session(name())
            found = [await _one(ours) for _ in range(sessions)]
        finally:
            await ours.close()
    # Each function at its cheapest: whoever is preempted looks expensive, and a CPU clock costs too much itself.
    return {
        place: min((one[place] for one in found if place in one), key=lambda figures: figures[2]) for place in found[0]
    }


async def _one(ours: Ours) -> Figures:
    profile = cProfile.Profile()
    profile.enable()
    await ours.session(name())
    profile.disable()
    found: Figures = pstats.Stats(profile).stats  # type: ignore[attr-defined]  # not in its stub
    return found


async def show(turns: int, top: int = 25) -> None:
    """Print the dearest functions by own time, in us per model call."""
    stats, calls = await profiled(turns, TRIES), turns + 1
    entries = sorted(stats.items(), key=lambda one: -one[1][2])
    whole = sum(entry[1][2] for entry in entries)
    print(f"{turns} turns: {whole / calls * 1e3:.2f} ms per model call under the profiler, {calls} calls")
    print(f"{'own us/call':>12} {'share':>6} {'times/call':>10} {'with callees us':>16}  where")
    for (file, line, function), (_, times, own, whole_time, _) in entries[:top]:
        where = f"{'/'.join(file.split('/')[-3:])}:{line} {function}" if line else function
        print(
            f"{own / calls * 1e6:>12.1f} {own / whole:>6.1%} {times / calls:>10.1f} {whole_time / calls * 1e6:>16.1f}"
            f"  {where}"
        )


async def dearest(turns: int, top: int = 6) -> str:
    """The areas of code that our CPU goes to, in per cent of the profile."""
    areas: Counter[str] = Counter()
    for (file, line, _), (_, _, own, _, callers) in (await profiled(turns, TRIES)).items():
        if line:
            areas[_area(file)] += own
            continue
        # What is built in belongs to whoever called it.
        for (caller, *_), (_, _, share, _) in callers.items():
            areas[_area(caller)] += share
    whole = sum(areas.values())
    return ", ".join(f"{area} {own / whole:.0%}" for area, own in areas.most_common(top))


def _area(file: str) -> str:
    """A module of ours by its name, anybody else's by its package."""
    parts: Any = file.removesuffix(".py").split("/")
    for root in ("bot", "tests"):
        if root in parts and "site-packages" not in parts:
            return ".".join(parts[parts.index(root) :])
    if "site-packages" in parts:
        return str(parts[parts.index("site-packages") + 1])
    return str(parts[-2] if parts[-1] in ("__init__", "encoder", "decoder") else parts[-1])
