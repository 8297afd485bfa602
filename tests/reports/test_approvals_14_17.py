"""Reports 14 to 17, 24 and 25: what a yes is for, where a decision goes, and what a resumed run repeats."""

from __future__ import annotations

from typing import Any

import pytest

from bot.core.authority import Authority
from bot.core.policy import Policy
from bot.lab.twins import Says
from tests.builders import GET_TICKET
from tests.reports.oracle import bodies, faults, results
from tests.reports.places import PAY, Deeds, asks, dies_at, restarted
from tests.world import World

ALWAYS = Policy.model_validate(
    {"approvals": {"default": {"users": ["U0CAROL", "U0DAVE"]}}, "tools": {"policy": {"pay": {"approve": "always"}}}}
)
READ = Says(calls=[("get_ticket", {"order_id": "4921"})])


def _pay(*cents: int) -> Says:
    return Says("Paying.", [("pay", {**PAY, "amount_cents": one}) for one in cents])


async def _asked(turns: Any, deeds: Deeds, *more: Any, **options: Any) -> World:
    world = World(turns, [deeds.tool("pay", **options), *more], ALWAYS)
    await world.says("pay")
    await world.settle()
    return world


@pytest.mark.parametrize("forged", [{}, {"arguments": {**PAY, "amount_cents": 999_999}, "tool": "wire_money"}])
async def test_report_14_what_runs_after_a_restart_is_what_was_shown(forged: dict[str, Any]) -> None:
    """extra#139: approved arguments differ from the executed ones after a resume."""
    deeds = Deeds()
    world = await _asked([_pay(5400), Says("Paid.")], deeds)
    [shown] = world.surface.of_kind("card")[0]["calls"]
    asked = len(world.model.requests)
    other = restarted(world)

    await other.happens("click", user="U0CAROL", approval_id=shown["approval_id"], vote="approve", **forged)
    await other.settle()

    assert deeds.of("pay") == [shown["arguments"]] == [{**PAY, "note": ""}]
    assert len(world.model.requests) == asked + 1, "the model was asked for the call again"
    assert world.answers[0]["text"] == "Paid."


async def test_report_14_a_tool_that_changed_over_the_restart_is_asked_about_again() -> None:
    """extra#139: another version of the tool would do something else with the same arguments."""
    deeds, newer = Deeds(), Deeds()
    world = await _asked([_pay(5400), Says("Paid.")], deeds)
    other = restarted(world, tools=[newer.tool("pay", critical_args=("amount_cents",))])

    await other.clicks_on("approve")
    await other.settle()
    before = list(newer.done)
    await other.clicks_on("approve")
    await other.settle()

    assert before == [] and len(newer.done) == 1
    assert world.kinds.count("ApprovalVoided") == 1


@pytest.mark.parametrize("idempotent", [True, False])
async def test_report_15_a_resumed_run_makes_no_finished_call_again(idempotent: bool) -> None:
    """langgraph#7780: the resume runs the whole node again, and its effects happen twice."""
    deeds = Deeds()
    tools = [deeds.tool("first", idempotent=idempotent), deeds.tool("second", idempotent=True)]
    both = Says(calls=[("first", PAY), ("second", PAY)])
    world = World([both, Says("Done.")], tools)
    await world.says("do both")
    await dies_at(world, world.store.ledger, "end", lambda held, call_id, result: call_id.endswith("_1"))

    other = restarted(world)
    await other.settle()

    assert len(deeds.of("first")) == 1
    assert (len(deeds.of("second")), len(set(deeds.keys))) == (2, 2)
    assert world.answers[0]["text"] == "Done."
    assert len(world.model.requests) == 2


async def test_report_15_a_run_that_is_resumed_by_a_decision_repeats_nothing_before_it() -> None:
    """rancher-ai-agent#136: what ran before the question to a person runs again after the answer."""
    deeds = Deeds()
    turn = Says(calls=[("send", PAY), ("pay", PAY), ("send", {**PAY, "amount_cents": 1})])
    world = await _asked([turn, Says("Done.")], deeds, deeds.tool("send", Authority.SEND))

    await restarted(world).clicks_on("approve")
    await restarted(world).settle()

    assert [name for name, _ in deeds.done] == ["send", "pay", "send"]
    assert [faults(one) for one in bodies(world.model.requests)] == [[], []]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
async def test_report_16_decisions_reach_the_calls_they_are_about_in_any_order(order: list[int]) -> None:
    """langgraph#6533: values of a resume reach the wrong one of parallel calls."""
    deeds = Deeds()
    world = await _asked([_pay(100, 200, 300), Says("Done.")], deeds)
    cards = world.of("ApprovalRequested")
    votes = ["deny", "approve", "deny"]
    for place in order:
        other = restarted(world)
        await other.clicks_on(votes[place], approval=cards[place]["approval_id"])
        await other.settle()

    told = results(bodies(world.model.requests)[-1])
    assert [one["amount_cents"] for one in deeds.of("pay")] == [200]
    assert ["denied" in told[one["call_id"]] for one in cards] == [True, False, True]
    assert "200" in told[cards[1]["call_id"]]


async def test_report_17_a_denied_call_never_runs_whatever_follows() -> None:
    """langchain#37093: a rejected call is executed all the same."""
    deeds = Deeds()
    world = await _asked([_pay(5400), _pay(5400), Says("I could not.")], deeds)
    asked = world.of("ApprovalRequested")[0]["approval_id"]
    await world.clicks_on("deny", approval=asked)
    await world.clicks_on("approve", "U0DAVE", approval=asked)
    await world.settle()
    await restarted(world).clicks_on("approve", "U0DAVE", approval=asked)
    await restarted(world).settle()

    assert deeds.done == []
    assert len(world.of("ApprovalRequested")) == 1, "the same call was asked about again"
    assert world.answers[0]["text"] == "I could not."


async def test_report_17_a_denied_call_in_other_words_is_not_asked_about_again() -> None:
    """langchain#37093, going round it: the same payment with another note."""
    deeds = Deeds()
    again = Says("Please.", [("pay", {**PAY, "note": "urgent"})])
    world = await _asked([_pay(5400), again, Says("I could not.")], deeds, critical_args=("order_id", "amount_cents"))
    await world.clicks_on("deny")
    await world.settle()

    assert deeds.done == [] and len(world.of("ApprovalRequested")) == 1
    assert "denied this call earlier" in list(results(bodies(world.model.requests)[-1]).values())[-1]


@pytest.mark.parametrize("name", ["pay", "Pay", "pay ", "pay\u200b", "get_ticket; pay", "functions.pay"])
async def test_report_17_no_spelling_of_a_name_passes_the_gate(name: str) -> None:
    """langchain#40166: a tool's name is changed after the policy was asked, and the call passes it."""
    deeds = Deeds()
    world = await _asked([Says(calls=[(name, PAY)]), Says("Done.")], deeds, GET_TICKET)

    assert deeds.done == []
    asked = world.of("ApprovalRequested")
    assert bool(asked) is (name == "pay")
    assert {one["verdict"] for one in world.of("GateDecided")} <= {"needs_approval", "refused"}


@pytest.mark.parametrize("speaks", [False, True])
async def test_report_24_one_yes_is_for_one_call(speaks: bool) -> None:
    """pflow#615: one yes approves the later iterations too."""
    deeds = Deeds()
    world = await _asked([_pay(5400), _pay(5400), _pay(5401), Says("Done.")], deeds)
    if speaks:
        await world.says("and hurry", ts="2.0")
    await world.clicks_on("approve")
    await world.settle()

    assert [one["amount_cents"] for one in deeds.of("pay")] == [5400]
    assert len(world.of("ApprovalRequested")) == 2
    used = [one["approval_id"] for one in world.of("ApprovalDecided")]
    assert world.of("ApprovalRequested")[1]["approval_id"] not in used


async def test_report_25_a_resume_needs_no_decision_about_calls_that_are_settled() -> None:
    """pydantic-ai#6486: a sibling that already has its result breaks the deferred resume."""
    deeds = Deeds()
    turn = Says(calls=[("get_ticket", {"order_id": "4921"}), ("pay", PAY), ("get_order", {"order_id": "4921"})])
    world = await _asked([turn, Says("Done.")], deeds, GET_TICKET, deeds.look())
    settled = [one["call_id"] for one in world.of("ToolReturned")]

    await restarted(world).clicks_on("approve")
    await restarted(world).settle()

    [asked] = world.of("ApprovalRequested")
    ids = [one["call_id"] for one in world.of("ToolRequested")]
    assert (settled, asked["call_id"]) == (ids[:1], ids[1])
    assert list(results(bodies(world.model.requests)[-1])) == ids
    assert world.answers[0]["text"] == "Done."


async def test_report_25_a_sibling_that_was_decided_before_a_restart_stays_decided() -> None:
    """pydantic-ai#6486: one of two calls is approved and has run, the other waits over a restart."""
    deeds = Deeds()
    world = await _asked([READ, _pay(100, 200), Says("Done.")], deeds, GET_TICKET)
    first, second = (one["approval_id"] for one in world.of("ApprovalRequested"))
    await world.clicks_on("approve", approval=first)
    await world.settle()
    before = len(deeds.done)
    await restarted(world).clicks_on("approve", approval=second)
    await restarted(world).settle()
    assert (await asks(world, "thanks", ts="2.0"))["text"] == "Done."

    assert (before, [one["amount_cents"] for one in deeds.of("pay")]) == (1, [100, 200])
