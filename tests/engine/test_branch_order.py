"""Investigations in any finishing order: the same log, the same requests."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import datetime
from typing import Any

from bot.core.authority import Authority
from bot.core.tool import Tool, ToolContext, tool
from bot.engine.ports import ModelReply, ModelRequest
from bot.lab.twins import Says, TwinModel
from tests.builders import OrderArgs
from tests.inquiries import THREE, Brain, branch_of, canary, policy, wire, world


class Slow(TwinModel):
    """Takes its time over each reply, as the dice fall."""

    def __init__(self, brain: Any, dice: random.Random) -> None:
        super().__init__(brain)
        self.dice = dice
        self.finished: list[int] = []

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """What the script says, later."""
        reply = await super().ask(request, deadline)
        await _dawdle(self.dice)
        self.finished.append(branch_of(request))
        return reply


async def _dawdle(dice: random.Random) -> None:
    for _ in range(dice.randrange(12)):
        await asyncio.sleep(0)


def _slow_tool(dice: random.Random) -> Tool:
    async def get_order(args: OrderArgs, context: ToolContext) -> Any:
        """Look an order up."""
        await _dawdle(dice)
        return {"found": canary(args.order_id)}

    get_order.__annotations__ = {"args": OrderArgs, "context": ToolContext, "return": Any}
    return tool(authority=Authority.OBSERVE, name="get_order", parallel_safe=True)(get_order)


WIDE = {
    number: [
        Says(calls=[("get_order", {"order_id": f"{number}{turn}{call}0"}) for call in range(3)]) for turn in range(2)
    ]
    + [Says(f"told-{number}")]
    for number in (1, 2, 3)
}


async def _run(seed: int | None) -> tuple[list[Any], list[list[bytes]], list[int]]:
    dice = random.Random(seed)
    one = world(Brain(branches=WIDE), [_slow_tool(dice)], policy(loop={"parallel": seed is not None}))
    model = Slow(Brain(branches=WIDE), dice)
    one.desk = replace(one.desk, model=model)
    await one.says("why?")
    await one.settle()
    log = [(entry.seq, entry.type, entry.run, entry.payload) for entry in one.log]
    return log, [wire(request) for request in model.requests], model.finished


async def test_the_log_and_every_request_are_the_same_whatever_finishes_first() -> None:
    """Models and tools dawdle at random; one run goes strictly in sequence."""
    log, requests, _ = await _run(None)
    orders = set()
    for seed in range(40):
        again, asked, finished = await _run(seed)
        assert [one for one in again if one[1] != "RunStarted"] == [one for one in log if one[1] != "RunStarted"]
        assert asked == requests
        orders.add(tuple(finished))
    assert len(orders) > 10


async def test_investigations_are_asked_side_by_side() -> None:
    """None waits for another's reply."""
    begun: list[int] = []
    all_there = asyncio.Event()

    class Together(TwinModel):
        async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
            """An investigation is answered once all three have asked."""
            if number := branch_of(request):
                begun.append(number)
                if len(begun) == 3:
                    all_there.set()
                await all_there.wait()
            return await super().ask(request, deadline)

    one = world(Brain(branches=THREE))
    one.desk = replace(one.desk, model=Together(Brain(branches=THREE)))
    await one.says("why?")
    await asyncio.wait_for(one.settle(), 5)

    assert one.answers[0]["outcome"] == "answered"
