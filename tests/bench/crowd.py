"""Goals 11, 12 and 13: many sessions at once, each side in a fresh process of its own on one core."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.cpu import name
from tests.bench.floor import Floor
from tests.bench.ours import Ours
from tests.bench.places import ROOT, Wire, pin_here, valkey, wire
from tests.bench.table import Bar, Row, least, overs, quantile
from tests.bench.wire import Plan

CALLS, LIVE, MEDIAN, LATE = 2.0, Bar(40, " KiB", 0), Bar(10, " ms", 1), Bar(300, " ms", 0)
WITHIN_S = 240.0
WARM = 20


@dataclass(frozen=True)
class Crowd:
    """How many sessions, in how many rounds, on which plan."""

    sessions: int
    plan: Plan
    rounds: int = 1


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def _settled_kib() -> int:
    """What stays resident once everything that is free was given back."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)
    return _resident_kib()


def _queued_s() -> float:
    """Seconds that this process was ready to run and had no core: what neighbours took."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


async def _peak(done: asyncio.Event) -> int:
    """The most that was resident until `done`, in KiB."""
    most = 0
    while not done.is_set():
        most = max(most, _resident_kib())
        await asyncio.sleep(0.05)
    return most


async def measured(side: Ours | Floor, crowd: Crowd) -> dict[str, Any]:
    """Rounds of that crowd in this process: wall and CPU seconds, KiB before, at the peak and after each."""
    rounds: list[dict[str, float]] = []
    for number in range(crowd.rounds + 1):
        sessions = crowd.sessions if number else WARM
        before, done = _settled_kib(), asyncio.Event()
        watching = asyncio.create_task(_peak(done))
        async with side.working(sessions):
            wall, cpu, queued = time.perf_counter(), time.process_time(), _queued_s()
            await side.sessions([name() for _ in range(sessions)])
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            queued = _queued_s() - queued
        done.set()
        peak = await watching
        memory = {"before": before, "peak": peak, "after": _settled_kib()}
        rounds.append({"wall": wall, "cpu": cpu, "queued": queued, **memory})
    return {"rounds": rounds[1:]}


async def child(side: str, store_url: str, base_url: str, crowd: Crowd) -> None:
    """The measured process; its last line is what it found."""
    pin_here()
    measuring = Floor(base_url) if side == "floor" else await Ours.open(store_url, base_url)
    try:
        print(json.dumps(await measured(measuring, crowd)), flush=True)
    finally:
        await measuring.close()


async def apart(side: str, store_url: str, server: Wire, crowd: Crowd) -> dict[str, Any]:
    """That side's figures from its own process, and what the server saw meanwhile."""
    plan = crowd.plan
    numbers = (plan.turns, plan.first_ms, crowd.sessions, crowd.rounds)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.crowd", side, store_url, server.url(plan.path), *map(str, numbers)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        told, _ = await asyncio.wait_for(process.communicate(), WITHIN_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{side} ended with {process.returncode}"
    found: dict[str, Any] = json.loads(told.decode().strip().splitlines()[-1])
    return found | {"seen": server.seen()}


async def both(crowd: Crowd, repeats: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Either side in turn, as often as said."""
    found: dict[str, list[dict[str, Any]]] = {"floor": [], "ours": []}
    with wire() as server, valkey() as store:
        for _ in range(repeats):
            for side, runs in found.items():
                runs.append(await apart(side, store.url, server, crowd))
    return found


async def fan_out(*, quick: bool) -> list[Row]:
    """Goals 11 and 13: 200 sessions of 10 turns."""
    crowd = Crowd(50 if quick else 200, Plan(5 if quick else 10, first_ms=50), rounds=2 if quick else 3)
    found = await both(crowd)
    calls = crowd.sessions * (crowd.plan.turns + 1)
    # By CPU time: a core of one's own. By the clock, neighbours on this machine would decide.
    rates = {side: max(calls / one["cpu"] for one in runs[0]["rounds"]) for side, runs in found.items()}
    clock = {side: max(calls / one["wall"] for one in runs[0]["rounds"]) for side, runs in found.items()}
    ratio, seen = rates["ours"] / rates["floor"], found["ours"][0]["seen"]
    rate = Row(
        11,
        f"calls per second of one core, {crowd.sessions} sessions",
        f"{rates['ours']:.0f}/s",
        f"{rates['floor']:.0f}/s",
        f"{ratio:.2f} x",
        f">= {CALLS:g} x",
        least(ratio, CALLS, " x"),
        f"{1e3 / rates['ours']:.2f} ms CPU a call against {1e3 / rates['floor']:.2f}; by the clock "
        f"{clock['ours']:.0f}/s against {clock['floor']:.0f}/s; {seen['connections']} connections for "
        f"{seen['requests']} calls",
    )
    return [rate, _memory(found, crowd)]


def _memory(found: dict[str, list[dict[str, Any]]], crowd: Crowd) -> Row:
    """The first round grows the process; what a later one leaves behind is what idle sessions keep."""

    def live(side: str) -> float:
        rounds = found[side][0]["rounds"]
        return float(max(one["peak"] for one in rounds) - rounds[0]["before"]) / crowd.sessions

    rounds = found["ours"][0]["rounds"]
    idle = max(0.0, (rounds[-1]["after"] - rounds[-2]["after"]) / crowd.sessions)
    return Row(
        13,
        "resident memory per live session; per idle one",
        f"{live('ours'):.0f}; {idle:.1f} KiB",
        f"{live('floor'):.0f} KiB",
        f"{live('ours') / live('floor'):.2f} x",
        "<= 40; 0 KiB",
        overs(LIVE.over(live("ours")), f"{idle:.1f} KiB idle" if idle >= 0.5 else ""),
        f"idle: growth between the last two of {len(rounds)} rounds of {crowd.sessions} finished sessions",
    )


async def spread(*, quick: bool) -> Row:
    """Goal 12: 1,000 threads at once, 2 s +- 50 % to the first token."""
    crowd = Crowd(200, Plan(3, first_ms=1000)) if quick else Crowd(1000, Plan(5, first_ms=2000))
    found = await both(crowd)
    gaps = {side: runs[0]["seen"]["gaps_ms"] for side, runs in found.items()}
    half, late = ({side: quantile(one, share) for side, one in gaps.items()} for share in (0.5, 0.99))
    one = found["ours"][0]["rounds"][0]
    calls = crowd.sessions * (crowd.plan.turns + 1)
    return Row(
        12,
        f"{crowd.sessions} threads, {crowd.plan.first_ms / 1000:g} s +-50 %: client gap p50 / p99",
        f"{half['ours']:.1f} / {late['ours']:.0f} ms",
        f"{half['floor']:.1f} / {late['floor']:.0f} ms",
        f"{half['ours'] / half['floor']:.2f} x",
        "<= 10 / 300 ms",
        overs(MEDIAN.over(half["ours"]), LATE.over(late["ours"])),
        f"{one['cpu'] / calls * 1e3:.2f} ms CPU a call; of {one['wall']:.0f} s we ran {one['cpu']:.1f} and neighbours "
        f"had our core for {one['queued']:.1f}",
    )


if __name__ == "__main__":
    import uvloop

    _, given, at, base, turns, first, sessions, rounds = sys.argv
    uvloop.run(child(given, at, base, Crowd(int(sessions), Plan(int(turns), int(first)), int(rounds))))
