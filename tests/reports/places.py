"""Where a report is tried again: the whole engine in memory, or the same on the real client and a wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.policy import Policy
from bot.core.tool import Tool, ToolContext, tool
from bot.engine.advance import advance
from bot.engine.writer import Writer
from bot.lab.clock import LabClock
from bot.lab.twins import Says
from tests.builders import POLICY, CreditArgs, OrderArgs
from tests.claude.conftest import Place
from tests.world import World

PAY = {"order_id": "4921", "amount_cents": 5400}


class WireClock(LabClock):
    """The time of day; a pause takes a fiftieth of its time."""

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))

    async def sleep(self, seconds: float) -> None:
        """Shorter than said, but really."""
        await asyncio.sleep(seconds / 50)


class Deeds:
    """What tools really did, in order: the oracle beside the log."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str] = []

    def tool(
        self,
        name: str,
        authority: Authority = Authority.CRITICAL,
        body: Callable[[Any, ToolContext], Any] = lambda args, context: {"done": args.model_dump()},
        *,
        model: type[BaseModel] = CreditArgs,
        output: Trust = Trust.INTERNAL,
        **options: Any,
    ) -> Tool:
        """A tool that notes its arguments and key before it does what `body` says (which may be a coroutine)."""

        async def run(args: BaseModel, context: ToolContext) -> Any:
            """Noted."""
            self.done.append((name, args.model_dump()))
            self.keys.append(context.idempotency_key)
            answer = body(args, context)
            return await answer if asyncio.iscoroutine(answer) else answer

        run.__annotations__ = {"args": model, "context": ToolContext, "return": Any}
        return tool(authority=authority, output=output, name=name, **options)(run)

    def look(self, name: str = "get_order", answer: Any = None, **options: Any) -> Tool:
        """A read of our own records."""
        options = {"model": OrderArgs, "parallel_safe": True, **options}
        body = answer if callable(answer) else lambda args, context: answer or {"total_cents": int(args.order_id)}
        return self.tool(name, Authority.OBSERVE, body, **options)

    def of(self, name: str) -> list[dict[str, Any]]:
        """Arguments of the calls of that tool that really ran."""
        return [arguments for one, arguments in self.done if one == name]


def policy(**tables: Any) -> Policy:
    """Carol and Dave decide; the rest as said."""
    return Policy.model_validate({**POLICY.model_dump(), **tables})


def wired(place: Place, *replies: Any, **fields: Any) -> World:
    """The engine on the real client; the service checks every request as the real one does."""
    world = World([], clock=WireClock(), **fields)
    world.desk = replace(world.desk, model=place.plays(*replies))
    return world


def restarted(world: World, turns: list[Any] | None = None, tools: Any = None) -> World:
    """Another process on the same store and workspace; nothing of the old one's memory is left."""
    fresh = World(turns or [Says("Done.")], tools or world.tools, world.policy, clock=world.clock)
    fresh.store, fresh.surface, fresh.people = world.store, world.surface, world.people
    model = world.desk.model if turns is None else fresh.model
    fresh.model = world.model if turns is None else fresh.model
    fresh.clicks = 100 * len(world.store.memory.claims)  # no claim of the old process comes again
    fresh.desk = replace(fresh.desk, store=fresh.store, surface=fresh.surface, people=fresh.people, model=model)
    return fresh


async def asks(world: World, text: str = "why?", ts: str = "1.0", **body: Any) -> dict[str, Any]:
    """A question, and how its run ended."""
    await world.says(text, ts=ts, **body)
    await world.settle()
    assert world.tracer.faults == []
    return world.of("RunFinished")[-1]


class Died(BaseException):
    """The process is gone: nothing of it runs on."""


async def dies_at(world: World, port: Any, name: str, when: Callable[..., bool] = lambda *given: True) -> None:
    """A worker takes the thread and is gone at that call of the store; then its lease runs out."""
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    real = getattr(port, name)

    async def gone(*given: Any) -> Any:
        if when(*given):
            raise Died
        return await real(*given)

    setattr(port, name, gone)
    writer = await Writer.open(held, world.store.log, world.clock, world.tracer)
    with pytest.raises(BaseException):  # noqa: B017  Died, or a group of it where calls ran side by side
        await advance(world.desk, writer)
    setattr(port, name, real)
    world.clock.advance(20)
