"""Every goal of one issue in one table. A goal that cannot be measured is a row too, never a silence."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from tests.bench import cache, cpu, crowd, profiling, start, stored
from tests.bench.places import pin_here, unpinned
from tests.bench.table import HEAD, Row

REFERENCE_MS = 1.36 + 41.6e-3 * 10 / 2
"""CPU per call of the floor at 10 turns on the machine that the absolute bars were set on."""


async def _cpu(quick: bool) -> list[Row]:
    found = await cpu.curve(quick=quick)
    causes = {turns: await profiling.dearest(turns) for turns in (10, 100) if not quick or turns == 10}
    slower = found[10].floor * 1e3 / REFERENCE_MS
    print(f"    the floor costs {slower:.2f} x what it did where the absolute bars (3, 12 to 14, 16, 17) were set")
    return cpu.rows_of(found, causes)


async def _stored(quick: bool) -> list[Row]:
    return await stored.rows(100)


async def _delta(quick: bool) -> list[Row]:
    return [await cpu.delta_row(quick=quick)]


async def _plain(quick: bool) -> list[Row]:
    return [await cache.plain()]


async def _hard(quick: bool) -> list[Row]:
    return await cache.hard()


async def _fan_out(quick: bool) -> list[Row]:
    return await crowd.fan_out(quick=quick)


async def _spread(quick: bool) -> list[Row]:
    return [await crowd.spread(quick=quick)]


async def _start(quick: bool) -> list[Row]:
    with unpinned():
        return [await start.row(quick=quick)]


Measure = Callable[[bool], Awaitable[Sequence[Row]]]
MEASURES: dict[tuple[int, ...], Measure] = {
    (1, 2, 3): _cpu,
    (5, 6, 7, 14): _stored,
    (8,): _plain,
    (9,): _hard,
    (17,): _delta,
    (11, 13): _fan_out,
    (12,): _spread,
    (16,): _start,
}
NUMBERS = sorted(number for numbers in MEASURES for number in numbers)


async def show(only: Collection[int] = (), *, quick: bool = False) -> list[Row]:
    """Measure what is asked for (nothing: everything) and print each row as it is found."""
    pin_here()
    begun, found = time.monotonic(), list[Row]()
    print(HEAD, flush=True)
    for numbers, measure in MEASURES.items():
        if only and not set(numbers) & set(only):
            continue
        for row in await _rows(numbers, measure, quick):
            if not only or row.number in only:
                found.append(row)
                print(row, flush=True)
    missed = [row.number for row in sorted(found, key=lambda one: one.number) if row.missed]
    words = f"missed: {', '.join(map(str, missed))}" if missed else "none is missed"
    print(f"    {len(found) - len(missed)} of {len(found)} goals are met, {words}; {time.monotonic() - begun:.0f} s")
    return found


async def _rows(numbers: tuple[int, ...], measure: Measure, quick: bool) -> Sequence[Row]:
    try:
        return await measure(quick)
    except Exception as fault:  # noqa: BLE001  the other goals are still to be measured
        told: Any = " ".join(str(fault).split())[:160] or repr(fault)
        return [Row(one, "could not be measured", "-", "-", "-", "-", "everything", told) for one in numbers]
