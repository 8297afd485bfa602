"""Where real things meet: everything is built here and handed in; nothing is built at import."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import ClientSession
from slack_sdk.web.async_client import AsyncWebClient

from bot.app.clock import SystemClock
from bot.app.modules import load_tools
from bot.app.prompt import SYSTEM_PROMPT
from bot.app.settings import Settings
from bot.claude.client import Claude
from bot.core.policy import Policy
from bot.core.strategies import strategy_for
from bot.engine.desk import Desk
from bot.engine.toolbox import LocalToolbox
from bot.slack.calls import make_client
from bot.slack.inbound import Us
from bot.slack.listeners import SlackIngress, connect
from bot.slack.people import SlackPeople
from bot.slack.surface import SlackSurface
from bot.store.embedded import Embedded
from bot.store.redis_store import RedisStore
from bot.telemetry.export import exporting
from bot.telemetry.notes import Notes


@dataclass
class Storage:
    """The store, and the embedded server behind it when there is one."""

    store: RedisStore
    embedded: Embedded | None
    place: str

    async def close(self) -> None:
        """Let go of both."""
        await self.store.close()
        if self.embedded is not None:
            await asyncio.to_thread(self.embedded.close)


async def open_storage(settings: Settings) -> Storage:
    """REDIS_URL, or a server of our own under PLIMSOLL_HOME. Raises `OutsideFailed`, `Misconfigured`."""
    if settings.redis_url:
        store = await RedisStore.connect(settings.redis_url)
        return Storage(store, None, store.clients.place)
    embedded = await asyncio.to_thread(Embedded(settings.home).start)
    try:
        store = await RedisStore.connect(embedded.url)
    except BaseException:
        await asyncio.to_thread(embedded.close)
        raise
    return Storage(store, embedded, f"embedded, data in {embedded.home}")


@dataclass
class Plant:
    """Everything of one running process."""

    desk: Desk
    storage: Storage
    ingress: SlackIngress
    model: Claude
    tracer: Notes
    session: ClientSession
    end_traces: Callable[[], None]
    """Sends what is left; blocking, a few seconds at most."""

    async def close(self) -> None:
        """In the order that loses nothing."""
        await self.model.close()
        await self.session.close()
        await self.storage.close()
        await asyncio.to_thread(self.end_traces)


def make_toolbox(settings: Settings, policy: Policy, tracer: Notes) -> LocalToolbox:
    """The tools that the policy names. Raises `Misconfigured`."""
    resources = {"home": settings.home.resolve()}
    tools = load_tools(policy.tools.modules, settings.config.parent, resources)
    return LocalToolbox(tools, policy, resources, tracer, SystemClock())


async def build(settings: Settings, policy: Policy, *, http: bool, role: str = "all") -> Plant:
    """Check, connect and join everything; whatever cannot go on is said in one line and nothing is left open."""
    settings.check_for_serve(policy, http=http, role=role)
    provider, end_traces = exporting(os.environ)
    tracer = Notes(provider=provider)
    toolbox = make_toolbox(settings, policy, tracer)
    # No proxy: aiohttp would obey one even for loopback addresses.
    session = ClientSession(trust_env=False)
    storage: Storage | None = None
    try:
        token = settings.bot_token.reveal()
        us, authorized = await connect(session, token, settings.slack_api_url)
        storage = await open_storage(settings)
        model = Claude(api_key=settings.api_key.reveal(), base_url=settings.anthropic_base_url, tracer=tracer)
        surface_client = make_client(token, settings.slack_api_url, session)
        desk = _desk(surface_client, us, storage, model, toolbox, policy, tracer)
        ingress = SlackIngress(
            us=us,
            authorized=authorized,
            inbox=storage.store.inbox,
            tracer=tracer,
            session=session,
            bot_token=token,
            api_url=settings.slack_api_url,
            app_token=settings.app_token.reveal(),
            signing_secret=settings.signing_secret.reveal(),
        )
    except BaseException:
        await session.close()
        if storage is not None:
            await storage.close()
        raise
    return Plant(desk, storage, ingress, model, tracer, session, end_traces)


def _desk(
    client: AsyncWebClient,
    us: Us,
    storage: Storage,
    model: Claude,
    toolbox: LocalToolbox,
    policy: Policy,
    tracer: Notes,
) -> Desk:
    return Desk(
        store=storage.store,
        model=model,
        toolbox=toolbox,
        people=SlackPeople(client, us.team),
        surface=SlackSurface(client, us, tracer, hosts=policy.egress.hosts),
        tracer=tracer,
        clock=SystemClock(),
        policy=policy,
        strategy=strategy_for(policy.loop),
        prompt=SYSTEM_PROMPT,
    )
