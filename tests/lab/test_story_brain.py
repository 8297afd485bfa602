"""The scripted model of the story goes by what it reads, and keeps its thread when a person speaks."""

from __future__ import annotations

from typing import Any

import pytest

from bot.lab.messages_script import Turn
from bot.lab.story_brain import QUESTIONS, StoryBrain
from tests.lab.messages import TOOL, assistant, text, user


def _reply(*messages: dict[str, Any]) -> Turn:
    reply = StoryBrain().reply({"messages": list(messages), "tools": [TOOL]})
    assert isinstance(reply, Turn)
    return reply


def _question(words: str) -> dict[str, Any]:
    return user(text(f"[U0ALICE wrote]\n{words}"))


def _step(number: int, tool: str, result: Any, *said: str) -> list[dict[str, Any]]:
    """A call, its result, and what a person said meanwhile."""
    call = {"type": "tool_use", "id": f"c{number}", "name": tool, "input": {}}
    answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": result}
    return [assistant(call), user(answer, *map(text, said))]


SHIPMENT = '{"state": "delivered", "delivered_on": "2026-11-01"}'


def test_the_story_s_model_goes_by_what_it_reads_and_says_that_it_is_scripted() -> None:
    """It knows three questions; for anything else it says so."""
    asked = _question(QUESTIONS[2])

    assert [call.name for call in _reply(_question(QUESTIONS[0])).calls] == [
        "find_tickets",
        "get_order",
        "get_shipment",
    ]
    assert "scripted" in _reply(_question("What is the meaning of life?")).text
    assert "delivered on 2026-11-01" in _reply(asked, *_step(1, "get_shipment", SHIPMENT)).text
    assert "could not find" in _reply(asked, *_step(1, "get_shipment", "There is no order")).text


@pytest.mark.parametrize("said", ["please", "[U0BOB wrote]\nhurry up, they are waiting"])
def test_a_word_in_between_does_not_lose_the_story(said: str) -> None:
    """The newest question that names an order counts, before the first look-up and after it."""
    asked = _question(QUESTIONS[2])

    assert [call.name for call in _reply(asked, user(text(said))).calls] == ["get_shipment"]
    assert "delivered" in _reply(asked, *_step(1, "get_shipment", SHIPMENT, said)).text


def test_another_order_in_between_is_the_question_from_then_on() -> None:
    """What was read for the first one answers nothing."""
    reply = _reply(_question(QUESTIONS[2]), *_step(1, "get_shipment", SHIPMENT, "no: where is order 4921?"))

    assert reply.calls[0].arguments == {"order_id": "4921"}


def test_a_question_after_the_answer_is_a_new_one() -> None:
    """The old answer is not repeated for whatever comes next."""
    told = [_question(QUESTIONS[2]), *_step(1, "get_shipment", SHIPMENT), assistant(text("Delivered."))]

    assert "scripted" in _reply(*told, _question("What is the meaning of life?")).text
    assert [call.name for call in _reply(*told, _question("Where is order 4930?")).calls] == ["get_shipment"]
