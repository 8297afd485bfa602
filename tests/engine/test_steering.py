"""What people do while a run is under way."""

from __future__ import annotations

import asyncio
from typing import Any

from bot.engine.storage import InboxItem
from bot.lab.twins import Says
from tests.builders import THREAD
from tests.world import World

LOOK = Says(calls=[("get_order", {"order_id": "1001"})])


async def test_a_person_s_word_enters_after_the_results_and_before_the_next_question() -> None:
    """Steering: between turns, in the order of the log, and the next request begins with the last one."""
    world = World([LOOK, Says("Both.")])

    async def interjects(_: Any) -> None:
        await world.store.inbox.enqueue(
            InboxItem(THREAD, "message", {"ts": "2.0", "author": "U0BOB", "text": "hurry", "mentions_us": True}),
            claim="message:2.0",
        )

    world.model.while_asked = interjects
    await world.says("why?")
    await world.settle()

    last = world.model.requests[1].messages[-1].dump()["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"] and "hurry" in last[1]["text"]
    assert world.of("RunFinished")[0]["messages"] == ["1.0", "2.0"]


async def test_only_a_question_of_the_run_ends_it_when_it_is_deleted() -> None:
    """Another message that is gone stops nothing, and the model is not asked twice for it."""

    async def asked_while_deleting(ts: str) -> World:
        world = World([LOOK, Says("Done.")])

        async def deletes(_: Any) -> None:
            await world.happens("delete", ts=ts)
            for _ in range(20):
                world.clock.advance(0.1)
                await asyncio.sleep(0)

        world.model.while_asked = deletes
        await world.says("why?")
        await world.settle()
        return world

    others, ours = await asked_while_deleting("7.7"), await asked_while_deleting("1.0")

    assert ([one["outcome"] for one in others.answers], len(others.model.requests)) == (["answered"], 2)
    assert ([one["outcome"] for one in ours.answers], len(ours.model.requests)) == (["cancelled"], 1)
