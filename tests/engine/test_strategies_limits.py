"""Limits hold whatever the strategy is: side questions cost tokens and money like any other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.event import Usage
from bot.core.outcomes import OUTCOMES
from bot.lab.twins import Says
from tests.engine.oracles import is_append_only, policy_with
from tests.world import World

STEPS = [{"tool": one, "arguments": {}, "why": "w"} for one in ("get_order", "get_ticket")]
PLAN = json.dumps({"steps": STEPS})
VERDICTS = {
    "router": ['{"path": "plan", "why": "w"}', '{"path": "answer", "why": "w"}', "?"],
    "critique": ['{"ok": true, "notes": ""}', '{"ok": false, "notes": "n"}', "?"],
}
USAGE = st.builds(
    lambda size, out: Usage(input_tokens=size, output_tokens=out, calls=1), st.integers(50, 400), st.integers(1, 60)
)
CALL = st.tuples(
    st.sampled_from(["get_order", "get_ticket", "issue_credit", "todo"]), st.sampled_from(["1111", "2222"])
)
TURN = st.builds(
    lambda text, calls, usage: Says(
        text, [(one, {"order_id": order}) for one, order in calls], usage=usage, cost_usd=usage.total * 1e-6
    ),
    st.sampled_from(["", "Done.", PLAN]),
    st.lists(CALL, max_size=2),
    USAGE,
)


def _asides(draw: Any) -> dict[str, list[Says]]:
    return {
        role: [Says(draw(st.sampled_from(words)), usage=(usage := draw(USAGE)), cost_usd=usage.total * 1e-6)]
        for role, words in VERDICTS.items()
    }


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_strategy_passes_a_limit_and_each_ends_once(data: Any) -> None:
    """The oracle adds up what the raw log says was used, lost and reserved."""
    loop = {
        "strategy": data.draw(st.sampled_from(["react", "plan", "router"])),
        "reflexion": data.draw(st.booleans()),
    }
    caps = {
        "turns": data.draw(st.integers(1, 6)),
        "tokens": data.draw(st.integers(1_000, 9_000)),
        "usd": data.draw(st.floats(0.002, 0.01)),
    }
    turns = data.draw(st.lists(TURN, min_size=1, max_size=6))
    world = World(
        [*turns, Says("Done.", cost_usd=120e-6)], policy=policy_with(loop=loop, caps=caps), asides=_asides(data.draw)
    )

    asyncio.run(_played(world))

    _within(world, caps)
    [finished] = world.of("RunFinished")
    assert finished["stop_reason"] in OUTCOMES[finished["outcome"]] and finished["messages"] == ["1.0"]
    assert finished["stop_reason"] != "internal_error" and world.tracer.faults == []
    assert finished["usage"]["calls"] == len(world.of("ModelReplied"))
    assert is_append_only(world)


def _within(world: World, caps: dict[str, Any]) -> None:
    tokens, usd, asked = 0, 0.0, 0
    for one in world.of("ModelRequested", "ModelReplied"):
        if one["type"] == "ModelReplied":
            usage = one["usage"]
            tokens += sum(number for name, number in usage.items() if name != "calls")
            usd += one["cost_usd"]
            continue
        asked += one["role"] == "agent"
        assert tokens + one["reserved_tokens"] <= caps["tokens"]
        assert usd + one["reserved_usd"] <= caps["usd"] + 1e-9
    assert asked <= caps["turns"]


async def _played(world: World) -> None:
    await world.says("please")
    await world.settle()
    world.clock.advance(100_000)
    await world.settle()
