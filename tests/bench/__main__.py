"""`make bench`: what a step costs, as ratios to a floor measured in the same run. Prints; judges nothing else.

Without arguments the store's rows and every goal; `goals [--only 1,2] [--quick]` the goals; `profile N` where our
CPU goes in a session of N turns.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import uvloop

from tests.bench.goals import NUMBERS, show
from tests.bench.profiling import show as show_profile
from tests.bench.store import rows


def main() -> None:
    """One table, or two."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    goals = commands.add_parser("goals")
    goals.add_argument("--only", type=lambda said: [int(one) for one in said.split(",")], default=[])
    goals.add_argument("--quick", action="store_true", help="fewer sessions and repeats; figures are rougher")
    profile = commands.add_parser("profile")
    profile.add_argument("turns", type=int, nargs="+")
    given = parser.parse_args()
    if given.command == "profile":
        uvloop.run(_ending(_profiles(given.turns)))
    elif given.command == "goals":
        if unknown := sorted(set(given.only) - set(NUMBERS)):
            parser.error(f"no goal {unknown[0]} here; there are {', '.join(map(str, NUMBERS))}")
        uvloop.run(_ending(show(given.only, quick=given.quick)))
    else:
        uvloop.run(_ending(_store()))
        uvloop.run(_ending(show()))


async def _ending(work: Coroutine[Any, Any, object]) -> None:
    """Being told to stop leaves no server and no process behind."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


async def _profiles(sizes: list[int]) -> None:
    for turns in sizes:
        await show_profile(turns)


async def _store() -> None:
    print(f"{'what':<58} {'measured':>16} {'floor':>12} {'ratio':>8}   bar")
    for row in await rows():
        print(row)


if __name__ == "__main__":
    main()
