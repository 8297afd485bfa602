"""Real time and real chance."""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime

from bot.core.chain import SALT_BYTES


class SystemClock:
    """The Clock port of a running process."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Really wait."""
        await asyncio.sleep(seconds)

    def new_id(self, prefix: str) -> str:
        """96 random bits: no two processes ever draw the same."""
        return f"{prefix}-{secrets.token_hex(12)}"

    def salt(self) -> bytes:
        """From the operating system."""
        return secrets.token_bytes(SALT_BYTES)
