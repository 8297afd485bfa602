"""Reports 12 and 13: thinking goes back exactly as it came, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.lab.messages_script import Call, Reply, Status, Turn
from tests.claude.conftest import Place
from tests.reports.oracle import refusals
from tests.reports.places import Deeds, asks, wired

pytestmark = pytest.mark.wire
LOOK = Turn("I look.", [Call("get_order", {"order_id": "4921"})], thinking="Let me see. ", redacted_thinking="hm")
SPOILT = "messages.1.content.0: Invalid `signature` in `thinking` block"


class Rotated:
    """A service that was given other keys: it takes no thinking of before, or with `always` nothing at all."""

    def __init__(self, replies: list[Reply], *, always: bool = False) -> None:
        self._replies, self._always = replies, always
        self.rotated = False

    def reply(self, request: dict[str, Any]) -> Reply:
        """A 400 while the request holds thinking."""
        if self.rotated and (self._always or '"signature"' in json.dumps(request["messages"])):
            return Status(400, "invalid_request_error", SPOILT)
        return self._replies.pop(0)


async def test_report_12_thinking_that_is_no_longer_accepted_does_not_brick_the_thread(place: Place) -> None:
    """openclaw#94228: an invalid signature on replay, and every later message of the Slack session fails."""
    brain = Rotated([LOOK, Turn("First."), LOOK, Turn("Second."), Turn("Third.")])
    deeds = Deeds()
    world = wired(place, tools=[deeds.look(parallel_safe=False)])
    place.api.brain = brain
    await asks(world)
    brain.rotated = True

    second = await asks(world, "and?", ts="2.0")
    third = await asks(world, "and then?", ts="3.0")

    assert (second["text"], third["text"]) == ("Second.", "Third.")
    assert len(deeds.done) == 2
    assert all("order_id" in one.body.decode() for one in place.api.asked[2:])


async def test_report_12_a_refusal_that_leaving_thinking_out_does_not_mend_ends_the_run(place: Place) -> None:
    """openclaw#94228, turned round: the mend is tried once, never in a circle."""
    brain = Rotated([LOOK, Turn("First."), Turn("Fine.")], always=True)
    world = wired(place, tools=[Deeds().look()])
    place.api.brain = brain
    await asks(world)
    brain.rotated = True
    before = len(place.api.asked)

    failed = await asks(world, "and?", ts="2.0")
    tried = len(place.api.asked) - before
    brain.rotated = False
    mended = await asks(world, "now?", ts="3.0")

    assert (failed["stop_reason"], tried, mended["text"]) == ("model_error", 2, "Fine.")


@pytest.mark.parametrize("thinking", ["Let me see.", "Größe 😀 \u2028 " * 9, "a\tb\u0001c\u200bd"])
async def test_report_13_blocks_of_thinking_go_back_as_they_came(place: Place, thinking: str) -> None:
    """gajae-code#4247: the text was emptied and the signature kept, so the service refuses the altered block."""
    turn = Turn("I look.", LOOK.calls, thinking=thinking, redacted_thinking="hm")
    world = wired(place, turn, turn, Turn("First."), Turn("Second."), tools=[Deeds().look(answer={"n": 1})])
    await asks(world)
    await asks(world, "and?", ts="2.0")

    sent = [message["content"] for message in place.api.requests[-1]["messages"] if message["role"] == "assistant"]
    stored = [one["content"] for one in world.of("ModelReplied")]
    assert refusals(place.api) == []
    assert [list(map(_bare, one)) for one in sent[:3]] == stored[:3]
    assert [[block["type"] for block in one] for one in sent[:2]] == [
        ["thinking", "redacted_thinking", "text", "tool_use"]
    ] * 2
    assert all(one[0]["thinking"] == "" and one[0]["signature"] for one in sent[:2])


def _bare(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}
