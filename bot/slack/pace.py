"""Slack's rates, kept by us: about one post a second for each channel, updates by the minute (slack.md 2.2)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

POST_PER_S, POST_BURST = 1.0, 3
UPDATE_PER_S, UPDATE_BURST = 50 / 60, 25


@dataclass
class Pace:
    """Token buckets; one process's share."""

    _levels: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait_s(self, name: str, per_s: float, burst: int) -> float:
        """Take a token: 0 when there is one, else how long until this caller's own."""
        now = time.monotonic()
        level, at = self._levels.get(name, (float(burst), now))
        level = min(float(burst), level + (now - at) * per_s) - 1
        self._levels[name] = (level, now)
        return max(0.0, -level / per_s)

    async def post(self, channel: str) -> None:
        """Wait for this channel's turn."""
        await asyncio.sleep(self.wait_s(f"post:{channel}", POST_PER_S, POST_BURST))

    async def update(self, *, skippable: bool) -> bool:
        """Wait for an update's turn; a skippable one is skipped instead (False): a newer state will come."""
        if skippable and self._level("update", UPDATE_PER_S, UPDATE_BURST) < UPDATE_BURST / 3:
            return False
        await asyncio.sleep(self.wait_s("update", UPDATE_PER_S, UPDATE_BURST))
        return True

    def _level(self, name: str, per_s: float, burst: int) -> float:
        level, at = self._levels.get(name, (float(burst), 0.0))
        return min(float(burst), level + (time.monotonic() - at) * per_s)
