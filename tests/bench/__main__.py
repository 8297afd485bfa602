"""`make bench`: what a step costs, as ratios to a floor measured in the same run. Prints; judges nothing else."""

from __future__ import annotations

import asyncio

from tests.bench.store import rows


def main() -> None:
    """One table."""
    print(f"{'what':<58} {'measured':>16} {'floor':>12} {'ratio':>8}   bar")
    for row in asyncio.run(rows()):
        print(row)


if __name__ == "__main__":
    main()
