"""A toolbox to try tools in: time stands still, and an operator reads the notes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.policy import Policy
from bot.core.tool import Tool, ToolContext, ToolResult
from bot.engine.toolbox import LocalToolbox
from bot.lab.clock import LabClock
from bot.lab.twins import Silent
from tests.builders import THREAD, make_tool

ORDER = {"order_id": "4921"}


class Bench:
    """A toolbox with a clock that stands still and an operator who reads the notes."""

    def __init__(self, *tools: Tool, **policy: Any) -> None:
        self.clock = LabClock()
        self.tracer = Silent()
        self.box = LocalToolbox(tools, Policy.model_validate(policy), {}, self.tracer, self.clock)

    def context(self, left_s: float = 30.0) -> ToolContext:
        """Of a call that has so much time left."""
        deadline = self.clock.now() + timedelta(seconds=left_s)
        return ToolContext(THREAD, "U0ALICE", "run-1", "call-1", "key-1", deadline, {})

    async def run(self, name: str, left_s: float = 30.0) -> ToolResult:
        """Call it for order 4921."""
        one = self.box.get(name)
        assert one is not None
        return await self.box.run(one, ORDER, self.context(left_s))


async def returned(answer: Any, output: Trust = Trust.INTERNAL, **options: Any) -> ToolResult:
    """The result of a tool that returns that."""
    return await Bench(make_tool("probe", Authority.OBSERVE, output, answer=answer, **options)).run("probe")


def raising(error: BaseException) -> Any:
    """An answer that raises."""

    def answer(args: BaseModel, context: ToolContext) -> Any:
        raise error

    return answer


def never(started: asyncio.Event | None = None, name: str = "slow", **options: Any) -> Tool:
    """A tool that never returns, and says when it has started."""

    async def wait() -> Any:
        if started is not None:
            started.set()
        await asyncio.Event().wait()

    return awaiting(lambda context: wait(), name, **options)


def awaiting(work: Any, name: str = "slow", **options: Any) -> Tool:
    """A tool that awaits what `work(context)` gives."""
    one = make_tool(name, Authority.OBSERVE, **options)

    async def run(args: BaseModel, context: ToolContext) -> Any:
        return await work(context)

    return Tool(one.spec, one.arguments, run)
