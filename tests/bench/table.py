"""One row of the goals: our figure, the floor of the same run, their ratio, the bar, and how far from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = f"{'#':>3} {'goal':<50} {'ours':>20} {'floor or bound':>20} {'ratio':>8}  {'must':<22} verdict"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    number: int
    what: str
    ours: str
    floor: str
    ratio: str
    must: str
    missed: str = ""
    """Empty: the bar is met; else by how much."""
    cause: str = ""

    def __str__(self) -> str:
        cause = f" ({self.cause})" if self.cause else ""
        verdict = f"MISSED by {self.missed}{cause}" if self.missed else "met"
        return (
            f"{self.number:>3} {self.what:<50} {self.ours:>20} {self.floor:>20} {self.ratio:>8}  "
            f"{self.must:<22} {verdict}"
        )


@dataclass(frozen=True)
class Bar:
    """What a figure must not pass, and its unit."""

    most: float
    unit: str = ""
    digits: int = 2

    def over(self, found: float) -> str:
        """By how much it is passed; empty when it is not."""
        return f"{found - self.most:.{self.digits}f}{self.unit}" if found > self.most else ""

    def __str__(self) -> str:
        return f"<= {self.most:g}{self.unit}"


def overs(*said: str) -> str:
    """All that is passed, together."""
    return " and ".join(filter(None, said))


def least(found: float, bar: float, unit: str = "") -> str:
    """How much is missing to a figure that must be reached."""
    return f"{bar - found:.3f}{unit}" if found < bar else ""


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them lies; NaN of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")
