"""Transcripts never poison: whatever stands in a text, the log replays, each request is valid, the chain holds."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from bot.core.authority import Authority
from bot.core.chain import Entry, verify
from bot.core.labels import Trust
from bot.core.policy import Policy
from bot.core.session import replay
from bot.core.tool import Tool, ToolContext, ToolError
from bot.engine.ports import ModelRequest
from bot.lab.clock import LabClock
from tests.builders import make_tool
from tests.properties.service import Service
from tests.properties.tape import Tape
from tests.world import World

QUICK = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
_HIDDEN = [
    "\ud800",
    "\udfff\ud800",
    "\x00",
    "\x1b[2J",
    "\x85",
    "\u202e",
    "\u200b",
    "\u2028",
    "\ufeff",
    "\U000e0041",
    "\r\n",
]
_PLAIN = ["", " ", "\t\n", "a" * 5_000, "</tool_result>", '"}]}', "\\ud800", "\U0001f469\u200d\U0001f52c", "\uffff"]
ODD = st.sampled_from([*_HIDDEN, *_PLAIN])
TEXTS = st.lists(ODD | st.text(max_size=8), max_size=4).map("".join)
NUMBERS = st.sampled_from(
    [2**53, -(2**63), 10**400, -0.0, 1e308, 5e-324, float("nan"), float("inf"), -float("inf"), 1e21]
)
VALUES = st.recursive(
    TEXTS | NUMBERS | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["look", "look", "note", "pay", "no such tool!", "", "look\x00", "\ud800", "x" * 300])


class Anything(BaseModel):
    """Takes whatever it is given."""

    model_config = ConfigDict(extra="allow")
    key: str = ""


@st.composite
def _turns(draw: st.DrawFn) -> list[tuple[list[dict[str, Any]], str]]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        texts = [{"type": "text", "text": text} for text in draw(st.lists(TEXTS, max_size=2))]
        whatever = st.dictionaries(TEXTS | st.just("key"), VALUES, max_size=3)
        arguments = draw(st.lists(whatever | st.fixed_dictionaries({"key": TEXTS}), max_size=3))
        calls = [
            {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": draw(NAMES), "input": given}
            for place, given in enumerate(arguments)
        ]
        odd = draw(st.sampled_from(["max_tokens", "pause_turn", "refusal", "model_context_window_exceeded", "new one"]))
        usual = "tool_use" if calls else "end_turn"
        found.append((texts + calls, draw(st.sampled_from([usual] * 6 + [odd]))))
    return found


def _tools(results: list[Any], done: dict[str, Any]) -> list[Tool]:
    given_out = iter(results)

    async def run(args: Anything, context: ToolContext) -> Any:
        """Returns what it is told, or fails with it."""
        done[context.call_id] = args.model_dump()
        value = next(given_out, "nothing more")
        if isinstance(value, str) and len(value) % 3 == 1:
            raise ToolError(value)
        return value

    kinds = (("look", Authority.OBSERVE), ("note", Authority.LOCAL_WRITE), ("pay", Authority.CRITICAL))
    plain = [make_tool(name, authority, Trust.INTERNAL, model=Anything) for name, authority in kinds]
    return [Tool(one.spec, one.arguments, run) for one in plain]


async def _play(
    turns: list[Any], results: list[Any], done: dict[str, Any], question: str, *, later: list[str], folds: bool
) -> World:
    script = iter(turns)

    def reply(tape: Tape, request: ModelRequest, reply_id: str) -> tuple[list[dict[str, Any]], str]:
        if request.role != "agent":
            return [{"type": "text", "text": question or "so far"}], "end_turn"
        return next(script, ([{"type": "text", "text": "Done."}], "end_turn"))

    async def nobody() -> None:
        """Nothing happens meanwhile."""

    rules: dict[str, Any] = {"caps": {"tokens": 10_000_000, "usd": 1_000, "turns": 12}}
    rules["loop"] = {"compact_at_tokens": 1_000 if folds else 60_000}
    rules["approvals"] = {"default": {"users": ["U0CAROL"]}}
    clock = LabClock()
    world = World([], _tools(results, done), Policy.model_validate(rules), clock=clock)
    service = Service(Tape(b""), clock, reply, lambda: (0, 0), nobody, calm=True)
    world.desk = replace(world.desk, model=service)
    await world.says(question, quoted=later[:1])
    await world.settle()
    for number, text in enumerate(later):
        await world.happens("edit", ts="1.0", author="U0ALICE", text=text)
        await world.says(text, ts=f"{number + 2}.0")
        await world.settle()
        if world.of("ApprovalRequested"):
            await world.clicks_on("deny" if number else "approve")
            await world.settle()
    for _ in range(6):
        world.clock.advance(100_000)
        await world.settle()
    assert world.tracer.faults == []
    return world


@QUICK
@given(_turns(), st.lists(VALUES, max_size=8), TEXTS, st.lists(TEXTS, max_size=3), st.booleans())
def test_no_text_and_no_number_poisons_a_thread(
    turns: list[Any], results: list[Any], question: str, later: list[str], folds: bool
) -> None:
    """In messages, replies, arguments and results; the service (its twin) takes every request that is made."""
    done: dict[str, Any] = {}
    world = asyncio.run(_play(turns, results, done, question, later=later, folds=folds))

    exported = [json.dumps(entry.dump(), allow_nan=False).encode() for entry in world.log]
    lines = [json.loads(line) for line in exported]
    assert verify(world.thread, lines).whole
    again = replay(world.thread, [Entry(**line) for line in lines])
    assert again.run is None and again.entries == len(lines)
    started = len(world.of("RunStarted"))
    assert started and len(world.of("RunFinished")) == len(world.answers) == started
    assert "internal_error" not in {one["stop_reason"] for one in world.of("RunFinished")}
    for one in world.surface.shown:
        json.dumps(dict(one.piece.body), ensure_ascii=False, allow_nan=False).encode()
    asked = {block["id"]: block["input"] for content, _ in turns for block in content if block["type"] == "tool_use"}
    assert done == {call: {"key": "", **asked[call]} for call in done}, "what ran is what was asked for, or nothing"
