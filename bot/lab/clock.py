"""A clock that stands still until it is told to move, and ids that are the same in every run."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from datetime import UTC, datetime, timedelta

from bot.core.chain import SALT_BYTES

START = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


class LabClock:
    """The Clock port for tests: sleeping ends when `advance` has moved time far enough."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._ids = itertools.count(1)
        self._sleepers: list[tuple[datetime, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """UTC; moves a microsecond at each look, so that no two entries share a time."""
        self._now += timedelta(microseconds=1)
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Until `advance` has passed that time."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + timedelta(seconds=seconds), done))
        await done

    def advance(self, seconds: float) -> None:
        """Move time and wake whoever slept until then."""
        self._now += timedelta(seconds=seconds)
        due = [one for one in self._sleepers if one[0] <= self._now]
        self._sleepers = [one for one in self._sleepers if one[0] > self._now]
        for _, done in due:
            if not done.done():
                done.set_result(None)

    def new_id(self, prefix: str) -> str:
        """`prefix-000001` and so on."""
        return f"{prefix}-{next(self._ids):06d}"

    def salt(self) -> bytes:
        """Different for each call, the same in each run."""
        return hashlib.sha256(str(next(self._ids)).encode()).digest()[:SALT_BYTES]
