"""A plan is in the log before anything is read; what it does not name does not run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.core.tool import ToolError
from bot.engine.ports import ModelFailure
from bot.lab.twins import Says
from tests.builders import GET_ORDER, GET_TICKET, make_tool
from tests.engine.oracles import ends, is_append_only, policy_with, sent
from tests.world import World


def _call(tool: str, order: str = "4921", text: str = "") -> Says:
    return Says(text, [(tool, {"order_id": order})])


def _plan(*tools: str) -> Says:
    steps = [{"tool": one, "arguments": {"order_id": {"from": "question"}}, "why": f"see {one}"} for one in tools]
    return Says(json.dumps({"steps": steps}))


LOOK, TICKET, DONE, NO_PLAN = _call("get_order"), _call("get_ticket"), Says("54.00."), Says("I will look.")


def _world(*turns: Says | ModelFailure, loop: Any = None, **more: Any) -> World:
    return World(turns, policy=policy_with(loop={"strategy": "plan", **(loop or {})}, **more))


def _paths(world: World) -> list[str]:
    return [one["path"] for one in world.of("RouteChosen")]


async def test_a_plan_is_committed_then_carried_out_then_the_answer_is_given() -> None:
    """As data, before the first look-up."""
    world = _world(_plan("get_order", "get_ticket"), LOOK, TICKET, DONE)

    finished = await ends(world)

    assert (finished["outcome"], finished["text"]) == ("answered", "54.00.")
    [plan] = world.of("PlanCommitted")
    assert [one["tool"] for one in plan["steps"]] == ["get_order", "get_ticket"] and plan["revision"] == 0
    assert plan["steps"][0]["arguments"] == {"order_id": {"from": "question"}}
    assert world.kinds.index("PlanCommitted") < world.kinds.index("ToolStarted")
    assert _paths(world) == ["plan"] and len(world.of("ToolStarted")) == 2


async def test_calls_before_the_plan_are_not_made_and_each_says_so() -> None:
    """They are made once the plan is there."""
    early = Says(calls=[("get_ticket", {"order_id": "4921"}), ("get_order", {"order_id": "4921"})])
    world = _world(early, _plan("get_ticket"), TICKET, DONE)

    finished = await ends(world)

    first, second, third = world.of("ToolReturned")
    assert [one["content"]["refused"] for one in (first, second)] == ["plan first", "plan first"]
    assert not first["ran"] and third["ran"]
    assert finished["text"] == "54.00."


async def test_a_plan_that_comes_with_calls_is_committed_and_the_calls_are_not_made() -> None:
    """One reply less is needed."""
    both = Says(_plan("get_order").text, [("get_order", {"order_id": "4921"})])
    world = _world(both, LOOK, DONE)

    await ends(world)

    assert [one["ran"] for one in world.of("ToolReturned")] == [False, True]
    assert len(world.of("PlanCommitted")) == 1


@pytest.mark.parametrize("bad", [NO_PLAN, _plan("get_moon"), LOOK, Says('{"steps": 1}')], ids=repr)
async def test_what_is_no_plan_is_asked_for_once_more(bad: Says) -> None:
    """With what is wrong."""
    world = _world(bad, _plan("get_order"), _call("get_order", "1111"), DONE)

    finished = await ends(world)

    assert finished["text"] == "54.00." and _paths(world) == ["plan", "plan"]
    assert world.of("RouteChosen")[1]["why"].encode() in sent(world)[1][-1]


@pytest.mark.parametrize("bad", [NO_PLAN, _plan("get_moon"), _call("get_order", "1111")], ids=repr)
async def test_two_replies_without_a_plan_and_it_goes_on_without_one(bad: Says) -> None:
    """The log says so, and what no person should see is not the answer."""
    world = _world(bad, bad, LOOK, DONE)

    finished = await ends(world)

    assert _paths(world) == ["plan", "plan", "react"]
    assert world.of("PlanCommitted") == [] and len(world.of("ToolStarted")) == 1
    assert [one["text"] for one in world.answers] == ["54.00."] == [finished["text"]]


async def test_a_question_that_needs_nothing_gets_an_empty_plan_and_its_answer() -> None:
    """Two replies, no call."""
    world = _world(_plan(), DONE)

    assert (await ends(world))["text"] == "54.00."
    assert world.of("PlanCommitted")[0]["steps"] == []


async def test_a_call_outside_the_plan_is_not_made_and_leads_to_another_plan() -> None:
    """Which may name it."""
    world = _world(_plan("get_order"), TICKET, _plan("get_ticket"), TICKET, DONE)

    await ends(world)

    assert [one["revision"] for one in world.of("PlanCommitted")] == [0, 1]
    assert [one["ran"] for one in world.of("ToolReturned")] == [False, True]
    assert world.of("ToolReturned")[0]["content"]["refused"] == "not in the plan"
    assert "get_ticket" in world.of("RouteChosen")[1]["why"]


async def test_of_a_turn_s_calls_the_planned_ones_run_and_the_others_do_not() -> None:
    """A second call of a tool needs a second step."""
    orders = [("get_order", {"order_id": one}) for one in ("1111", "2222", "3333")]
    world = _world(_plan("get_order"), Says(calls=orders), Says("Only the first is known."))

    finished = await ends(world)

    assert [one["ran"] for one in sorted(world.of("ToolReturned"), key=lambda one: one["call_id"])] == [
        True,
        False,
        False,
    ]
    assert finished["text"] == "Only the first is known.", "an answer may take the place of another plan"


async def test_a_step_that_fails_leads_to_another_plan() -> None:
    """What was carried out stays in sight."""

    def fails(args: Any, context: Any) -> Any:
        raise ToolError("no such ticket")

    ticket = make_tool("get_ticket", GET_TICKET.spec.authority, answer=fails)
    world = World(
        (_plan("get_order", "get_ticket"), LOOK, TICKET, _plan("get_order"), _call("get_order", "1111"), DONE),
        [GET_ORDER, ticket],
        policy_with(loop={"strategy": "plan"}),
    )

    await ends(world)

    assert [one["revision"] for one in world.of("PlanCommitted")] == [0, 1]
    [shown] = world.surface.of_kind("progress")
    assert [step.split(":")[0] for step in shown["steps"]] == ["✓ get order", "✗ get ticket", "✓ get order"]


async def test_a_call_that_was_mistaken_is_corrected_without_another_plan() -> None:
    """Its step is still open."""
    world = _world(_plan("get_order"), _call("get_order", "bad"), LOOK, DONE)

    await ends(world)

    assert len(world.of("PlanCommitted")) == 1 and _paths(world) == ["plan"]


async def test_after_three_revisions_it_goes_on_without_a_plan() -> None:
    """And the same call is then made."""
    again = [turn for _ in range(3) for turn in (TICKET, _plan("get_order"))]
    world = _world(_plan("get_order"), *again, TICKET, TICKET, DONE, caps={"barren_turns": 9})

    finished = await ends(world)

    assert [one["revision"] for one in world.of("PlanCommitted")] == [0, 1, 2, 3]
    assert _paths(world)[-1] == "react" and "3 times" in world.of("RouteChosen")[-1]["why"]
    assert [one["ran"] for one in world.of("ToolReturned")] == [False] * 4 + [True]
    assert finished["text"] == "54.00."


async def test_plans_that_nobody_asked_for_count_as_revisions() -> None:
    """They are no answer for people either."""
    world = _world(*[_plan("get_order")] * 5, DONE)

    finished = await ends(world)

    assert [one["revision"] for one in world.of("PlanCommitted")] == [0, 1, 2, 3]
    assert _paths(world) == ["plan", "react"] and finished["text"] == "54.00."


async def test_the_plan_is_shown_with_the_state_of_each_step() -> None:
    """One line a step, instead of bare names of tools."""
    pay = Says(calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])
    world = _world(_plan("get_ticket", "issue_credit", "get_order"), TICKET, pay, DONE)

    await world.says("pay it")
    await world.settle()

    [shown] = world.surface.of_kind("progress")
    assert shown["state"] == "waiting"
    assert shown["steps"] == [
        "✓ get ticket: see get_ticket",
        "… issue credit: see issue_credit",
        "○ get order: see get_order",
    ]


async def test_a_planned_call_still_needs_a_person_above_the_ceiling() -> None:
    """A plan lifts nothing."""
    pay = Says(calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])
    world = _world(_plan("get_ticket", "issue_credit"), TICKET, pay, DONE)
    await world.says("pay it")
    await world.settle()

    assert len(world.of("ApprovalRequested")) == 1 and len(world.of("ToolStarted")) == 1

    await world.clicks_on("approve")
    await world.settle()
    assert len(world.of("ToolStarted")) == 2 and world.answers[0]["text"] == "54.00."


async def test_a_reply_that_is_cut_off_while_planning_ends_as_it_does_elsewhere() -> None:
    """No call of it runs."""
    cut = Says('{"steps": [', [("get_order", {"order_id": "4921"})], stop_reason="max_tokens")
    world = _world(cut, cut)

    finished = await ends(world)

    assert finished["stop_reason"] == "max_tokens" and world.of("ToolStarted") == []


async def test_each_question_gets_a_plan_of_its_own() -> None:
    """The last one's is over."""
    world = _world(_plan("get_order"), LOOK, DONE, _plan("get_ticket"), TICKET, DONE)
    await ends(world)
    await world.says("And the ticket?", ts="2.0")
    await world.settle()

    assert [one["revision"] for one in world.of("PlanCommitted")] == [0, 0]
    assert is_append_only(world)


async def test_an_objection_to_a_planned_answer_is_answered_within_the_plan() -> None:
    """The wrapper knows nothing of plans."""
    world = _world(_plan("get_order"), LOOK, DONE, Says("900.00."), loop={"reflexion": True})
    world.model.by_role = {"critique": [Says('{"ok": false, "notes": "It says 900."}')]}

    assert (await ends(world))["text"] == "900.00."
