"""Reports 29 to 31: what the prompt cache is worth, by the accounts of the service."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from bot.lab.messages_script import Call, Turn
from tests.claude.conftest import Place
from tests.reports.places import Deeds, asks, dies_at, policy, wired

pytestmark = pytest.mark.wire
LOOKS = [Turn("I look.", [Call("get_order", {"order_id": f"{4921 + n}"})]) for n in range(6)]


def _constant(request: dict[str, Any]) -> bytes:
    return json.dumps([request["tools"], request["system"]]).encode()


def _unmarked(message: dict[str, Any]) -> str:
    blocks = [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]]
    return json.dumps([message["role"], blocks])


def _marked(request: dict[str, Any]) -> list[int]:
    """Places of the messages that carry a mark."""
    return [at for at, one in enumerate(request["messages"]) if any("cache_control" in b for b in one["content"])]


async def test_report_29_what_stands_before_the_conversation_is_the_same_for_ever(place: Place) -> None:
    """home-generative-agent#617: the clock stands in the system prompt, so the cache is never read."""
    world = wired(place, *LOOKS[:2], Turn("First."), *LOOKS[2:4], Turn("Second."), tools=[Deeds().look()])
    await asks(world, "why? " * 1_000)
    world.clock.advance(90_000)
    await asks(world, "and today?", ts="2.0")

    sent = place.api.requests
    head = sent[0]["messages"][0]["content"][0]["text"]
    later = sent[-1]["messages"][len(sent[2]["messages"]) + 1]["content"][0]["text"]
    assert len({_constant(one) for one in sent}) == 1
    assert str(world.clock.now())[:10] in later and str(world.clock.now())[:10] not in head
    assert all(
        [*map(_unmarked, b["messages"])][: len(a["messages"])] == [*map(_unmarked, a["messages"])]
        for a, b in pairwise(sent)
    )
    assert all(one.usage["cache_read_input_tokens"] > 0 for one in place.api.asked[1:])


async def test_report_30_tools_stand_in_one_order_whatever_order_they_came_in(place: Place) -> None:
    """ai-sdk-go#157: the order of tools is that of a map, so each process sends another prefix."""
    deeds = Deeds()
    names = ["zeta", "alpha", "mid", "beta"]
    for order in (names, sorted(names), names[::-1]):
        await asks(wired(place, Turn("Done."), tools=[deeds.look(name) for name in order]))

    assert len({_constant(one) for one in place.api.requests}) == 1
    assert [one["name"] for one in place.api.requests[0]["tools"]] == sorted([*names, "todo"])


async def test_report_30_tools_stay_what_they_were_for_a_run_that_changes_process(place: Place) -> None:
    """OpenDigitalProductFactory#4251: descriptions changed in mid run; what was pinned says which run had which."""
    deeds = Deeds()
    world = wired(place, *LOOKS[:2], Turn("Done."), tools=[deeds.look(parallel_safe=False)])
    await world.says("look")
    await dies_at(
        world, world.store.log, "commit", lambda held, step: any(entry.type == "ToolStarted" for entry in step.entries)
    )
    await world.settle()

    assert world.answers[0]["text"] == "Done."
    assert len({_constant(one) for one in place.api.requests}) == 1
    assert len(world.of("RunStarted")[0]["pins"]["tools"]) == 64


@pytest.mark.parametrize("width", [1, 11])
async def test_report_31_the_mark_moves_forward_with_the_conversation(place: Place, width: int) -> None:
    """gajae-code#3930: the breakpoint is stuck on the first human turn, and everything after it is paid anew."""
    calls = [[Call("get_order", {"order_id": f"{4000 + turn * 20 + n}"}) for n in range(width)] for turn in range(5)]
    turns = [Turn("I look.", one) for one in calls]
    look = Deeds().look(answer=lambda args, context: {"order": args.order_id, "text": "word " * 300})
    world = wired(place, *turns, Turn("Done."), tools=[look], policy=policy(caps={"tokens": 4_000_000, "usd": 50}))

    await asks(world, "why? " * 300)

    asked = place.api.asked
    assert len(asked) == 6
    for one in place.api.requests:
        users = [at for at, message in enumerate(one["messages"]) if message["role"] == "user"]
        assert users[-1] in _marked(one), "the newest turn is not marked"
        assert users[0] not in _marked(one) or len(users) <= 2, "the mark is stuck on the first turn"
        assert one["messages"][users[-1]]["content"][-1].get("cache_control")
    for before, after in pairwise(asked):
        whole = before.usage["cache_read_input_tokens"] + before.usage["cache_creation_input_tokens"]
        assert after.usage["cache_read_input_tokens"] == whole, "something that was written is not read"
