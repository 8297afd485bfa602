"""Faults of a local workspace, asked for by tests: what the next calls of a method do instead."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass


@dataclass(frozen=True)
class Fails:
    """`{"ok": false, "error": …}` with status 200, as Slack says no."""

    error: str


@dataclass(frozen=True)
class Limited:
    """429 with Retry-After in seconds."""

    retry_after_s: int = 1


@dataclass(frozen=True)
class Broken:
    """An HTTP status without a usable body."""

    status: int = 503


@dataclass(frozen=True)
class Lost:
    """The connection is cut; `after` the call was carried out, or before."""

    after: bool = True


@dataclass(frozen=True)
class Slow:
    """The answer takes that long."""

    seconds: float


Fault = Fails | Limited | Broken | Lost | Slow


class Faults:
    """A queue for each method."""

    def __init__(self) -> None:
        self._next: dict[str, deque[Fault]] = defaultdict(deque)

    def next(self, method: str, *faults: Fault) -> None:
        """The next calls of that method meet these, one each."""
        self._next[method].extend(faults)

    def take(self, method: str) -> Fault | None:
        """What this call meets."""
        return self._next[method].popleft() if self._next[method] else None
