"""A scripted service on loopback, and the real client on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.claude.client import Claude
from bot.claude.retry import Patience
from bot.lab.messages_script import InOrder, Turn
from bot.lab.messages_server import API_KEY, ScriptedMessages

QUICK = Patience(attempts=4, first_s=0.01, longest_s=0.05)


class Place:
    """Both."""

    def __init__(self) -> None:
        self.api = ScriptedMessages(InOrder([Turn("hello")]))
        self.client = Claude(api_key=API_KEY)

    def plays(self, *replies: Any) -> Claude:
        """The client, against that script."""
        self.api.brain = InOrder(list(replies))
        return self.client


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """Warm: what is timed is not the import."""
    found = Place()
    async with found.api:
        found.client = Claude(api_key=API_KEY, base_url=found.api.url, patience=QUICK)
        await found.client.warm_up()
        yield found
        await found.client.close()
