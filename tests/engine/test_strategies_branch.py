"""Investigations beside the other strategies: a router picks them, reflexion reads the judgement."""

from __future__ import annotations

from typing import Any

from bot.lab.twins import Says
from tests.inquiries import THREE, Brain, branch_of, policy, said_in, splitting, world
from tests.world import World


async def _asked(brain: Any, loop: dict[str, Any], **asides: list[Says]) -> World:
    one = world(brain, given=policy(loop=loop))
    one.model.by_role = {role: list(script) for role, script in asides.items()}
    await one.says("Why was order 4921 paid twice?")
    await one.settle()
    assert one.tracer.faults == []
    return one


async def test_a_router_may_send_a_question_to_be_investigated() -> None:
    """By its own word or by a rule; the strategy then tells the model what is wanted."""
    by_rule = await _asked(Brain(branches=THREE), {"strategy": "router", "routes": {"twice": "branch"}})
    picks = Says('{"path": "branch", "why": "separate causes"}')
    by_model = await _asked(Brain(branches=THREE), {"strategy": "router"}, router=[picks])

    for one in (by_rule, by_model):
        assert [event["path"] for event in one.of("RouteChosen")] == ["branch"] * 3
        assert one.answers[0]["text"] == "Paid twice [1], see also [2, 3]."
        assert {branch_of(request) for request in one.model.requests} == {0, 1, 2, 3}


async def test_a_question_that_a_router_sent_and_that_cannot_be_split_goes_the_usual_way() -> None:
    """It is not routed again."""
    one = await _asked([splitting("One?"), Says("Paid once.")], {"strategy": "router", "routes": {"twice": "branch"}})

    assert [event["path"] for event in one.of("RouteChosen")] == ["branch", "branch", "react"]
    assert one.answers[0]["text"] == "Paid once."


async def test_a_judgement_is_criticised_against_what_was_found_and_cites_in_the_end() -> None:
    """The findings are the work that the critique is shown; an objection leads to one more judgement."""
    judge = [Says("Paid twice [1]."), Says("Paid twice [1], once refunded [3].")]
    objects = Says('{"ok": false, "notes": "the refund is missing"}')
    one = await _asked(Brain(branches=THREE, judge=judge), {"reflexion": True}, critique=[objects])

    critique = next(request for request in one.model.requests if request.role == "critique")
    assert "told-3" in said_in(critique) and "canary" not in said_in(critique)
    assert one.answers[0]["text"] == "Paid twice [1], once refunded [3]."


async def test_a_list_that_an_investigation_keeps_is_not_the_run_s() -> None:
    """People see one list, the conversation's own."""
    listing = Says(calls=[("todo", {"items": [{"text": "mine", "state": "open"}]})])
    one = await _asked(Brain(branches={**THREE, 1: [listing, Says("told-1")]}), {})

    assert "Looked at: nothing\nConclusion:\n> told-1" in "".join(
        str(block.get("text")) for message in one.model.requests[-1].messages for block in message.content
    )
    assert all("mine" not in str(effect) for effect in one.surface.of_kind("progress"))
