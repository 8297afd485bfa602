"""An investigation that fails ends itself and nothing else, and costs what it cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from bot.core.events import Usage
from bot.engine.ports import ModelFailure, ModelReply, ModelRequest
from bot.lab.twins import Says, TwinModel
from tests.inquiries import (
    THREE,
    Brain,
    asked,
    branch_of,
    by_branch,
    closed_once,
    looks,
    policy,
    said_in,
    world,
)

DONE = Says("Seen.")
CREDIT = {"order_id": "1111", "amount_cents": 500}


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        ([ModelFailure("The service said no.")], "The service said no"),
        ([Says(stop_reason="end_turn")], "its reply was empty"),
        ([Says("Half a", stop_reason="max_tokens")], "its reply was cut off"),
        ([Says("No.", stop_reason="refusal")], "declined"),
        ([Says("Long", stop_reason="model_context_window_exceeded")], "no longer fits"),
        ([Says("?", stop_reason="something_new")], "could not be used"),
        ([Says("Wait", stop_reason="pause_turn")], "used up"),
        ([Says(calls=[("get_order", {"order_id": str(place)})]) for place in range(1000, 1010)], "used up"),
    ],
)
async def test_an_investigation_that_fails_is_named_and_ends_nothing(turns: list[Any], why: str) -> None:
    """The others conclude, and the judgement knows that this one did not."""
    one = await asked(Brain(branches={**THREE, 2: turns}))

    judged = said_in(one.model.requests[-1])
    failed = judged[judged.index("[2] What was written?") : judged.index("[3] What was paid?")]
    assert "It failed: " in failed and why in failed
    assert "told-1" in judged and "told-3" in judged
    assert one.answers[0]["outcome"] == "answered"
    assert len(by_branch(one)[2]) <= 6
    mine = {call["call_id"] for call in one.of("ToolRequested") if call["branch"] == 2}
    started = {event["call_id"] for event in one.of("ToolStarted")}
    # The calls of a last reply have nobody left to read their results.
    assert len(mine & started) == max(0, len(mine) - 1)
    assert closed_once(one)


async def test_a_lost_attempt_is_reserved_anew_and_its_use_is_on_the_books() -> None:
    """The others are not asked again for it."""
    lost = ModelFailure("cut", kind="lost", usage=Usage(input_tokens=70, calls=1), cost_usd=0.25)
    one = await asked(Brain(branches={**THREE, 1: [lost, Says("told-1")]}))

    numbers = [event["branch"] for event in one.of("ModelRequested")]
    assert numbers[:5] == [0, 1, 2, 3, 1]
    assert [event["branch"] for event in one.of("ModelReplied")][:4] == [0, 1, 2, 3]
    again = one.of("ModelRequested")[4]
    assert (again["lost"]["input_tokens"], again["lost_usd"]) == (70, 0.25)
    assert again["turn"] == one.of("ModelRequested")[1]["turn"]
    assert one.of("RunFinished")[0]["cost_usd"] == pytest.approx(0.25 + 0.001 * len(one.of("ModelReplied")))


async def test_what_an_investigation_lost_for_good_is_on_the_books_too() -> None:
    """Known use as money, the rest of its reservation against the budgets."""
    gone = ModelFailure("gone", kind="final", usage=Usage(input_tokens=70, calls=1), cost_usd=0.25)
    one = await asked(Brain(branches={**THREE, 3: [gone]}))

    assert one.of("RunFinished")[0]["cost_usd"] == pytest.approx(0.25 + 0.001 * len(one.of("ModelReplied")))
    usage = one.of("RunFinished")[0]["usage"]
    assert usage["calls"] == 1 + len(one.of("ModelReplied"))


async def test_a_model_that_is_away_is_replaced_for_that_investigation() -> None:
    """By the one that the policy names."""
    script = Brain(branches=THREE)

    def model(request: ModelRequest) -> Any:
        usual = request.model == policy().model.name
        return ModelFailure("busy", kind="away") if branch_of(request) == 2 and usual else script(request)

    one = await asked(model, given=policy(model={"fallback": "spare"}))

    assert {event["model"] for event in one.of("ModelRequested") if event["branch"] != 2} == {policy().model.name}
    assert "told-2" in said_in(one.model.requests[-1])


class Copycat(TwinModel):
    """Gives every call the same id."""

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """The script's word, ids apart."""
        reply = await super().ask(request, deadline)
        same = [{**block, "id": "toolu_same"} if block["type"] == "tool_use" else block for block in reply.content]
        return replace(reply, content=same)


async def test_an_id_that_another_investigation_used_is_used_by_no_call_again() -> None:
    """Neither beside it nor after it has ended, when its turns stand in no conversation any more."""
    brain = Brain(branches=THREE, judge=[looks("get_order", "4921"), Says("So [1].")])
    one = world(brain)
    one.model = Copycat(brain)
    one.desk = replace(one.desk, model=one.model)
    await one.says("why?")
    await one.settle()

    assert [call["call_id"] for call in one.of("ToolRequested")] == ["toolu_same"]
    assert said_in(one.model.requests[-1]).count("It failed: its reply repeated the id of an earlier call.") == 2
    assert one.answers[0]["stop_reason"] == "model_error"
    assert one.of("RunFinished")[0]["usage"]["calls"] == len(one.model.requests)
