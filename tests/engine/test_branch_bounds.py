"""Investigations within the limits of their run, every one of them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.events import Usage
from bot.core.tool import ToolError
from bot.core.transcript import faults
from bot.engine.ports import ModelFailure, ModelRequest
from bot.lab.twins import Says
from tests.inquiries import THREE, Brain, branch_of, looks, policy, reading, said_in, splitting, world


def _spender(brain: Brain, dice: random.Random) -> Any:
    """The same script at any price: as dear as a request may become, or cheaper, or lost."""
    rate = dice.random()  # tokens of a byte; a service counts alike each time

    def answer(request: ModelRequest) -> Says | ModelFailure:
        said = brain(request)
        size = len(request.system) + sum(item.size for message in request.messages for item in message.items)
        used = Usage(input_tokens=int(rate * size), output_tokens=dice.randint(1, request.max_output_tokens), calls=1)
        if isinstance(said, ModelFailure) or (branch_of(request) and dice.random() < 0.15):
            return ModelFailure("lost", kind="lost", usage=used, cost_usd=used.total * 1e-6)
        return replace(said, usage=used, cost_usd=used.total * 1e-6)

    return answer


def _worst(entries: list[dict[str, Any]]) -> tuple[int, float, int]:
    """Tokens, money and turns that a log has used up at the very most; from its events alone."""
    tokens, usd, turns = 0, 0.0, 0
    open_at: dict[int, tuple[int, float]] = {}
    for event in entries:
        branch = event.get("branch", 0)
        if event["type"] == "ModelRequested":
            # What was reserved before and never answered may all have been charged.
            before = open_at.pop(branch, (0, 0.0))
            tokens, usd = tokens + before[0], usd + before[1]
            open_at[branch] = (event["reserved_tokens"], event["reserved_usd"])
            turns = max(turns, event["turn"])
        elif event["type"] == "ModelReplied":
            open_at.pop(branch)
            tokens += sum(value for name, value in event["usage"].items() if name != "calls")
            usd += event["cost_usd"]
    return tokens + sum(one[0] for one in open_at.values()), usd + sum(one[1] for one in open_at.values()), turns


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(2_000, 60_000), st.floats(0.002, 0.06), st.integers(1, 12), st.integers(1, 5)
)
def test_no_bound_is_ever_passed(seed: int, tokens: int, usd: float, turns: int, branches: int) -> None:
    """Recomputed from the raw log after each of its events, every reservation counted at its worst."""
    dice = random.Random(seed)
    questions = [f"Question {number}?" for number in range(dice.randint(1, branches))]
    turns_of = {
        number: [looks("get_order", f"{number}{turn}00") for turn in range(dice.randrange(8))] for number in range(1, 6)
    }
    brain = Brain([splitting(*questions)], {number: [*looked, Says("Told.")] for number, looked in turns_of.items()})
    caps = {"tokens": tokens, "usd": usd, "turns": turns}
    one = world(_spender(brain, dice), given=policy(loop={"branches": branches}, caps=caps))

    async def to_the_end() -> None:
        await one.says("why?")
        await one.settle()

    asyncio.run(to_the_end())

    entries = [{**(entry.payload or {}), "type": entry.type} for entry in one.log]
    for place in range(len(entries)):
        worst = _worst(entries[: place + 1])
        assert worst[0] <= tokens and worst[1] <= usd + 1e-9 and worst[2] <= turns, (place, worst)
    assert len(one.of("RunFinished")) == 1
    assert [fault for request in one.model.requests for fault in faults(request.messages)] == []
    assert one.tracer.faults == []


async def test_what_is_left_for_the_judgement_is_not_spent_by_investigations() -> None:
    """They stop at the soft limit, unasked where they do not fit, and the judgement is still made."""

    def dear(request: ModelRequest) -> Any:
        said = Brain(branches=THREE, judge=[Says("So [1].")])(request)
        return replace(said, usage=Usage(input_tokens=5_000, calls=1)) if isinstance(said, Says) else said

    one = world(dear, given=policy(caps={"tokens": 60_000}))
    await one.says("why?")
    await one.settle()

    asked = Counter(event["branch"] for event in one.of("ModelRequested"))
    assert asked[0] == 2 and 0 < sum(asked.values()) - 2 < 7
    assert "no room for it" in said_in(one.model.requests[-1])
    assert one.answers[0]["text"] == "So [1]."


async def test_what_a_request_may_use_is_reckoned_from_the_last_one_of_its_own_conversation() -> None:
    """What was counted then, and a token for each byte since; a first one begins with the main conversation."""
    one = world(Brain(branches=THREE))
    await one.says("why?")
    await one.settle()
    last: dict[int, int] = {}

    for event in one.of("ModelRequested"):
        number, size = event["branch"], event["request_bytes"]
        worst = event["reserved_tokens"] - event["max_output_tokens"]
        known = last.get(number, last.get(0))
        # The twin counts 100 input tokens each time; 64 are for what bytes do not show.
        assert worst == (size + 64 if known is None else 100 + size - known + 64)
        last[number] = size
    assert len(last) == 4


async def test_the_last_turn_is_kept_for_the_judgement() -> None:
    """Five turns: the questions, three investigations, the judgement of what they were doing."""
    one = world(Brain(branches=THREE), given=policy(caps={"turns": 5}))
    await one.says("why?")
    await one.settle()

    assert [event["branch"] for event in one.of("ModelRequested")] == [0, 1, 2, 3, 0]
    assert said_in(one.model.requests[-1]).count("It failed: the steps of this run were used up.") == 3
    assert one.answers[0]["outcome"] == "answered"


async def test_rounds_that_bring_nothing_new_end_the_run() -> None:
    """A round of all investigations counts as one turn."""
    blank = reading("get_order", parallel_safe=True)
    same = replace(blank, run=_nothing)
    stuck = {number: [looks("get_order", f"{number}{turn}00") for turn in range(6)] for number in (1, 2, 3)}
    one = world(Brain(branches=stuck), [same])
    await one.says("why?")
    await one.settle()

    assert one.answers[0]["stop_reason"] == "no_progress"
    assert len(one.of("ToolReturned")) == 9


async def _nothing(args: Any, context: Any) -> Any:
    raise ToolError("There is no such order.")
