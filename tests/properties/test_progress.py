"""Progress and repetition: what the log says was new, refused and ended, against the rules counted once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from bot.core.authority import Authority
from bot.core.policy import Policy
from bot.core.tool import Tool, ToolError
from bot.lab.twins import Says
from tests.builders import make_tool
from tests.properties.progress_oracle import check
from tests.properties.sea import Sea
from tests.properties.tape import TAPES
from tests.world import World

QUICK = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
WIDE = {"caps": {"tokens": 100_000_000, "usd": 100_000, "deadline_s": 86_400}}
KINDS = {"look": ("observe", "internal", False), "note": ("local_write", "internal", False)}


class Args(BaseModel):
    """Arguments whose types a schema tells apart."""

    key: str = "a"
    n: int | float | str = 0


def _world(calls: list[Any], look: Any, note: Any = "noted", **caps: Any) -> World:
    tools: list[Tool] = [
        make_tool("look", Authority.OBSERVE, model=Args, answer=look, parallel_safe=True),
        make_tool("note", Authority.LOCAL_WRITE, model=Args, answer=note),
    ]
    policy = Policy.model_validate({"caps": WIDE["caps"] | caps})
    return World([*(Says("next", calls=turn) for turn in calls), Says("Done.")], tools, policy)


def _play(world: World, between: Callable[[World], Any] | None = None) -> World:
    async def whole() -> None:
        if between is not None:
            world.model.while_asked = lambda _: between(world)
        await world.says("Look into it.")
        await world.settle()

    asyncio.run(whole())
    return world


def _ran(world: World) -> list[bool]:
    return [one["ran"] for one in world.of("ToolReturned")]


@QUICK
@given(TAPES)
def test_any_run_counts_facts_turns_and_repeats_as_the_rules_say(tape: bytes) -> None:
    """Over whole random runs, small caps and all."""
    with asyncio.Runner() as runner:
        sea = runner.run(Sea(tape).play())

    check(sea.log, sea.policy.caps.barren_turns)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5]) | st.text("aA \n", max_size=6)
    | st.sampled_from(["2026-12-01T09:00:00Z", "2026-12-01 09:00", "1", "True"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "at", "handle"]), inner),
    max_leaves=8,
)  # fmt: skip


@QUICK
@given(st.lists(VALUES, min_size=1, max_size=5), st.integers(1, 4))
def test_a_result_adds_the_facts_that_no_earlier_one_held(results: list[Any], barren_turns: int) -> None:
    """Whatever its shape; and the run ends as soon as so many turns in a row have added none."""
    given_out = iter(results)
    turns = [[("look", {"n": number})] for number in range(len(results))]
    world = _play(_world(turns, lambda *_: next(given_out), barren_turns=barren_turns))

    check(world.log, barren_turns, KINDS)
    end = world.of("RunFinished")[0]
    assert end["stop_reason"] in ("end_turn", "no_progress")
    added = [bool(one["facts_added"]) for one in world.of("ToolReturned")]
    assert (end["stop_reason"] == "no_progress") == (added[-barren_turns:] == [False] * barren_turns)


CALLS = st.tuples(st.sampled_from(["look", "look", "note"]), st.sampled_from(["a", "b"]))


@QUICK
@given(st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=6), st.sets(st.integers(1, 6)), st.data())
def test_a_repeat_runs_only_where_something_changed_and_the_third_offer_ends(
    turns: list[Any], spoken: set[int], data: st.DataObject
) -> None:
    """Reads follow writes and words, writes follow words alone; a retryable error pardons once."""
    ends = data.draw(st.lists(st.sampled_from(["new", "same", "again"]), min_size=20, max_size=20))
    fates = iter(ends)
    number = 0

    def look(*_: Any) -> Any:
        nonlocal number
        number += 1
        fate = next(fates)
        if fate == "again":
            raise ToolError("busy", retryable=True)
        return {"seen": number if fate == "new" else 0}

    async def between(world: World) -> None:
        if len(world.model.requests) in spoken:
            await world.says("go on", ts=f"{len(world.model.requests) + 1}.0")

    calls = [[(tool, {"key": key}) for tool, key in turn] for turn in turns]
    world = _play(_world(calls, look, look, barren_turns=50), between)

    check(world.log, 50, KINDS)


def test_arguments_are_the_same_in_any_order_and_types_tell_them_apart() -> None:
    """1, 1.0 and "1" are three calls; `{a, b}` and `{b, a}` are one."""
    turns = [[("look", {"key": "a", "n": 1}), ("look", {"key": "a", "n": 1.0}), ("look", {"key": "a", "n": "1"})]]
    again = [[("look", {"n": 1, "key": "a"})]]

    assert _ran(_play(_world(turns + again, {"found": 1}))) == [True, True, True, False]


def test_the_third_offer_ends_the_run() -> None:
    """The first runs, the second is refused, after the third nobody is asked any more."""
    world = _play(_world([[("look", {})]] * 9, {"found": 1}, barren_turns=50))

    assert _ran(world) == [True, False, False]
    assert world.of("RunFinished")[0]["stop_reason"] == "repetition"
    assert len(world.model.requests) == 3


def test_a_read_is_made_again_after_a_write_and_a_write_only_after_a_word() -> None:
    """The world changed for the one, nobody spoke for the other."""
    turns = [[("look", {})], [("note", {})], [("look", {})], [("note", {})]]

    assert _ran(_play(_world(turns, {"found": 1}))) == [True, True, True, False]


def test_after_a_persons_word_both_are_made_again() -> None:
    """Somebody who speaks may have changed anything."""

    async def speaks(world: World) -> None:
        if len(world.model.requests) == 1:
            await world.says("it is different now", ts="2.0")

    turns = [[("look", {}), ("note", {})], [("look", {}), ("note", {})]]

    assert _ran(_play(_world(turns, {"found": 1}), speaks)) == [True] * 4


def test_a_retryable_error_pardons_one_repeat_and_no_second() -> None:
    """Busy, busy, and then the same call is a repeat like any other."""

    def busy(*_: Any) -> Any:
        raise ToolError("busy", retryable=True)

    assert _ran(_play(_world([[("look", {})]] * 3, busy, barren_turns=50))) == [True, True, False]


def test_a_change_is_progress_even_where_its_result_says_nothing_new() -> None:
    """Four notes, each answered in the same words: none of these turns is barren."""
    world = _world([[("note", {"n": turn})] for turn in range(4)], None, barren_turns=1)

    assert _play(world).of("RunFinished")[0]["stop_reason"] == "end_turn"


def test_a_slow_tool_is_not_a_barren_one() -> None:
    """Hours pass, and each turn brings a fact: the run goes on to its answer."""
    number = 0
    world = _world([[("look", {"n": turn})] for turn in range(8)], None)

    def slow(*_: Any) -> Any:
        nonlocal number
        number += 1
        world.clock.advance(3_000)
        return {"row": number}

    tools = [make_tool("look", Authority.OBSERVE, model=Args, answer=slow)]
    world = World(world.turns, tools, world.policy, clock=world.clock)

    assert _play(world).of("RunFinished")[0]["stop_reason"] == "end_turn"
