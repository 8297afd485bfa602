"""Traces and metrics when something goes wrong: a worker dies, a person says stop, telemetry itself breaks."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from aiohttp import ClientSession
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from bot.app.health import serve_admin
from bot.app.settings import listening_socket
from bot.app.wiring import Plant
from bot.engine.advance import advance
from bot.engine.ports import ModelReply, ModelRequest
from bot.engine.worker import Worker
from bot.engine.writer import Writer
from bot.lab.twins import Says, TwinModel
from bot.telemetry.notes import Notes
from tests.telemetry.scrape import Scraped, scraped
from tests.telemetry.traced import Traced, attributes

ORDER = ("get_order", {"order_id": "4921"})
CREDIT = ("issue_credit", {"order_id": "4921", "amount_cents": 900})


class Died(BaseException):
    """The process is gone."""


async def test_a_run_taken_over_from_a_dead_worker_goes_on_in_its_trace() -> None:
    """The second worker begins in the middle of a turn: with a tool, before anything was committed."""
    traced = Traced([Says(calls=[CREDIT]), Says("Nothing.")])
    world = traced.world
    await world.says("What do we owe?")
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    real = world.store.ledger.end

    async def dies(*_: Any) -> None:
        raise Died

    world.store.ledger.end = dies  # type: ignore[method-assign]  # after the effect, before anybody noted it
    writer = await Writer.open(held, world.store.log, world.clock, traced.tracer)
    with pytest.raises(Died), traced.tracer.lease(writer.session):
        await advance(world.desk, writer)
    world.store.ledger.end = real  # type: ignore[method-assign]  # as above
    world.clock.advance(20)
    await world.settle()

    one_turn = ["invoke_agent plimsoll", " turn", "  chat claude-sonnet-5-5", "  execute_tool issue_credit"]
    assert traced.tree() == [*one_turn, one_turn[0], one_turn[1], one_turn[3], " turn", "  chat claude-sonnet-5-5"]
    assert len({one.context.trace_id for one in traced.spans}) == 1
    assert [attributes(one).get("error.type") for one in traced.named("invoke_agent")] == ["Died", None]
    assert [attributes(one)["plimsoll.turn"] for one in traced.named("turn")] == [1, 1, 2]


class Thinking(TwinModel):
    """Never comes to an end."""

    begun = asyncio.Event()

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """Says that it has begun, and waits."""
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


async def test_a_model_call_that_somebody_stopped_says_so() -> None:
    """It has neither a reply nor a fault of anybody's."""
    traced = Traced([Says("never said")])
    world = traced.world
    world.model = Thinking(world.turns)
    object.__setattr__(world.desk, "model", world.model)
    await world.says("What do we owe?")
    held = await world.store.lease.next_ready("w1", wait_s=0, lease_s=15)
    assert held is not None

    work = asyncio.create_task(Worker(world.desk, "w1").handle(held))
    await world.model.begun.wait()
    await world.happens("stop", user="U0ALICE")
    world.clock.advance(1)
    await work

    assert attributes(traced.named("chat")[0])["error.type"] == "stopped"
    assert attributes(traced.named("invoke_agent")[0])["plimsoll.outcome"] == "cancelled"
    assert "error.type" not in attributes(traced.named("invoke_agent")[0])


class Breaks(SpanProcessor):
    """Fails whenever such a span begins or ends."""

    def __init__(self, start: str, when: str) -> None:
        self._start, self._when = start, when

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """A fault of whoever wrote it."""
        if self._when == "begins" and span.name.startswith(self._start):
            raise RuntimeError("a broken exporter")

    def on_end(self, span: ReadableSpan) -> None:
        """Likewise."""
        if self._when == "ends" and span.name.startswith(self._start):
            raise RuntimeError("a broken exporter")


@pytest.mark.parametrize("when", ["begins", "ends"])
@pytest.mark.parametrize("name", ["invoke_agent", "turn", "chat", "execute_tool", ""])
async def test_a_fault_of_telemetry_ends_nobodys_run(name: str, when: str) -> None:
    """People get their answer, operators a note with the stack."""
    traced = Traced([Says(calls=[ORDER]), Says("Nothing.")])
    provider = TracerProvider()
    provider.add_span_processor(Breaks(name, when))
    traced.tracer = Notes(stream=traced.lines, provider=provider)
    object.__setattr__(traced.world.desk, "tracer", traced.tracer)
    await traced.world.says("What do we owe?")
    await traced.world.settle()

    faults = [note for note in traced.notes if note["event"] == "telemetry.fault"]
    assert [one["text"] for one in traced.world.answers] == ["Nothing."]
    assert faults and all("a broken exporter" in one["stack"] for one in faults)
    assert {note["event"] for note in traced.notes} == {"telemetry.fault", "run.finished"}


async def _scrape(traced: Traced) -> Scraped:
    """/metrics of a process that has this world's store."""
    nothing: Any = None
    plant = Plant(traced.world.desk, nothing, nothing, nothing, traced.tracer, nothing, lambda: None)
    listener = listening_socket("PLIMSOLL_ADMIN", ("127.0.0.1", 0, True))
    host, port = listener.getsockname()
    runner = await serve_admin(plant, listener)
    try:
        async with ClientSession() as session, session.get(f"http://{host}:{port}/metrics") as response:
            return scraped(await response.text())
    finally:
        await runner.cleanup()


async def test_the_page_is_there_when_the_store_is_not_and_claims_nothing_of_it() -> None:
    """Just then an operator looks at it; 0 would say that nobody waits."""
    traced = Traced([Says("Nothing.")])
    there = await _scrape(traced)
    traced.world.store.memory.away = True
    away = await _scrape(traced)

    assert there.value("plimsoll_approvals_waiting") == 0
    assert "plimsoll_approvals_waiting" not in away.types and away.value("plimsoll_runs_live") == 0


@pytest.mark.parametrize("ending", ["approve", "deny", "expires", "stop", "edit"])
async def test_who_waits_is_what_the_log_leaves_open_however_an_approval_ends(ending: str) -> None:
    """Asked, then closed: in between one, afterwards none, and never a count of this process's own."""
    ticket = ("get_ticket", {"order_id": "4921"})
    traced = Traced([Says(calls=[ticket, CREDIT]), Says("Done.")])
    world = traced.world
    await world.says("Do it", ts="1.0")
    await world.settle()
    asked = await world.store.timers.count("expire:")
    if ending == "expires":
        world.clock.advance(90_000)
    elif ending == "stop":
        await world.happens("stop", user="U0ALICE")
    elif ending == "edit":
        await world.happens("edit", ts="1.0", author="U0ALICE", text="Leave it")
    else:
        await world.clicks_on(ending)
    await world.settle()

    closed = [one["type"] for one in world.of("ApprovalDecided", "ApprovalVoided")]
    assert asked == len(world.of("ApprovalRequested")) == 1
    assert len(closed) == 1 and await world.store.timers.count("expire:") == 0
