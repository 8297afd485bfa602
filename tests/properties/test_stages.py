"""Stages: whatever order calls finish in, the log and the next request read as if they had run one after another."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.authority import Authority
from bot.core.tool import Tool, ToolContext
from bot.lab.twins import Says
from tests.builders import OrderArgs, make_tool
from tests.properties.stage_runs import ENDS, KINDS, Call, Played, play
from tests.world import World

TRUSTS = ["untrusted", "extracted", "internal", "principal", "system"]
CEILING = {"untrusted": "observe", "extracted": "send", "internal": "critical", "principal": "critical"}
CALLS = st.builds(Call, st.sampled_from(sorted(KINDS)), st.integers(0, 12), st.sampled_from(ENDS))
SAFE = st.builds(
    Call, st.sampled_from([name for name in sorted(KINDS) if KINDS[name][2]]), st.integers(0, 12), st.sampled_from(ENDS)
)
TURNS = st.lists(st.lists(st.one_of(SAFE, SAFE, CALLS), min_size=1, max_size=5), min_size=1, max_size=3)
QUICK = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def _both(turns: list[list[Call]]) -> tuple[Played, Played]:
    return asyncio.run(play(turns, parallel=True)), asyncio.run(play(turns, parallel=False))


@QUICK
@given(TURNS)
def test_side_by_side_leaves_the_same_log_and_the_same_request(turns: list[list[Call]]) -> None:
    """Byte for byte, apart from time, chain and salt."""
    beside, after = _both(turns)

    assert beside.lines == after.lines
    assert beside.requests == after.requests
    assert beside.world.tracer.faults == after.world.tracer.faults == []


def _stages(requested: list[dict[str, Any]]) -> list[list[str]]:
    """Consecutive calls that may stand side by side are one stage, any other call is its own."""
    found: list[list[str]] = []
    before = False
    for one in requested:
        safe = KINDS[one["tool"]][2]
        if safe and before:
            found[-1].append(one["call_id"])
        else:
            found.append([one["call_id"]])
        before = safe
    return found


def _turns_of(played: Played) -> list[list[dict[str, Any]]]:
    """The events after each reply, up to the next request."""
    turns: list[list[dict[str, Any]]] = []
    for entry in played.world.log:
        if entry.type == "ModelReplied":
            turns.append([])
        if turns and entry.type in ("ToolRequested", "GateDecided", "ToolStarted", "ToolReturned"):
            turns[-1].append({**(entry.payload or {}), "type": entry.type})
    return turns


@QUICK
@given(TURNS, st.booleans())
def test_a_stage_is_gated_whole_started_whole_and_answered_in_the_models_order(
    turns: list[list[Call]], parallel: bool
) -> None:
    """Gates, starts, results; a later stage's after an earlier one's."""
    played = asyncio.run(play(turns, parallel=parallel))

    for events in _turns_of(played):
        requested = [one for one in events if one["type"] == "ToolRequested"]
        asked = {one["call_id"] for one in events if one.get("verdict") == "needs_approval"}
        if asked or not requested:
            continue
        expected: list[tuple[str, str]] = []
        allowed = {one["call_id"] for one in events if one.get("verdict") == "allowed"}
        for stage in _stages(requested):
            expected += [("GateDecided", call) for call in stage]
            expected += [("ToolStarted", call) for call in stage if call in allowed]
            expected += [("ToolReturned", call) for call in stage]
        assert [(one["type"], one["call_id"]) for one in events if one["type"] != "ToolRequested"] == expected


@QUICK
@given(TURNS, st.booleans())
def test_a_stage_is_gated_with_the_label_after_all_earlier_stages(turns: list[list[Call]], parallel: bool) -> None:
    """The ceiling in each decision is the one that everything returned before it leaves."""
    played = asyncio.run(play(turns, parallel=parallel))

    trust, decided = "system", 0
    for entry in played.world.log:
        payload: dict[str, Any] = dict(entry.payload or {})
        match entry.type:
            case "MessageReceived":
                trust = min(trust, payload["trust"], key=TRUSTS.index)
            case "ToolReturned" if payload["ran"]:
                trust = min(trust, payload["trust"], key=TRUSTS.index)
            case "GateDecided":
                decided += 1
                assert payload["ceiling"] == CEILING[trust]
            case _:
                pass
    assert decided


@QUICK
@given(st.lists(SAFE, min_size=2, max_size=5))
def test_a_sibling_keeps_its_result_when_another_fails_or_stalls(turn: list[Call]) -> None:
    """Failures are isolated: each call has the end that its own fate says, all of them began before any had ended."""
    for call in turn:
        call.tool = "look"  # within every ceiling
    played = asyncio.run(play([turn], parallel=True))

    returned = played.world.of("ToolReturned")
    assert [one["ok"] for one in returned] == [call.end == "fine" for call in turn]
    told = [one["content"] for one in returned if one["ok"]]
    assert told == [{"result_of": place} for place, call in enumerate(turn, 1) if call.end == "fine"]
    assert [one["retryable"] for one in returned] == [call.end in ("again", "late") for call in turn]
    assert sorted(played.began) == list(range(1, len(turn) + 1))
    if all(call.waits for call in turn):
        assert played.began == sorted(played.began), "they begin in the model's order"
        assert len(played.began) == len(turn) and played.ended == _by_waits(turn), "and really ran side by side"


def _by_waits(turn: list[Call]) -> list[int]:
    return [place for _, place in sorted((call.waits, place) for place, call in enumerate(turn, 1))]


def test_siblings_of_a_call_that_stalls_keep_their_results() -> None:
    """It is given up at its own timeout, for real; the others were not waiting for it."""
    turn = [Call("look", 0, "fine"), Call("look", 0, "stall"), Call("look", 3, "fine")]
    played = asyncio.run(play([turn], parallel=True))

    assert [(one["ok"], one["retryable"]) for one in played.world.of("ToolReturned")] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    assert played.ended == [1, 2, 3]


def test_a_stop_during_a_stage_begins_no_later_call_of_it() -> None:
    """One after another: the second and the third were let in by the gate, and are not made."""
    began: list[str] = []

    async def whole() -> World:
        async def look(args: OrderArgs, context: ToolContext) -> str:
            """Looks, while somebody says stop."""
            began.append(context.call_id)
            await world.happens("stop", user="U0ALICE")
            world.clock.advance(1)
            await asyncio.sleep(5)
            return "never"

        plain = make_tool("look", Authority.OBSERVE, parallel_safe=True)
        calls = [("look", {"order_id": f"{number}000"}) for number in (1, 2, 3)]
        world = World([Says("", calls=calls), Says("Done.")], [Tool(plain.spec, plain.arguments, look)])
        await world.says("Look.")
        await world.settle()
        return world

    world = asyncio.run(whole())

    assert began == [one["call_id"] for one in world.of("ToolStarted")][:1]
    assert world.of("RunFinished")[0]["outcome"] == "cancelled"
