"""Reports 1 to 6: calls without results, and replies that did not come whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from bot.core import events as e
from bot.core.authority import Authority
from bot.engine.writer import Writer
from bot.lab.messages_reply import frames_of
from bot.lab.messages_script import Broken, Call, Turn
from bot.lab.twins import Says
from tests.claude.conftest import Place
from tests.reports.oracle import bodies, faults, refusals
from tests.reports.places import PAY, Deeds, asks, policy, wired
from tests.world import World

ASKED = {"model": "claude-sonnet-5-5", "max_tokens": 8000}
CALL = Turn("I pay.", [Call("issue_credit", PAY)], thinking="Let me see. " * 4)
FRAMES = len(list(frames_of(CALL, ASKED, {"input_tokens": 10})))


class Note(BaseModel):
    """Everything is optional, so that `{}` is a whole call of it."""

    amount_cents: int = 0
    text: str = ""


@pytest.mark.wire
@pytest.mark.parametrize("authority", [Authority.OBSERVE, Authority.SEND])
async def test_report_01_a_stop_in_mid_call_leaves_a_conversation_that_goes_on(
    place: Place, authority: Authority
) -> None:
    """claude-code#746: a call without a result stays behind a cancel, and every later turn is a 400."""
    deeds = Deeds()
    replies = [Turn("Two.", [Call("slow", PAY), Call("slow", {**PAY, "amount_cents": 1})]), Turn("Going on.")]

    async def stopped(args: Any, context: Any) -> dict[str, Any]:
        await world.happens("stop", user="U0ALICE")
        await asyncio.sleep(0.2)
        return {"sent": True}

    world = wired(place, *replies, tools=[deeds.tool("slow", authority, stopped)])
    first = await asks(world, "send both")
    second = await asks(world, "and now?", ts="2.0")

    assert (first["outcome"], second["text"]) == ("cancelled", "Going on.")
    assert len(deeds.done) == 1
    assert refusals(place.api) == []
    assert len(world.of("ToolReturned")) == len(world.of("ToolRequested")) == 2


async def test_report_01_an_orphan_in_a_stored_log_is_mended_when_it_is_loaded() -> None:
    """claude-code#1577: one of two calls has its result in the stored history, the other never will."""
    world = World([Says("Fine now.")])
    await world.says("and this?", ts="2.0")
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    writer = await Writer.open(held, world.store.log, world.clock, world.tracer)
    until = "2026-12-01T09:05:00Z"
    calls = [{"type": "tool_use", "id": f"toolu_{one}", "name": "get_order", "input": {}} for one in "ab"]
    await writer.write(
        e.RunStarted(run_id="r0", principal="U0ALICE", deadline=until, pins={}, policy_version=""),
        e.MessageReceived(ts="0.5", author="U0ALICE", trust="principal", text="earlier"),
        e.ModelReplied(turn=1, content=calls, stop_reason="tool_use", usage=e.Usage(), cost_usd=0.0),
        *(
            e.ToolRequested(call_id=f"toolu_{one}", tool="get_order", arguments={}, authority="observe", stage=0)
            for one in "ab"
        ),
        e.ToolReturned(call_id="toolu_a", ok=True, content={"total_cents": 77}, trust="internal"),
        e.RunFinished(
            outcome="failed", stop_reason="internal_error", text="x", messages=["0.5"], usage=e.Usage(), cost_usd=0.0
        ),
    )
    await world.store.lease.release(held, parked=False)

    await world.settle()

    assert world.answers[-1]["text"] == "Fine now."
    assert [faults(one) for one in bodies(world.model.requests)] == [[]]
    assert "77" in str(bodies(world.model.requests)) or "earlier" not in str(bodies(world.model.requests))


@pytest.mark.wire
@pytest.mark.parametrize("how", ["cut", "cut_in_frame", "abort"])
async def test_report_02_a_stream_that_ends_early_is_asked_for_again_and_runs_nothing(place: Place, how: str) -> None:
    """term-llm#955: a clean end of the stream without `message_stop` is taken for a finished reply."""
    for at in range(1, FRAMES):
        deeds = Deeds()
        replies = [Broken(CALL, at, how), CALL, Turn("Paid.")]
        world = wired(place, *replies, tools=[deeds.tool("issue_credit")])

        finished = await asks(world)

        assert (finished["text"], deeds.of("issue_credit")) == ("Paid.", [{**PAY, "note": ""}]), at
        assert world.kinds.count("ModelReplied") == 2, at
    assert refusals(place.api) == []


@pytest.mark.wire
@pytest.mark.parametrize("at", range(2, FRAMES, 3))
async def test_report_03_nothing_of_a_truncated_reply_is_stored_and_the_thread_goes_on(place: Place, at: int) -> None:
    """harness-sdk#4334: half a reply with unsigned thinking is stored as `end_turn`; the thread is wedged for ever."""
    world = wired(place, Broken(CALL, at, "cut"), tools=[Deeds().tool("issue_credit")])
    ended = await asks(world)
    given_up = len(place.api.asked)
    place.plays(Turn("Back."))

    finished = await asks(world, "again?", ts="2.0")

    assert (ended["outcome"], ended["stop_reason"], given_up) == ("failed", "model_error", 6)
    assert finished["text"] == "Back."
    assert world.kinds.count("ModelReplied") == 1
    assert "thinking" not in place.api.asked[-1].body.decode()
    assert refusals(place.api) == []


BOTH = [("issue_credit", PAY), ("issue_credit", {**PAY, "amount_cents": 12})]


@pytest.mark.parametrize("calls", [BOTH[:1], BOTH])
async def test_report_04_no_call_of_a_reply_that_was_cut_off_runs_and_the_loop_ends(calls: Any) -> None:
    """agents#280: `max_tokens` in mid call is parsed as a whole call, and the loop goes on to its limit."""
    deeds = Deeds()
    world = World([Says("Paying", calls, stop_reason="max_tokens")], [deeds.tool("issue_credit")])

    finished = await asks(world)

    first, second = world.model.requests
    assert (finished["outcome"], finished["stop_reason"]) == ("partial", "max_tokens")
    assert second.max_output_tokens == 2 * first.max_output_tokens
    assert deeds.done == []


async def test_report_04_cuts_between_good_turns_are_each_asked_once_more_and_count_as_turns() -> None:
    """haystack-core-integrations#3982: the limit never came, because each cut reply looked like a new turn."""
    deeds = Deeds()
    cut = Says("Half", [("issue_credit", PAY)], stop_reason="max_tokens")
    turns = [step for n in range(20) for step in (cut, Says(calls=[("get_order", {"order_id": f"10{n:02d}"})]))]
    world = World(turns, [deeds.look(), deeds.tool("issue_credit")], policy(caps={"turns": 6}))

    finished = await asks(world)

    assert (finished["stop_reason"], len(world.model.requests)) == ("turn_cap", 6)
    assert deeds.of("issue_credit") == [] and len(deeds.of("get_order")) == 3
    assert [faults(one) for one in bodies(world.model.requests)] == [[]] * 6


@pytest.mark.wire
@pytest.mark.parametrize("room", range(12, 48, 6))
async def test_report_04_a_call_that_the_service_cuts_is_made_once_and_whole(place: Place, room: int) -> None:
    """agents#280, where the service itself runs out of room in mid argument."""
    deeds = Deeds()
    long = Turn("I note.", [Call("write_note", {"amount_cents": 1234, "text": "word " * 24})])
    tool = deeds.tool("write_note", Authority.LOCAL_WRITE, model=Note)
    world = wired(place, long, long, Turn("Noted."), tools=[tool], policy=policy(model={"max_output_tokens": room}))

    finished = await asks(world)

    first, second = (one["stop_reason"] for one in world.of("ModelReplied")[:2])
    assert [one["max_tokens"] for one in place.api.requests][:2] == [room, 2 * room]
    assert first == "max_tokens"
    if second == "tool_use":
        assert deeds.done == [("write_note", {"amount_cents": 1234, "text": "word " * 24})]
    else:
        assert (deeds.done, finished["stop_reason"]) == ([], "max_tokens")
    assert refusals(place.api) == []


@pytest.mark.wire
@pytest.mark.parametrize("how", ["arguments_cut", "arguments_garbled", "arguments_followed"])
async def test_report_05_arguments_that_cannot_be_read_never_become_an_empty_call(place: Place, how: str) -> None:
    """gsd-2#2670: truncated arguments become `{}`, which a tool of optional arguments takes for a whole call."""
    deeds = Deeds()
    spoilt = Turn("Noting.", [Call("write_note", {"amount_cents": 1234, "text": "x" * 40})])
    replies = [Broken(spoilt, 0, how), spoilt, Turn("Noted.")]
    world = wired(place, *replies, tools=[deeds.tool("write_note", Authority.LOCAL_WRITE, model=Note)])

    finished = await asks(world)

    [told] = place.api.requests[1]["messages"][-1]["content"]
    assert deeds.done == [("write_note", {"amount_cents": 1234, "text": "x" * 40})]
    assert finished["text"] == "Noted."
    assert "may have been cut off" in told["content"] and told["type"] == "tool_result"
    assert refusals(place.api) == []


@pytest.mark.wire
@pytest.mark.parametrize("kind", ["error", "error_rate_limit", "error_api"])
async def test_report_06_an_overload_inside_a_stream_is_tried_again_and_repeats_no_effect(
    place: Place, kind: str
) -> None:
    """anthropic-sdk-python#1258: the error comes with status 200 and its class says nothing, so nobody tries again."""
    deeds = Deeds()
    replies = [Broken(CALL, 5, kind), CALL, Broken(Turn("Paid it."), 3, kind), Turn("Paid.")]
    world = wired(place, *replies, tools=[deeds.tool("issue_credit")])

    finished = await asks(world)

    assert (finished["text"], len(deeds.done), len(place.api.asked)) == ("Paid.", 1, 4)
    assert [one["turn"] for one in world.of("ModelRequested")] == [1, 1, 2, 2]


@pytest.mark.wire
async def test_report_06_an_error_inside_a_stream_that_no_waiting_mends_is_not_tried_again(place: Place) -> None:
    """omadia#122: what is final must not be taken for an overload either."""
    world = wired(place, Broken(Turn("Paid it."), 3, "error_invalid_request"))

    finished = await asks(world)

    assert (finished["stop_reason"], len(place.api.asked)) == ("model_error", 1)
