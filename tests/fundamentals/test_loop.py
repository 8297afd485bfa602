"""If somebody asks "how does a run end well?", the answer is here. Real processes, real sockets, a hostile model."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from bot.lab.messages_script import Broken, Call, InOrder, Reply, Status, Turn
from tests.live import POLICY, Live, live

pytestmark = pytest.mark.wire
TOOLS = '''
import asyncio
from pydantic import BaseModel
from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.tool import tool

class Wait(BaseModel):
    name: str
    seconds: float

@tool(authority=Authority.OBSERVE, output=Trust.INTERNAL, parallel_safe=True)
async def slow(args: Wait, context) -> dict:
    """Look something up that takes a while."""
    await asyncio.sleep(args.seconds)
    return {"looked_up": args.name}
'''
LOOK = Turn(calls=[Call("slow", {"name": "a", "seconds": 0})])


def _with_tools(home: Path, *tables: str) -> str:
    (home / "slow_tools.py").write_text(TOOLS)
    return POLICY + '\n[tools]\nmodules = ["slow_tools"]\n' + "\n".join(tables)


async def _log(world: Live, thread: str) -> list[dict[str, Any]]:
    code, lines = await world.command("audit", "export", f"T0PLIMSOLL/C0SUPPORT/{thread}")
    assert code == 0
    return [json.loads(line) for line in lines.splitlines() if line.startswith("{")]


async def test_399_identical_calls_are_stopped_by_the_third(tmp_path: Path) -> None:
    """The model would go on for ever; people get one answer that says so, and the call was made once."""
    async with live(tmp_path, brain=InOrder([LOOK] * 399), policy=_with_tools(tmp_path)) as world:
        await world.start()

        thread = await world.ask("go on")
        answer = await world.answer(thread)

        log = await _log(world, thread)
        finished = [one["payload"] for one in log if one["type"] == "RunFinished"]
        assert [(one["outcome"], one["stop_reason"]) for one in finished] == [("escalated", "repetition")]
        assert len(world.model.requests) == 3
        assert [one["type"] for one in log].count("ToolStarted") == 1
        assert "same call" in answer and "looked_up=a" in answer.replace("\\", "")


async def test_a_deadline_holds_whatever_the_service_asks_for(tmp_path: Path) -> None:
    """Two seconds, and "retry after 300": it ends as the deadline it is, not ten minutes later."""
    policy = POLICY + "\n[caps]\ndeadline_s = 2\n"
    wait = Status(429, "rate_limit_error", headers={"retry-after": "300"})
    async with live(tmp_path, brain=InOrder([wait]), policy=policy) as world:
        await world.start()
        begun = time.monotonic()

        thread = await world.ask("Where is order 4930?")
        answer = await world.answer(thread)

        assert time.monotonic() - begun < 2.1
        assert "time for this run is over" in answer


async def test_a_silent_service_ends_at_the_deadline(tmp_path: Path) -> None:
    """A stream that stalls in the middle of a number is no reply, and the time is not waited twice."""
    policy = POLICY + "\n[caps]\ndeadline_s = 2\n"
    stall = Broken(Turn("x" * 200), 4, "stall")
    async with live(tmp_path, brain=InOrder([stall]), policy=policy) as world:
        await world.start()
        begun = time.monotonic()

        thread = await world.ask("Where is order 4930?")
        answer = await world.answer(thread)

        assert 1.5 < time.monotonic() - begun < 3.5
        assert "time for this run is over" in answer


class _Timed:
    """A greeting, then three slow calls in one turn, then an answer; notes when it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def reply(self, request: dict[str, Any]) -> Reply:
        self.asked.append(time.monotonic())
        calls = [Call("slow", {"name": name, "seconds": s}) for name, s in (("a", 0.3), ("b", 0.1), ("c", 0.2))]
        return Turn(calls=calls) if len(self.asked) == 2 else Turn("Done.")


async def test_parallel_safe_calls_of_a_turn_run_together_and_answer_in_order(tmp_path: Path) -> None:
    """300, 100 and 200 ms take as long as the longest; the results stand as the model asked for them."""
    brain = _Timed()
    policy = _with_tools(tmp_path, "[loop]", "parallel = true")
    async with live(tmp_path, brain=brain, policy=policy) as world:
        await world.start()

        await world.answer(await world.ask("hello"))  # what a process does once in its life is not measured
        await world.answer(await world.ask("look three things up"))

        results = world.model.requests[2]["messages"][-1]["content"]
        assert 0.3 <= brain.asked[2] - brain.asked[1] < 0.35
        assert [json.loads(one["content"])["looked_up"] for one in results] == ["a", "b", "c"]


async def test_stop_ends_a_run_within_two_seconds_and_nothing_is_called_after_it(tmp_path: Path) -> None:
    """Typed in the thread, while the model is thinking."""
    brain = InOrder([Turn("Let me see.", [Call("slow", {"name": "a", "seconds": 0})], latency_s=20)])
    async with live(tmp_path, brain=brain, policy=_with_tools(tmp_path)) as world:
        await world.start()
        thread = await world.ask("take your time")
        await world.slack.wait_for(lambda: world.model.requests, what="a request to the model")
        begun = time.monotonic()

        await world.slack.say("U0ALICE", "stop", thread_ts=thread)
        answer = await world.answer(thread)

        assert time.monotonic() - begun < 2.0
        assert "Stopped, as you asked" in answer
        log = await _log(world, thread)
        assert len(world.model.requests) == 1
        assert not {"ToolStarted", "ModelReplied"} & {one["type"] for one in log}
