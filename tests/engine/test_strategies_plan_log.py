"""Random scripts under a plan, and an oracle that only reads the raw log."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.lab.twins import Says
from tests.engine.oracles import is_append_only, policy_with
from tests.world import World

TOOLS = ("get_order", "get_ticket", "issue_credit")
DONE = Says("54.00.")


def _plan(*tools: str) -> Says:
    return Says(json.dumps({"steps": [{"tool": one, "arguments": {}, "why": f"see {one}"} for one in tools]}))


TURN = st.one_of(
    st.builds(
        lambda text, calls: Says(text, [(one, {"order_id": order}) for one, order in calls]),
        st.sampled_from(["", "Done.", _plan("get_order", "get_ticket").text]),
        st.lists(
            st.tuples(st.sampled_from([*TOOLS, "no_such_tool"]), st.sampled_from(["4921", "1111", "bad"])), max_size=3
        ),
    ),
    st.lists(st.sampled_from([*TOOLS, "get_moon"]), max_size=4).map(lambda tools: _plan(*tools)),
)


def _oracle(world: World) -> None:
    """Walk the raw log: whatever started while a plan held must be crossed off that plan."""
    path, left, called = "", Counter[str](), dict[str, str]()
    for entry in world.log:
        payload: dict[str, Any] = dict(entry.payload or {})
        match entry.type:
            case "RunStarted":
                path, left = "", Counter[str]()
            case "RouteChosen":
                path, left = payload["path"], Counter[str]()
            case "PlanCommitted":
                assert path == "plan" and payload["revision"] <= 3
                left = Counter(one["tool"] for one in payload["steps"])
            case "ToolRequested":
                called[payload["call_id"]] = payload["tool"]
            case "ToolStarted" if path != "react":
                tool = called[payload["call_id"]]
                assert left[tool] > 0, f"{tool} ran and no step was left for it"
                left[tool] -= 1
            case _:
                pass
    results = Counter(one["call_id"] for one in world.of("ToolReturned"))
    assert results == Counter(one["call_id"] for one in world.of("ToolRequested")), "one result for each call"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TURN, min_size=1, max_size=9))
def test_nothing_runs_that_the_plan_of_the_moment_does_not_name(turns: list[Says]) -> None:
    """Random scripts; each question ends once, and what was sent is never rewritten."""
    world = World([*turns, DONE], policy=policy_with(loop={"strategy": "plan"}, caps={"barren_turns": 6, "turns": 14}))

    asyncio.run(_played(world))

    _oracle(world)
    assert [one["messages"] for one in world.of("RunFinished")] == [["1.0"]]
    assert is_append_only(world)
    assert world.tracer.faults == []


async def _played(world: World) -> None:
    await world.says("please")
    await world.settle()
    world.clock.advance(100_000)
    await world.settle()
