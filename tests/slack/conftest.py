"""One local workspace and our side of it, connected as in production."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import ClientSession

from bot.lab.clock import LabClock
from bot.lab.memory import MemoryStore
from bot.lab.slack_server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, LocalSlack
from bot.lab.twins import Silent
from bot.slack.calls import make_client
from bot.slack.listeners import SlackIngress, connect
from bot.slack.people import SlackPeople
from bot.slack.surface import SlackSurface


@dataclass
class Floor:
    """One workspace and our side of it."""

    slack: LocalSlack
    store: MemoryStore
    ingress: SlackIngress
    surface: SlackSurface
    people: SlackPeople
    tracer: Silent

    @property
    def waiting(self) -> list[Any]:
        """Everything in all inboxes."""
        return [item for actor in self.store.memory.actors.values() for item in actor.inbox]


@pytest.fixture
async def floor() -> AsyncIterator[Floor]:
    """Connected as in production."""
    async with LocalSlack() as slack, ClientSession() as session:
        us, authorized = await connect(session, BOT_TOKEN, slack.api_url)
        store, tracer = MemoryStore(LabClock()), Silent()
        client = make_client(BOT_TOKEN, slack.api_url, session)
        ingress = SlackIngress(
            us=us,
            authorized=authorized,
            inbox=store.inbox,
            tracer=tracer,
            session=session,
            bot_token=BOT_TOKEN,
            api_url=slack.api_url,
            app_token=APP_TOKEN,
            signing_secret=SIGNING_SECRET,
        )
        yield Floor(slack, store, ingress, SlackSurface(client, us, tracer), SlackPeople(client, us.team), tracer)
        await ingress.stop()
