"""What follows from each kind of reply, and from none: tried through the whole engine."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bot.core import events as e
from bot.core.policy import Policy
from bot.core.replies import NUDGE
from bot.engine.ports import ModelFailure
from bot.engine.writer import Writer
from bot.lab.twins import Says
from tests.builders import POLICY
from tests.world import World

PAY = {"order_id": "4921", "amount_cents": 5400}
CUT = Says("I pay", calls=[("issue_credit", PAY)], stop_reason="max_tokens")


def _policy(**tables: Any) -> Policy:
    return Policy.model_validate({**POLICY.model_dump(), **tables})


def _look(number: int) -> Says:
    return Says(calls=[("get_order", {"order_id": f"10{number:02d}"})])


async def _ends(world: World, text: str = "why?") -> dict[str, Any]:
    await world.says(text)
    await world.settle()
    assert world.tracer.faults == []
    assert all(_sendable(request) for request in world.model.requests)
    return world.of("RunFinished")[-1]


def _sendable(request: Any) -> bool:
    """An oracle of its own: every call answered at once and once, nothing empty, a person first."""
    sent = [one.dump() for one in request.messages]
    asked: list[str] = []
    for message in sent:
        given = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        if sorted(given) != sorted(asked) or not all(text.strip() for text in texts) or not message["content"]:
            return False
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    return sent[0]["role"] == "user" and not asked


async def test_a_reply_that_was_cut_off_is_asked_for_once_more_with_more_room() -> None:
    """The same conversation, twice the room, and no call of the cut reply is made."""
    world = World([CUT, Says("All of it.")])

    finished = await _ends(world)

    first, second = world.model.requests
    assert (finished["outcome"], finished["text"]) == ("answered", "All of it.")
    assert second.messages == first.messages
    assert second.max_output_tokens == 2 * first.max_output_tokens
    assert world.of("ToolRequested") == []


async def test_a_reply_that_is_cut_off_again_ends_the_run_with_what_there_is() -> None:
    """Half of it is marked as half, and still nothing of it runs."""
    world = World([CUT])

    finished = await _ends(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("partial", "max_tokens")
    assert "I pay" in finished["text"]
    assert len(world.model.requests) == 2
    assert world.of("ToolStarted") == []


async def test_no_second_try_without_more_room_for_it() -> None:
    """The same again would only cost the same again."""
    world = World([CUT], policy=_policy(model={"max_output_tokens": 128_000}, caps={"tokens": 400_000}))

    finished = await _ends(world)

    assert finished["stop_reason"] == "max_tokens" and "I pay" in finished["text"]
    assert len(world.model.requests) == 1


async def test_a_refusal_ends_the_run_with_its_category_and_is_never_asked_again() -> None:
    """Friendly, final, and it says what kind of thing was declined."""
    world = World([Says("", stop_reason="refusal", category="cyber")])

    finished = await _ends(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("refused", "refusal")
    assert "declined" in finished["text"] and "cyber" in finished["text"]
    assert len(world.model.requests) == 1


async def test_a_paused_turn_is_sent_back_as_it_came_and_counts() -> None:
    """Up to the cap like any other."""
    world = World([Says("Thinking on.", stop_reason="pause_turn"), Says("Done.")])
    finished = await _ends(world)
    endless = World([Says("More.", stop_reason="pause_turn")], policy=_policy(caps={"turns": 4}))
    capped = await _ends(endless)

    assert finished["text"] == "Done."
    assert world.model.requests[1].messages[-1].dump() == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Thinking on."}],
    }
    assert (capped["stop_reason"], len(endless.model.requests)) == ("turn_cap", 4)


async def test_an_empty_reply_is_asked_for_once_more_and_then_handed_over() -> None:
    """People never get silence, and the model is told what was wrong."""
    helped = World([_look(1), Says(""), Says("Here.")])
    stuck = World([_look(1), Says("")])

    assert (await _ends(helped))["text"] == "Here."
    assert (await _ends(stuck))["stop_reason"] == "hand_over"
    assert helped.model.requests[-1].messages[-1].content[-1]["text"] == NUDGE
    assert len(stuck.model.requests) == 3


@pytest.mark.parametrize(
    "full", [Says("Half", stop_reason="model_context_window_exceeded"), ModelFailure("too long", kind="too_long")]
)
async def test_a_conversation_that_no_longer_fits_is_folded_once(full: Any) -> None:
    """Then it goes on; the question stays verbatim, and the newest turn is untouched."""
    turns = [_look(1), _look(2), _look(3), full, Says("A summary of it."), Says("Answer.")]
    world = World(turns)

    finished = await _ends(world, "why is 4921 late?")

    [fold] = world.of("Compacted")
    last = [one.dump() for one in world.model.requests[-1].messages]
    assert (finished["outcome"], finished["text"]) == ("answered", "Answer.")
    assert (fold["why"], fold["by_model"]) == ("window", True)
    assert "why is 4921 late?" in fold["summary"] and "A summary of it." in fold["summary"]
    assert last[0]["content"][0]["text"] == fold["summary"]
    assert [block["type"] for block in last[-2]["content"]] == ["tool_use"]


async def test_a_conversation_that_does_not_fit_even_then_ends_as_partial() -> None:
    """Once is enough; the partial says what was found."""
    full = Says("Half", stop_reason="model_context_window_exceeded")
    world = World([_look(1), _look(2), full, ModelFailure("away"), full])

    finished = await _ends(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("partial", "context_window")
    assert world.of("Compacted")[0]["by_model"] is False
    assert "What was found" in finished["text"]
    assert len(world.of("Compacted")) == 1


async def test_a_first_question_that_does_not_fit_ends_at_once() -> None:
    """There is nothing to fold."""
    said = await _ends(World([Says("Half", stop_reason="model_context_window_exceeded")]))
    refused = await _ends(World([ModelFailure("prompt is too long", kind="too_long")]))

    assert said["stop_reason"] == refused["stop_reason"] == "context_window"


async def test_a_lost_attempt_is_reserved_anew_and_stands_in_the_books() -> None:
    """What it is known to have used is in the run's usage; its whole reservation counts for the budget."""
    lost = ModelFailure("broke off", kind="lost", usage=e.Usage(input_tokens=70, calls=1), cost_usd=0.5)
    world = World([lost, lost, Says("Done.")])

    finished = await _ends(world)

    asked = world.of("ModelRequested")
    assert [one["turn"] for one in asked] == [1, 1, 1]
    assert finished["usage"] == {
        "input_tokens": 240,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 20,
        "calls": 3,
    }
    assert finished["cost_usd"] == pytest.approx(1.001)


async def test_attempts_that_are_lost_again_and_again_end_the_run() -> None:
    """After six, or before a budget would be passed."""
    lost = ModelFailure("broke off", kind="lost", usage=e.Usage(input_tokens=70, calls=1))
    many = World([lost])
    few = World([lost], policy=_policy(caps={"tokens": 20_000}, model={"max_output_tokens": 6_000}))

    ended, bounded = await _ends(many), await _ends(few)

    assert (ended["stop_reason"], len(many.model.requests)) == ("model_error", 6)
    assert ended["usage"]["calls"] == 6
    assert bounded["stop_reason"] == "token_budget"
    assert sum(one["reserved_tokens"] for one in few.of("ModelRequested")) <= 20_000


async def test_a_lost_attempt_with_no_time_for_another_ends_as_the_deadline() -> None:
    """The wait before another try is part of the one deadline."""
    world = World([ModelFailure("broke off", kind="lost", wait_s=900)])

    assert (await _ends(world))["stop_reason"] == "deadline"


async def test_another_model_answers_while_the_first_is_away_where_the_policy_says_so() -> None:
    """The first one is asked again in the next turn, without the other's thinking."""
    policy = _policy(model={"fallback": "claude-opus-5-5"})
    thought = Says("On it.", calls=[("get_order", {"order_id": "1001"})], thinking="hm")
    world = World([ModelFailure("overloaded", kind="away"), thought, Says("Done.")], policy=policy)
    alone = World([ModelFailure("overloaded", kind="away")])

    finished, failed = await _ends(world), await _ends(alone)

    assert [one.model for one in world.model.requests] == ["claude-sonnet-5-5", "claude-opus-5-5", "claude-sonnet-5-5"]
    assert finished["text"] == "Done."
    assert "thinking" not in str([one.dump() for one in world.model.requests[-1].messages])
    assert (failed["stop_reason"], len(alone.model.requests)) == ("model_error", 1)


async def test_a_long_conversation_is_folded_at_its_threshold_and_goes_on() -> None:
    """Each request begins with the one before, except where a fold opened another epoch."""
    policy = _policy(loop={"compact_at_tokens": 1_000}, caps={"turns": 40, "barren_turns": 99})
    large = e.Usage(input_tokens=1_500, output_tokens=20, calls=1)
    turns = [replace(_look(number), usage=large) for number in range(12)]
    world = World([*turns, Says("Done.")], policy=policy)
    world.model.by_role["summary"] = [Says("Short.")]

    await _ends(world, "x" * 3_000)

    folds = world.of("Compacted")
    agent = [request for request in world.model.requests if request.tools]
    breaks = sum(not _begins_with(earlier, later) for earlier, later in pairwise(agent))
    assert folds and {fold["why"] for fold in folds} == {"threshold"}
    assert breaks == len(folds)
    assert world.answers[-1]["text"] == "Done."


def _begins_with(earlier: Any, later: Any) -> bool:
    first, second = ([message.dump() for message in one.messages] for one in (earlier, later))
    return second[: len(first)] == first


async def test_a_stored_conversation_that_cannot_be_sent_is_repaired_from_its_facts() -> None:
    """The thread is not bricked: it begins anew, and says so in the log."""
    world = World([Says("Fine now.")])
    await world.says("one")
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    writer = await Writer.open(held, world.store.log, world.clock, world.tracer)
    started = e.RunStarted(
        run_id="r0", principal="U0ALICE", deadline="2026-12-01T09:05:00Z", pins={}, policy_version=""
    )
    asked = e.MessageReceived(ts="0.5", author="U0ALICE", trust="principal", text="earlier")
    orphan = {"type": "tool_use", "id": "toolu_x", "name": "get_order", "input": {}}
    reply = e.ModelReplied(turn=1, content=[orphan], stop_reason="tool_use", usage=e.Usage(), cost_usd=0.0)
    ended = e.RunFinished(
        outcome="failed", stop_reason="internal_error", text="x", messages=["0.5"], usage=e.Usage(), cost_usd=0.0
    )
    await writer.write(started, asked, reply, ended)
    await world.store.lease.release(held, parked=False)

    await world.settle()

    assert [one["why"] for one in world.of("Compacted")] == ["repair"]
    assert world.answers[-1]["text"] == "Fine now."
    assert _sendable(world.model.requests[0])


async def test_new_begins_with_a_fresh_context_and_its_full_authority() -> None:
    """Nothing read before is in the prompt, so nothing of it holds the line down; without the word it does."""
    world = World([Says(calls=[("get_ticket", {"order_id": "4921"})]), Says("Read."), Says("Fresh."), Says("More.")])
    await _ends(world, "read it")
    lowered = world.surface.of_kind("answer")[0]["badge"]

    await world.says("new: and order 4930?", ts="2.0")
    await world.settle()
    await world.says("newer question", ts="3.0")
    await world.settle()

    fresh, after = (str([one.dump() for one in request.messages]) for request in world.model.requests[2:])
    assert lowered and not world.surface.of_kind("answer")[1]["badge"]
    assert "and order 4930?" in fresh and "read it" not in fresh
    assert "newer question" in after and "and order 4930?" in after
    assert [one["fresh"] for one in world.of("RunStarted")] == [False, True, False]
