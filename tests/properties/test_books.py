"""What the random runs found once, each by itself: books that missed an attempt, a count of another model's tokens."""

from __future__ import annotations

import asyncio
from typing import Any

from bot.core import events as e
from bot.core.policy import Policy
from bot.engine.ports import ModelFailure, ModelRequest
from bot.lab.twins import Says
from tests.builders import GET_TICKET, Story
from tests.world import World

LOST = e.Usage(input_tokens=500, output_tokens=7, calls=1)
ANSWER = e.Usage(input_tokens=100, output_tokens=20, calls=1)
OTHER = {"order_id": "4922", "amount_cents": 100}
CREDIT = {"order_id": "4921", "amount_cents": 900}


def _end(script: list[Any], rules: dict[str, Any], **asides: Any) -> dict[str, Any]:
    async def whole() -> World:
        world = World(script, policy=Policy.model_validate(rules), asides=asides)
        await world.says("Where is it?")
        await world.settle()
        return world

    return asyncio.run(whole()).of("RunFinished")[0]


def test_an_ending_for_want_of_room_names_what_the_lost_attempt_used() -> None:
    """The next attempt was never made, so no request can tell of it."""
    lost = ModelFailure("broke off", kind="lost", usage=LOST, cost_usd=0.25)
    end = _end([lost, Says("Done.")], {"caps": {"tokens": 12_000}})

    assert (end["stop_reason"], end["usage"], end["cost_usd"]) == ("token_budget", LOST.model_dump(), 0.25)


def test_a_side_question_without_an_answer_is_in_the_books() -> None:
    """The run goes on without it, and what it used is counted all the same."""
    failed = ModelFailure("no", kind="final", usage=LOST, cost_usd=0.25)
    end = _end([Says("Done.")], {"loop": {"reflexion": True}}, critique=[failed])

    assert end["outcome"] == "answered"
    assert (end["usage"], end["cost_usd"]) == (ANSWER.plus(LOST).model_dump(), 0.251)


def test_what_one_model_counted_bounds_no_other_ones_request() -> None:
    """The other one answered; an attempt of the first that is made twice still reserves a token for each byte."""
    story = Story().asked().replied(text="")
    assert story.session.run is not None and story.session.run.known_input == (400, 100)

    for model, known in (("m", (400, 100)), ("other", (0, 0)), ("other", (0, 0))):
        story.add(e.ModelRequested(turn=2, reserved_tokens=1000, model=model, request_bytes=500))
        assert story.session.run.known_input == known


def test_an_investigation_lost_before_a_stop_is_in_the_books() -> None:
    """One is lost, the other one is cut off by the stop: no event of theirs follows, so the ending tells of it."""
    questions = Says('{"questions": ["What of a?", "What of b?"]}', usage=ANSWER)

    def script(request: ModelRequest) -> Says | ModelFailure:
        words = str(request.messages[-1].content)
        if "What of a?" in words and "What of b?" not in words:
            return ModelFailure("broke off", kind="lost", usage=LOST)
        return questions

    async def whole() -> World:
        world = World(script, policy=Policy.model_validate({"loop": {"strategy": "branch"}}))

        async def meanwhile(request: ModelRequest) -> None:
            if len(world.model.requests) == 3:
                await world.happens("stop", user="U0ALICE")
                world.clock.advance(1)
                for _ in range(5):
                    await asyncio.sleep(0)

        world.model.while_asked = meanwhile
        await world.says("Look into both.")
        await world.settle()
        return world

    end = asyncio.run(whole()).of("RunFinished")[0]
    assert (end["outcome"], end["usage"]) == ("cancelled", ANSWER.plus(LOST).model_dump())


def test_the_same_call_twice_in_one_reply_is_asked_about_once() -> None:
    """Two equal buttons on one card would be two credits for one decision."""

    async def whole() -> World:
        twice = Says("", calls=[("issue_credit", OTHER), *[("issue_credit", CREDIT)] * 2])
        policy = Policy.model_validate({"approvals": {"default": {"users": ["U0CAROL"]}}})
        world = World([Says("", calls=[("get_ticket", {"order_id": "4921"})]), twice, Says("Done.")], policy=policy)
        await world.says("Credit it.")
        await world.settle()
        for asked in world.of("ApprovalRequested"):
            await world.clicks_on("approve", approval=asked["approval_id"])
        await world.settle()
        return world

    world = asyncio.run(whole())

    assert [one["arguments"]["order_id"] for one in world.of("ApprovalRequested")] == ["4922", "4921"]
    assert [one["ran"] for one in world.of("ToolReturned")] == [True, True, True, False]
    assert world.of("ToolReturned")[0]["trust"] == GET_TICKET.spec.output.word
