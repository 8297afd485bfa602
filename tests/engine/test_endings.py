"""Every way a run ends, each with its own words."""

from __future__ import annotations

from typing import Any

import pytest

from bot.core.events import Usage
from bot.core.outcomes import OUTCOMES
from bot.core.policy import Policy
from bot.engine.ports import ModelFailure
from bot.lab.twins import Says, TwinModel
from tests.builders import POLICY
from tests.world import World

LOOK = Says(calls=[("get_order", {"order_id": "4921"})])
TICKET = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAY = Says("Paying.", calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])


def _policy(**tables: Any) -> Policy:
    return Policy.model_validate({**POLICY.model_dump(), **tables})


async def _ends(world: World, text: str = "why?") -> dict[str, Any]:
    await world.says(text)
    await world.settle()
    [finished] = world.of("RunFinished")
    [answer] = world.answers
    assert finished["stop_reason"] in OUTCOMES[finished["outcome"]]
    assert answer["text"] == finished["text"] and answer["reference"] == finished["reference"]
    assert world.tracer.faults == []
    return finished


async def test_an_identical_call_is_stopped_by_the_third() -> None:
    """399 are offered; three model calls are made."""
    world = World([LOOK] * 399)

    finished = await _ends(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("escalated", "repetition")
    assert len(world.model.requests) == 3
    assert len(world.of("ToolStarted")) == 1


async def test_turns_that_bring_nothing_new_end_in_a_hand_over() -> None:
    """Errors are no facts."""
    turns = [Says(calls=[("get_order", {"order_id": f"{number}"})]) for number in range(9)]

    finished = await _ends(World(turns))

    assert finished["stop_reason"] == "no_progress"


async def test_the_last_turn_s_calls_still_run_and_code_writes_the_partial() -> None:
    """No call is made beyond the cap."""
    turns = [Says(calls=[("get_order", {"order_id": f"10{number:02d}"})]) for number in range(9)]
    world = World(turns, policy=_policy(caps={"turns": 3, "barren_turns": 9}))

    finished = await _ends(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("partial", "turn_cap")
    assert len(world.model.requests) == 3
    assert len(world.of("ToolStarted")) == 3
    assert "3 steps" in finished["text"] and "get_order" in finished["text"]


@pytest.mark.parametrize(("caps", "stop"), [({"tokens": 3000}, "token_budget"), ({"usd": 0.02}, "cost_budget")])
async def test_a_budget_is_never_passed(caps: dict[str, Any], stop: str) -> None:
    """The worst case is reserved before the call."""
    turns = [Says(calls=[("get_order", {"order_id": f"10{number:02d}"})]) for number in range(40)]
    world = World(turns, policy=_policy(caps={**caps, "barren_turns": 99}))

    finished = await _ends(world)

    assert finished["stop_reason"] == stop
    assert finished["usage"]["calls"] > 0
    for one in world.of("ModelRequested"):
        assert one["reserved_tokens"] <= caps.get("tokens", 10**9)
        assert one["reserved_usd"] <= caps.get("usd", 10**9)


async def test_the_deadline_ends_a_run() -> None:
    """Measured by the log's own times."""
    world = World([ModelFailure("no time", kind="deadline")])

    finished = await _ends(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("partial", "deadline")


@pytest.mark.parametrize(
    ("turn", "outcome", "stop"),
    [
        (Says("Half a sen", stop_reason="max_tokens"), "partial", "max_tokens"),
        (Says("Half", stop_reason="model_context_window_exceeded"), "partial", "context_window"),
        (Says("", stop_reason="refusal"), "refused", "refusal"),
        (Says("What", stop_reason="galactic_alignment"), "failed", "model_error"),
        (Says("", stop_reason="tool_use"), "failed", "model_error"),
        (Says(""), "escalated", "hand_over"),
        (ModelFailure("The model service refused the API key (401)."), "failed", "model_error"),
    ],
)
async def test_each_stop_reason_has_its_outcome(turn: Any, outcome: str, stop: str) -> None:
    """Total: nothing falls through, and half a sentence is never an answer."""
    world = World([turn])

    finished = await _ends(world)

    assert (finished["outcome"], finished["stop_reason"]) == (outcome, stop)
    assert finished["text"].strip()


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "galactic_alignment"])
async def test_no_call_of_an_incomplete_message_runs(stop: str) -> None:
    """And the conversation can go on afterwards."""
    cut = Says("I pay", calls=[("issue_credit", {"order_id": "4921", "amount_cents": 12})], stop_reason=stop)
    world = World([cut, Says("Fine.")])
    await _ends(world)

    await world.says("go on", ts="2.0")
    await world.settle()

    assert world.of("ToolStarted") == []
    assert world.answers[-1]["text"] == "Fine."


async def test_an_unpriced_model_is_refused() -> None:
    """No budget could hold."""
    world = World([Says("x")])
    world.model = TwinModel([Says("x")], usd_per_token=None)
    object.__setattr__(world.desk, "model", world.model)

    finished = await _ends(world)

    assert "No price is known" in finished["text"]
    assert world.model.requests == []


async def test_denied_and_never_decided_end_in_their_own_words_when_there_is_no_answer() -> None:
    """Two reasons, told apart."""
    denied = World([TICKET, PAY, Says("")])
    await denied.says("pay")
    await denied.settle()
    await denied.clicks_on("deny")
    await denied.settle()

    expired = World([TICKET, PAY, Says("")])
    await expired.says("pay")
    await expired.settle()
    expired.clock.advance(100_000)
    await expired.settle()

    assert denied.answers[0]["stop_reason"] == "approval_denied"
    assert expired.answers[0]["stop_reason"] == "approval_expired"
    assert expired.of("ApprovalDecided")[0]["by"] == []


async def test_after_the_last_allowed_question_to_people_the_run_is_handed_over() -> None:
    """And the hand-over channel is told where it is."""
    turns = [TICKET] + [
        Says(calls=[("issue_credit", {"order_id": "4921", "amount_cents": number + 1})]) for number in range(5)
    ]
    world = World(turns, policy=_policy(handover={"channel": "C0TIER2"}, caps={"barren_turns": 9}))
    await world.says("pay")
    await world.settle()
    for _ in range(3):
        await world.clicks_on("deny")
        await world.settle()

    assert world.answers[0]["stop_reason"] == "hand_over"
    assert "asked people 3 times" in world.answers[0]["text"]
    assert [one["channel"] for one in world.surface.of_kind("card_link")] == ["C0TIER2"]


async def test_a_fault_of_our_own_still_ends_in_one_visible_outcome() -> None:
    """With a reference; the stack is for the operator."""
    world = World([Says("x")])

    def explode(*_: Any) -> Any:
        raise RuntimeError("boom")

    object.__setattr__(world.desk, "strategy", type("Broken", (), {"propose": explode})())
    await world.says("why?")
    await world.settle()

    assert world.answers[0]["stop_reason"] == "internal_error"
    assert "boom" not in world.answers[0]["text"]
    assert [str(fault) for fault in world.tracer.faults] == ["boom"]


async def test_usage_and_money_of_a_run_are_what_its_calls_cost() -> None:
    """Added up over all calls."""
    usage = Usage(input_tokens=7, cache_read_tokens=5, cache_write_tokens=3, output_tokens=2, calls=1)
    world = World([Says(calls=LOOK.calls, usage=usage, cost_usd=0.25), Says("x", usage=usage, cost_usd=0.5)])

    finished = await _ends(world)

    assert finished["usage"] == {
        "input_tokens": 14,
        "cache_read_tokens": 10,
        "cache_write_tokens": 6,
        "output_tokens": 4,
        "calls": 2,
    }
    assert finished["cost_usd"] == 0.75
