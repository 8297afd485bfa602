"""What the log does not hold and is counted all the same: attempts at a model call that were made again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.claude.client import Claude
from bot.core.item import Message, said
from bot.engine.ports import ModelFailure, ModelRequest
from bot.lab.messages_script import InOrder, Status, Turn
from bot.lab.messages_server import API_KEY, ScriptedMessages
from bot.lab.twins import Says, Silent
from tests.telemetry.traced import Traced, attributes

REQUEST = ModelRequest("claude-sonnet-5-5", "You help.", [], [Message("user", (said("user", "why?"),))], 500, "t")


@pytest.mark.wire
@pytest.mark.parametrize(
    ("first", "kind"),
    [(Status(529, "overloaded_error"), "overloaded_error"), (Status(500, "invented_tomorrow"), "http_500")],
)
async def test_a_free_attempt_that_is_made_again_is_noted_with_its_kind(first: Any, kind: str) -> None:
    """A word of a small set, so that it can be counted; a service's new words make no new metrics."""
    tracer = Silent()
    async with ScriptedMessages(InOrder([first, Turn("Because.")])) as api:
        client = Claude(api_key=API_KEY, base_url=api.url, tracer=tracer)
        await client.ask(REQUEST, datetime.now(UTC) + timedelta(seconds=20))
        await client.close()

    assert [(name, fields["kind"], fields["thread"]) for name, fields in tracer.notes] == [("model.retry", kind, "t")]


async def test_a_lost_attempt_is_a_failed_span_and_a_retry_that_is_counted() -> None:
    """Reserved anew, and the second one answered: both stand in the same turn."""
    traced = Traced([ModelFailure("cut off", kind="lost"), Says("Nothing.")])
    await traced.world.says("What do we owe?")
    settling = asyncio.create_task(traced.world.settle())
    for _ in range(1000):  # the pause before the next attempt stands still until time is moved on
        await asyncio.sleep(0)
        traced.world.clock.advance(0.001)
    await asyncio.wait_for(settling, 5)

    page = traced.tracer.measures.text(approvals_waiting=None)
    assert [attributes(one).get("error.type") for one in traced.named("chat")] == ["lost", None]
    assert traced.tree() == ["invoke_agent plimsoll", " turn", *["  chat claude-sonnet-5-5"] * 2]
    assert 'plimsoll_model_retries_total{kind="lost"} 1' in page.splitlines()
