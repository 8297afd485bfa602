"""A worker dies, a reply is lost, a person loses a right in between: nothing is lost and nothing is doubled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.core import events as e
from bot.core.authority import Authority
from bot.core.errors import OutsideFailed
from bot.core.state import CallState
from bot.engine.advance import advance
from bot.engine.perform import idempotency_key
from bot.engine.worker import Worker
from bot.engine.writer import Writer
from bot.lab.twins import Says
from tests.builders import ISSUE_CREDIT, CreditArgs, Story, make_tool
from tests.world import World

TICKET = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAY = Says("Paying.", calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])
DONE = Says("Done.")


class Died(BaseException):
    """The process is gone: nothing of it runs on."""


def _paying(effects: list[str], *, idempotent: bool) -> Any:
    def pay(args: Any, context: Any) -> Any:
        effects.append(context.idempotency_key)
        return {"paid": True}

    return make_tool("issue_credit", Authority.CRITICAL, model=CreditArgs, idempotent=idempotent, answer=pay)


async def _crash(world: World) -> None:
    """Run until the tool's process dies, then let its lease run out."""
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    real = world.store.ledger.end

    async def dies(*_: Any) -> None:
        raise Died

    world.store.ledger.end = dies  # type: ignore[method-assign]  # after the effect, before anybody noted it
    writer = await Writer.open(held, world.store.log, world.clock, world.tracer)
    with pytest.raises(Died):
        await advance(world.desk, writer)
    world.store.ledger.end = real  # type: ignore[method-assign]  # as above
    world.clock.advance(20)


@pytest.mark.parametrize(("idempotent", "times"), [(True, 2), (False, 1)])
async def test_an_effect_of_unknown_end_is_repeated_only_with_the_same_key(idempotent: bool, times: int) -> None:
    """An idempotent tool runs again with its key; any other goes to a person, never run blindly."""
    effects: list[str] = []
    world = World([PAY, DONE], [_paying(effects, idempotent=idempotent)])
    await world.says("pay")
    await _crash(world)

    await world.settle()

    assert len(effects) == times
    assert len(set(effects)) == 1
    assert len(world.of("ToolStarted")) == 1
    if idempotent:
        assert world.answers[0]["text"] == "Done."
    else:
        assert [one["call_id"] for one in world.of("EffectUnknown")] == ["toolu_001_0"]
        assert world.answers[0]["stop_reason"] == "hand_over"
        assert "5400" in world.answers[0]["text"]


async def test_a_finished_effect_whose_result_was_not_logged_is_replayed() -> None:
    """The ledger remembers what the log does not yet."""
    effects: list[str] = []
    world = World([PAY, DONE], [_paying(effects, idempotent=False)])
    await world.says("pay")
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    real = world.store.log.commit

    async def dies_after_the_effect(given: Any, step: Any) -> None:
        if any(entry.type == "ToolReturned" for entry in step.entries):
            raise Died
        await real(given, step)

    world.store.log.commit = dies_after_the_effect  # type: ignore[method-assign]  # the process dies here
    writer = await Writer.open(held, world.store.log, world.clock, world.tracer)
    with pytest.raises(Died):
        await advance(world.desk, writer)
    world.store.log.commit = real  # type: ignore[method-assign]  # as above
    world.clock.advance(20)

    await world.settle()

    assert len(effects) == 1
    assert world.answers[0]["text"] == "Done."


async def test_a_payment_that_broke_off_half_way_goes_to_a_person_and_is_not_tried_again() -> None:
    """Whatever it raised: it may have had its effect."""

    def breaks(args: Any, context: Any) -> Any:
        raise BaseException("panicked")

    world = World([PAY, DONE], [make_tool("issue_credit", Authority.CRITICAL, model=CreditArgs, answer=breaks)])
    await world.says("pay")
    await world.settle()

    assert world.kinds.count("EffectUnknown") == 1
    assert world.answers[0]["stop_reason"] == "hand_over"
    assert world.tracer.faults == []


async def test_a_fenced_worker_says_nothing() -> None:
    """Another one owns the thread: no entry, no post."""
    world = World([DONE])
    await world.says("why?")
    stale = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert stale is not None
    world.clock.advance(20)
    await world.settle()
    before = (len(world.log), len(world.surface.shown))

    await Worker(world.desk, "w0").handle(stale)

    assert (len(world.log), len(world.surface.shown)) == before
    assert world.tracer.notes[-1][0] == "worker.fenced"


async def test_a_post_whose_reply_was_lost_is_found_not_repeated() -> None:
    """One right, visible answer: never silence, never two."""
    world = World([TICKET, PAY, DONE])
    world.surface.losing = 2
    await world.says("pay")
    await _with_waits(world)
    await world.clicks_on("approve")
    world.surface.losing = 1
    await _with_waits(world)

    keys = [one.piece.key for one in world.surface.shown]
    assert len(keys) == len(set(keys))
    assert world.answers[0]["text"] == "Done."


async def test_an_answer_waits_for_slack_to_come_back() -> None:
    """However long it is away, it comes once."""
    world = World([DONE])
    world.surface.failing = 9
    await world.says("why?")
    for _ in range(12):
        await _with_waits(world)
        world.clock.advance(400)

    assert [one["text"] for one in world.answers] == ["Done."]
    assert len(world.of("RunFinished")) == 1


async def test_progress_that_slack_does_not_take_holds_up_no_answer() -> None:
    """What only passes may be left unsaid."""
    world = World([DONE])
    real = world.surface.post

    async def refuses_progress(thread: Any, piece: Any) -> str:
        if piece.body.get("kind") in ("progress", "status"):
            raise OutsideFailed("fatal_error", retryable=True)
        return await real(thread, piece)

    world.surface.post = refuses_progress  # type: ignore[method-assign]  # Slack takes answers only
    await world.says("why?")
    await _with_waits(world)

    assert [one["text"] for one in world.answers] == ["Done."]


async def test_a_rendering_that_breaks_neither_blocks_the_thread_nor_leaves_people_in_silence() -> None:
    """Our fault, loud for the operator; people get a plain line, and the next question is answered."""
    world = World([DONE, Says("Again.")])
    real = world.surface.render

    def breaks(thread: Any, effect: Any, posted: Any) -> Any:
        if effect.kind == "answer" and effect.text == "Done.":
            raise ValueError("odd text")
        return real(thread, effect, posted)

    world.surface.render = breaks  # type: ignore[method-assign]  # a rendering with a fault
    await world.says("why?")
    await world.settle()
    await world.says("and?", ts="2.0")
    await world.settle()

    assert "in the log" in world.surface.of_kind("notice")[0]["text"]
    assert [one["text"] for one in world.answers] == ["Again."]
    assert [str(fault) for fault in world.tracer.faults] == ["odd text"]


async def _with_waits(world: World) -> None:
    """Settle while the clock's sleepers are woken: retries wait on it."""
    settling = asyncio.ensure_future(world.settle())
    while not settling.done():
        await asyncio.sleep(0)
        world.clock.advance(0.1)
    await settling


def test_a_call_goes_on_with_the_key_it_started_with() -> None:
    """Whatever an older version made it from: another key would be another effect."""
    story = Story().asked().replied(("c1", ISSUE_CREDIT, {"order_id": "4921", "amount_cents": 5400}))
    fresh = idempotency_key(story.session, _call(story))

    story.add(e.ToolStarted(call_id="c1", idempotency_key="of an older version"))

    assert fresh and idempotency_key(story.session, _call(story)) == "of an older version"


def _call(story: Story) -> CallState:
    assert story.session.run is not None
    return story.session.run.calls[0]
