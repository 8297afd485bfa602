"""The promise of the product, as a user meets it: ask, hit the line, approve, answer, audit.

Through the real parts: Bolt over a socket, the anthropic client over HTTP, a real Valkey, each in its own process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.lab.slack_human import words_of
from tests.live import live

pytestmark = pytest.mark.wire
QUESTION = "The pallet arrived crushed, three units unusable, order 4921. What do we owe them?"


async def test_a_credit_is_asked_for_approved_once_issued_once_and_proved(tmp_path: Path) -> None:
    """The whole story, with every Slack event delivered twice and a restart between the card and the click."""
    async with live(tmp_path) as world:
        world.slack.delivering.duplicate = 2
        bot = await world.start()
        thread = await world.ask(QUESTION)
        card = await world.card(thread)
        shown = words_of(card)
        assert "amount_cents = 19500" in shown and 'order_id = "4921"' in shown

        await world.stop(bot)
        await world.start()
        await world.slack.click("U0MALLORY", card.ts, "Approve")
        await world.slack.wait_for(lambda: world.slack.whispered("U0MALLORY"), what="a refusal")
        await world.slack.click("U0CAROL", card.ts, "Approve")
        answer = await world.answer(thread)

        assert "195.00 EUR" in answer and "The ledger shows it." in answer
        assert world.slack.buttons("C0SUPPORT", card.ts) == []
        assert len([post for post in world.slack.ours(thread_ts=thread) if "Reference ref-" in words_of(post)]) == 1
        code, told = await world.command("audit", "show", f"T0PLIMSOLL/C0SUPPORT/{thread}")
        assert code == 0
        assert told.count("idempotency key") == told.count("ToolStarted")
        assert "U0MALLORY on apr-" in told and "approved by U0CAROL" in told and "WHOLE" in told
