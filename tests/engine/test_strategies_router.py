"""A path is picked for each question, once, and in doubt it is the default one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bot.engine.ports import ModelFailure
from bot.lab.twins import Says
from tests.engine.oracles import ends, policy_with, sent
from tests.world import World

LOOK = Says(calls=[("get_order", {"order_id": "4921"})])
TICKET = Says(calls=[("get_ticket", {"order_id": "4921"})])
DONE = Says("54.00.")


def _world(*replies: Says | ModelFailure, turns: Any = (LOOK, DONE), loop: Any = None, **tables: Any) -> World:
    policy = policy_with(loop={"strategy": "router", **(loop or {})}, **tables)
    return World(turns, policy=policy, asides={"router": replies})


async def test_the_small_model_picks_the_path_and_the_log_says_why() -> None:
    """One question, before the agent is asked anything."""
    world = _world(Says('{"path": "answer", "why": "a greeting"}'))

    await ends(world, "good morning")

    [chosen] = world.of("RouteChosen")
    assert (chosen["path"], chosen["why"]) == ("answer", "a greeting")
    assert [one.role for one in world.model.requests] == ["router", "agent", "agent"]
    assert world.kinds.index("RouteChosen") < world.kinds.index("ToolRequested")


@pytest.mark.parametrize(
    "reply",
    [
        Says("react"),
        Says(""),
        Says('{"path": "conquer"}'),
        Says('{"path": ["answer"]}'),
        Says('{"path": null}'),
        Says('["answer"]'),
        Says('{"path": "answer"'),
        Says('{"path": "answer", "path": "answer"}'),
        Says('The path is {"path": "answer"}'),
        Says('{"path": "answer"}', stop_reason="max_tokens"),
        Says('{"path": "answer"}', stop_reason="refusal"),
        Says("[" * 100_000),
        ModelFailure("gone"),
        ModelFailure("late", kind="deadline"),
    ],
    ids=repr,
)
async def test_whatever_is_no_allowed_path_is_the_default_one(reply: Any) -> None:
    """And the run goes on as if nobody had been asked."""
    world = _world(reply)

    finished = await ends(world)

    assert [one["path"] for one in world.of("RouteChosen")] == ["react"]
    assert (finished["outcome"], finished["text"]) == ("answered", "54.00.")


async def test_a_fenced_object_is_read_as_an_object() -> None:
    """Models wrap JSON so; it is still exactly one object."""
    world = _world(Says('Here:\n```json\n{"path": "answer", "why": "hi"}\n```'))

    await ends(world)

    assert [one["path"] for one in world.of("RouteChosen")] == ["answer"]


async def test_no_room_for_the_question_is_the_default_path_and_ends_nothing() -> None:
    """Its worst case does not fit, so it is not asked."""
    world = _world(Says('{"path": "answer"}'), caps={"tokens": 1_000})

    finished = await ends(world, "why? " * 400)

    assert sent(world, "router") == []
    assert world.of("RouteChosen")[0]["path"] == "react"
    assert finished["stop_reason"] == "token_budget"


async def test_a_rule_decides_without_asking_anybody() -> None:
    """By whole words, in any case; the first rule that fits."""
    loop = {"routes": {"thanks": "answer", "refund": "react"}}
    world = _world(loop=loop)

    await ends(world, "THANKS for the refund!")

    assert world.of("RouteChosen")[0]["path"] == "answer"
    assert sent(world, "router") == []


@pytest.mark.parametrize("text", ["thanksgiving", "no thank s", "danke"])
async def test_a_rule_fits_whole_words_only(text: str) -> None:
    """Anything else is for the model to say."""
    world = _world(Says('{"path": "react", "why": "w"}'), loop={"routes": {"thanks": "answer"}})

    await ends(world, text)

    assert world.of("RouteChosen")[0] == {"type": "RouteChosen", "path": "react", "why": "w", "instruction": ""}


async def test_it_is_asked_once_a_run_and_sees_the_question_alone() -> None:
    """Neither results nor what other runs read has a say in the path."""
    world = _world(Says('{"path": "react", "why": ""}'), turns=(TICKET, DONE, DONE))
    await ends(world, "first question")

    await world.says("second question", ts="2.0")
    await world.settle()

    first, second = [b" ".join(blocks) for blocks in sent(world, "router")]
    assert b"first question" in first
    assert b"second question" in second and b"first" not in second and b"refund 900" not in second
    assert len(world.of("RouteChosen")) == 2


async def test_the_default_path_leaves_no_trace_in_the_conversation() -> None:
    """The same requests as without a router."""
    routed, plain = _world(Says('{"path": "react", "why": ""}')), World((LOOK, DONE))

    await ends(routed)
    await ends(plain)

    assert _without_ids(routed) == _without_ids(plain)


def _without_ids(world: World) -> str:
    return re.sub("toolu_[0-9]+", "toolu", str(sent(world)))


async def test_a_plain_answer_may_still_look_something_up() -> None:
    """A question that was taken for a simple one is not answered worse for it."""
    world = _world(Says('{"path": "answer", "why": ""}'), turns=(LOOK, DONE))

    await ends(world)

    assert world.of("ToolReturned")[0]["ok"] and b"no look-up" in b" ".join(sent(world)[0])


async def test_what_the_router_costs_counts() -> None:
    """Tokens and money of the run include it."""
    world = _world(Says('{"path": "react", "why": ""}', cost_usd=0.5))

    finished = await ends(world)

    replies = world.of("ModelReplied")
    assert [one["role"] for one in replies] == ["router", "agent", "agent"]
    assert finished["usage"]["calls"] == 3
    assert finished["cost_usd"] == pytest.approx(0.502)


async def test_a_stop_during_the_question_ends_the_run_at_once() -> None:
    """And nothing is chosen any more."""
    world = _world(Says('{"path": "react"}'))
    await world.says("hello")
    await world.happens("stop", user="U0ALICE")

    await world.settle()

    assert world.of("RunFinished")[0]["stop_reason"] == "cancelled"
    assert world.of("RouteChosen") == []


async def test_a_plan_may_be_the_path() -> None:
    """It opens itself, and its end is the run's."""
    steps = '{"steps": [{"tool": "get_order", "arguments": {}, "why": "see it"}]}'
    world = _world(Says('{"path": "plan", "why": "many steps"}'), turns=(LOOK, Says(steps), LOOK, DONE))

    finished = await ends(world)

    assert [one["path"] for one in world.of("RouteChosen")] == ["plan", "plan", "plan"]
    assert [one["ran"] for one in world.of("ToolReturned")] == [False, True]
    assert finished["text"] == "54.00." and len(world.of("PlanCommitted")) == 1
