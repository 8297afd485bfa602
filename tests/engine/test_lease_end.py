"""The end of a lease: whoever keeps it is gone when the thread is given back."""

from __future__ import annotations

import asyncio
from typing import Any

from bot.engine.storage import Held
from bot.lab.twins import Says
from tests.engine.bench import awaiting
from tests.world import World


async def test_a_thread_is_given_back_even_when_the_end_of_its_keeper_is_swallowed_once() -> None:
    """Python 3.11: `asyncio.wait_for` gives a result that is there in place of a cancellation, and clients use it."""
    renewing = asyncio.Event()

    async def swallows(held: Held, lease_s: float) -> str:
        renewing.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ""
        raise AssertionError("nothing sets it")

    async def work(context: Any) -> str:
        world.clock.advance(1.0)
        await renewing.wait()
        return "order 4921 is paid"

    slow = awaiting(work, "get_order")
    world = World([Says(calls=[("get_order", {"order_id": "4921"})]), Says("It is paid.")], tools=[slow])
    world.store.lease.renew = swallows  # type: ignore[method-assign]  # this one call behaves like a client's
    await world.says("Is 4921 paid?")

    await asyncio.wait_for(world.settle(), 5)

    assert renewing.is_set()
    assert [one["outcome"] for one in world.answers] == ["answered"]
    assert await world.store.lease.next_ready("w2", wait_s=0, lease_s=15) is None
