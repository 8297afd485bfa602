"""Goals 1, 2, 3 and 17: process CPU of ours and of the floor, in alternating blocks, each side's quietest block."""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.floor import Floor
from tests.bench.ours import Ours
from tests.bench.places import Wire, valkey, wire
from tests.bench.table import Bar, Row
from tests.bench.wire import Plan

_names = itertools.count(os.getpid() * 1_000_000)


def name() -> str:
    """A session that never was before."""
    return f"17{next(_names):014d}.000100"


@dataclass(frozen=True)
class Pair:
    """The same measure of both."""

    ours: float
    floor: float

    @property
    def ratio(self) -> float:
        """Ours over the floor."""
        return self.ours / self.floor


async def spent(work: Callable[[], Awaitable[object]]) -> float:
    """CPU seconds of this process alone while that work is done."""
    gc.collect()
    begun = time.process_time()
    await work()
    return time.process_time() - begun


async def per_session(plan: Plan, *, sessions: int, blocks: int) -> Pair:
    """CPU seconds of one session of that plan."""
    with wire() as server, valkey() as store:
        floor, ours = Floor(server.url(plan.path)), await Ours.open(store.url, server.url(plan.path))
        try:
            found = await _alternating(ours, floor, sessions, blocks)
            _check(server, plan, sessions, blocks)
        finally:
            await floor.close()
            await ours.close()
    return found


async def _alternating(ours: Ours, floor: Floor, sessions: int, blocks: int) -> Pair:
    async def block(side: Ours | Floor) -> None:
        for _ in range(sessions):
            await side.session(name())

    await block(floor)
    await block(ours)
    pairs = [(await spent(lambda: block(floor)), await spent(lambda: block(ours))) for _ in range(blocks)]
    return Pair(min(one for _, one in pairs) / sessions, min(one for one, _ in pairs) / sessions)


def _check(server: Wire, plan: Plan, sessions: int, blocks: int) -> None:
    """By the server's own count, both sides made every call and no other."""
    asked, wanted = server.seen()["requests"], 2 * (blocks + 1) * sessions * (plan.turns + 1)
    assert asked == wanted, f"the server was asked {asked} times, {wanted} were due"


async def per_call(turns: int, *, sessions: int, blocks: int) -> Pair:
    """CPU seconds per model call of a session of that many turns."""
    found = await per_session(Plan(turns), sessions=sessions, blocks=blocks)
    return Pair(found.ours / (turns + 1), found.floor / (turns + 1))


# -- the goals ----------------------------------------------------------------------------------------

AT_10, AT_100, GROWTH, DELTA = Bar(0.9, " x"), Bar(0.45, " x"), Bar(8, " us", 1), Bar(8, " us", 1)
SIZES = {10: (5, 6), 25: (2, 5), 50: (1, 5), 100: (1, 5)}
"""Turns -> sessions in a block, blocks."""
QUICK = {10: (2, 3), 100: (1, 2)}
DELTAS, DELTA_TEXT = 500, 10_000


async def curve(*, quick: bool) -> dict[int, Pair]:
    """Turns -> CPU seconds per model call."""
    sizes = QUICK if quick else SIZES
    return {turns: await per_call(turns, sessions=one, blocks=two) for turns, (one, two) in sizes.items()}


def growth(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """`a` and `b` of a + b N/2 by least squares: fixed cost, and cost per turn of history already held."""
    xs, ys = [turns / 2 for turns, _ in points], [cost for _, cost in points]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    return mean_y - slope * mean_x, slope


def rows_of(found: Mapping[int, Pair], causes: Mapping[int, str]) -> list[Row]:
    """Goals 1, 2 and 3."""
    rows = []
    for number, turns, bar in ((1, 10, AT_10), (2, 100, AT_100)):
        pair = found[turns]
        rows.append(
            Row(
                number,
                f"CPU per model call, {turns} turns, all of it on",
                f"{pair.ours * 1e3:.2f} ms",
                f"{pair.floor * 1e3:.2f} ms",
                f"{pair.ratio:.2f} x",
                str(bar),
                bar.over(pair.ratio),
                causes.get(turns, ""),
            )
        )
    fixed, slope = growth([(turns, pair.ours) for turns, pair in found.items()])
    floor_fixed, floor_slope = growth([(turns, pair.floor) for turns, pair in found.items()])
    rows.append(
        Row(
            3,
            "CPU per model call and turn of history held",
            f"{slope * 1e6:.1f} us + {fixed * 1e3:.2f} ms",
            f"{floor_slope * 1e6:.1f} us + {floor_fixed * 1e3:.2f} ms",
            f"{slope / floor_slope:.2f} x",
            str(GROWTH),
            GROWTH.over(slope * 1e6),
            causes.get(100, ""),
        )
    )
    return rows


async def delta_row(*, quick: bool) -> Row:
    """Goal 17: the same text in 500 pieces and in one."""
    sessions, blocks = (2, 3) if quick else (4, 6)
    many = await per_session(Plan(0, deltas=DELTAS, text=DELTA_TEXT), sessions=sessions, blocks=blocks)
    one = await per_session(Plan(0, deltas=1, text=DELTA_TEXT), sessions=sessions, blocks=blocks)
    ours = (many.ours - one.ours) / (DELTAS - 1) * 1e6
    floor = (many.floor - one.floor) / (DELTAS - 1) * 1e6
    return Row(
        17,
        f"CPU per streamed delta, {DELTAS} deltas",
        f"{ours:.1f} us",
        f"{floor:.1f} us",
        f"{ours / floor:.2f} x",
        str(DELTA),
        DELTA.over(ours),
        "of reading the stream: the rest of the answer is the same",
    )
