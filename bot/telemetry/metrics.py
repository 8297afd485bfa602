"""Counters and distributions as Prometheus reads them (text format 0.0.4). Knows nothing of what is counted."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RECENT = 10_000
"""How many of the newest values the quantiles are taken over, exactly."""
QUANTILES = (0.5, 0.99)

Labels = tuple[tuple[str, str], ...]


class Distribution:
    """Buckets for a fleet (they can be added up), and exact quantiles of this process for whoever looks at it."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds`: rising upper bounds; the last bucket is open."""
        self.bounds = tuple(bounds)
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)

    def add(self, value: float) -> None:
        """One more."""
        self.buckets[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value
        self._recent.append(value)

    def quantiles(self) -> dict[float, float]:
        """The smallest recent value that at least that share of them does not pass; empty before the first."""
        ranked = sorted(self._recent)
        return {share: ranked[max(0, math.ceil(share * len(ranked)) - 1)] for share in QUANTILES if ranked}

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Upper bound and how many are within it, the open one last."""
        total = 0
        for bound, count in zip([*map(_number, self.bounds), "+Inf"], self.buckets, strict=True):
            total += count
            yield bound, total


class Metrics:
    """Named families, each described once; a counter that is described with label values starts at 0."""

    def __init__(self) -> None:
        self._help: dict[str, tuple[str, str]] = {}
        self._values: dict[str, dict[Labels, float]] = {}
        self._distributions: dict[str, Distribution] = {}

    def counter(self, name: str, what: str, starts: Iterable[Mapping[str, str]] = ()) -> None:
        """Describe a counter; `starts`: label values that are known beforehand."""
        self._help[name] = ("counter", what)
        self._values[name] = defaultdict(float, {_labels(labels): 0.0 for labels in starts})

    def distribution(self, name: str, what: str, bounds: Sequence[float]) -> None:
        """Describe a distribution."""
        self._help[name] = ("histogram", what)
        self._distributions[name] = Distribution(bounds)

    def count(self, name: str, by: float = 1, /, **labels: str) -> None:
        """Add to a counter."""
        self._values[name][_labels(labels)] += by

    def add(self, name: str, value: float) -> None:
        """One more value of a distribution."""
        self._distributions[name].add(value)

    def value(self, name: str, **labels: str) -> float:
        """Of a counter."""
        return self._values[name][_labels(labels)]

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything, with gauges (name -> what, value) that are only known now."""
        lines: list[str] = []
        for name, (kind, what) in sorted(self._help.items()):
            lines += _head(name, kind, what)
            lines += self._spread(name) if kind == "histogram" else _samples(name, self._values[name])
        for name, (what, value) in sorted(gauges.items()):
            lines += [*_head(name, "gauge", what), f"{name} {_number(value)}"]
        return "\n".join(lines) + "\n"

    def _spread(self, name: str) -> list[str]:
        spread = self._distributions[name]
        bounds = list(spread.cumulative())
        lines = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in bounds]
        lines += [f"{name}_sum {_number(spread.sum)}", f"{name}_count {bounds[-1][1]}"]
        recent = f"{name}_recent"
        lines += _head(recent, "gauge", f"Exact quantiles of the newest {RECENT} values in this process.")
        return lines + [f'{recent}{{quantile="{at}"}} {_number(value)}' for at, value in spread.quantiles().items()]


def _labels(given: Mapping[str, str]) -> Labels:
    return tuple(sorted(given.items()))


def _head(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]


def _samples(name: str, values: Mapping[Labels, float]) -> list[str]:
    return [f"{name}{_braced(labels)} {_number(value)}" for labels, value in sorted(values.items())]


def _braced(labels: Labels) -> str:
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() else repr(float(value))
