"""The model's own list is progress for people and nothing else; what nobody read again is said to be unverified."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.core.authority import Authority
from bot.core.errors import Misconfigured
from bot.core.event import Usage
from bot.lab.twins import Says
from tests.builders import GET_ORDER, GET_TICKET, make_tool
from tests.engine.oracles import ends, policy_with
from tests.world import World

LOOK, DONE = Says(calls=[("get_order", {"order_id": "4921"})]), Says("Done.")
PLANNED = {"tool": "get_order", "arguments": {"order_id": {"from": "question"}}, "why": "see it"}
NOTE = make_tool("set_note", Authority.LOCAL_WRITE, answer={"noted": True})
WRITE = Says(calls=[("set_note", {"order_id": "4921"})])


def _todo(**items: str) -> Says:
    return Says(calls=[("todo", {"items": [{"text": text, "state": state} for text, state in items.items()]})])


def _lists(number: int) -> Says:
    return _todo(**{f"step{number}": "open"})


async def test_the_newest_list_is_shown_as_progress() -> None:
    """Instead of bare names of tools."""
    world = World([_todo(look="doing", pay="open"), LOOK, _todo(look="done", pay="dropped"), DONE])

    await ends(world)

    assert world.surface.of_kind("progress")[0]["steps"] == ["✓ look", "– pay"]


async def test_without_a_list_the_tools_are_shown() -> None:
    """A list that was refused is none, and its call is no step for people."""
    world = World([Says(calls=[("todo", {"items": [{"text": "", "state": "open"}]})]), LOOK, DONE])

    await ends(world)

    assert world.surface.of_kind("progress")[0]["steps"] == ["✓ get order"]
    assert not world.of("ToolReturned")[0]["ran"]


@pytest.mark.parametrize(
    "items",
    [
        [{"text": "x" * 201, "state": "open"}],
        [{"text": "x", "state": "later"}],
        [{"text": "x", "state": "open"}] * 31,
        [{"text": "a\u202eb", "state": "open"}],
        [{"text": "x", "state": "open", "url": "y"}],
    ],
)
async def test_a_list_is_bounded(items: Any) -> None:
    """Number, length, states, and nothing hidden from people."""
    world = World([Says(calls=[("todo", {"items": items})]), DONE])

    await ends(world)

    assert world.of("ToolStarted") == []


async def test_three_turns_of_lists_alone_are_no_progress() -> None:
    """A list adds no fact, however it changes."""
    world = World([_lists(number) for number in range(9)])

    finished = await ends(world)

    assert finished["stop_reason"] == "no_progress"
    assert [one["facts_added"] for one in world.of("ToolReturned")] == [0, 0, 0]
    assert "step0" not in finished["text"]


async def test_a_list_beside_a_look_up_is_not_barren() -> None:
    """The liveness twin."""
    turns = [Says(calls=[*_lists(number).calls, ("get_order", {"order_id": f"10{number:02d}"})]) for number in range(5)]
    orders = make_tool("get_order", Authority.OBSERVE, answer=lambda args, context: {"order": args.order_id})

    finished = await ends(World([*turns, DONE], [orders]))

    assert finished["outcome"] == "answered"


async def test_the_same_list_again_is_a_repetition() -> None:
    """As for any other call."""
    world = World([_lists(1)] * 9)

    assert (await ends(world))["stop_reason"] == "repetition"
    assert len(world.of("ToolStarted")) == 1


@pytest.mark.parametrize(
    ("turns", "unverified"),
    [
        ((WRITE, DONE), 1),
        ((WRITE, _lists(1), DONE), 1),
        ((WRITE, LOOK, DONE), 0),
        ((LOOK, WRITE, DONE), 1),
        ((DONE,), 0),
    ],
)
async def test_what_was_changed_and_not_read_again_is_not_verified(turns: Any, unverified: int) -> None:
    """Whatever the answer claims; a list is no reading."""
    world = World(turns, [GET_ORDER, NOTE])

    await ends(world)

    [answer] = world.answers
    assert len(answer["unverified"]) == unverified
    assert all("set_note was done and nothing was read after it" in one for one in answer["unverified"])


async def test_an_ending_without_an_answer_says_too_what_is_not_verified() -> None:
    """Among what is unknown."""
    world = World([WRITE, *(_lists(number) for number in range(9))], [GET_ORDER, NOTE])

    finished = await ends(world)

    assert finished["outcome"] == "escalated"
    assert "set_note was done and nothing was read after it" in finished["text"]


async def test_a_list_is_text_of_the_team_s_own_and_no_source_of_a_value() -> None:
    """It lowers no further than our own records do, and cards do not name it."""
    world = World([_lists(1), LOOK, DONE])

    await ends(world)

    assert [one["trust"] for one in world.of("ToolReturned")] == ["internal", "internal"]
    assert "todo" not in str(world.answers)


async def test_a_channel_that_names_its_tools_has_the_list_only_by_name() -> None:
    """Exactly those."""
    without = World([DONE], policy=policy_with(channels={"C0SUPPORT": {"tools": ["get_order"]}}))
    with_it = World([DONE], policy=policy_with(channels={"C0SUPPORT": {"tools": ["get_order", "todo"]}}))

    await ends(without)
    await ends(with_it)

    assert [spec.name for spec in without.model.requests[0].tools] == ["get_order"]
    assert [spec.name for spec in with_it.model.requests[0].tools] == ["get_order", "todo"]
    assert without.of("RunStarted")[0]["tools"] == ["get_order"]


def test_no_other_tool_may_take_its_name() -> None:
    """What is special about it hangs on the name."""
    with pytest.raises(Misconfigured, match="two tools are called 'todo'"):
        World([DONE], [GET_TICKET, make_tool("todo", Authority.CRITICAL)])


async def test_a_fold_keeps_plan_and_list_before_the_model() -> None:
    """They would be gone with the turns that wrote them."""
    usage = Usage(input_tokens=3_000, output_tokens=20, calls=1)
    calls = [[*_lists(number).calls, ("get_order", {"order_id": f"10{number:02d}"})] for number in range(9)]
    orders = make_tool("get_order", Authority.OBSERVE, answer=lambda args, context: {"order": args.order_id})
    turns = [Says(json.dumps({"steps": [PLANNED] * 9})), *(Says(calls=one, usage=usage) for one in calls), DONE]
    world = World(turns, [orders], policy_with(loop={"compact_at_tokens": 2_000, "strategy": "plan"}))

    await world.says("long task")
    await world.settle()

    assert world.of("RunFinished")[0]["outcome"] == "answered"
    fold = world.of("Compacted")[0]["summary"]
    assert "Your to-do list:\n○ step" in fold
    assert "✓ get order: see it" in fold and "○ get order: see it" in fold
