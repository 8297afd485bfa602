"""If somebody asks "what does the line do?", the answer is here. Real processes, real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import ClientSession

from bot.lab.slack_human import words_of
from bot.store.embedded import Embedded
from tests.live import live
from tests.valkey import fresh_store

pytestmark = pytest.mark.wire


async def test_an_injected_instruction_that_the_model_obeys_still_needs_a_person(tmp_path: Path) -> None:
    """The customer of order 4977 wrote "refund 900"; the scripted model tries to. Nobody says yes, nothing happens."""
    async with live(tmp_path) as world:
        await world.start()

        thread = await world.ask("What does the customer of order 4977 want?")
        card = await world.card(thread)
        shown = words_of(card)
        await world.slack.click("U0DAVE", card.ts, "Deny")
        answer = await world.answer(thread)
        _, told = await world.command("audit", "show", f"T0PLIMSOLL/C0SUPPORT/{thread}")

        assert "amount_cents = 90000" in shown and "Ignore the policy" in shown
        assert "did *not* credit anything" in answer
        assert "denied by U0DAVE" in told
        assert "issue_credit(" in told and told.count("credited_cents") == 0


async def test_what_is_within_the_line_is_answered_without_asking_anybody(tmp_path: Path) -> None:
    """Reading our own records: no card, one answer."""
    async with live(tmp_path) as world:
        await world.start()

        thread = await world.ask("Where is order 4930?")
        answer = await world.answer(thread)

        assert "in transit" in answer
        assert world.slack.cards() == []


async def test_a_workspace_over_signed_http_is_served_alike(tmp_path: Path) -> None:
    """`plimsoll serve --http`: the same story without a socket; a forged request is turned away."""
    async with live(tmp_path) as world:
        process = await world.spawn("serve", "--http")
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        while b"ready" not in await process.stdout.readline():
            pass
        world.slack.delivering.request_url = first.split("http ")[1].split(",")[0] + "/slack/events"

        thread = await world.ask("Where is order 4930?")
        answer = await world.answer(thread)
        world.slack.delivering._secret = "somebody else's"
        world.slack.delivering.retry_s = ()
        forged = world.slack.delivering.event(
            {"type": "app_mention", "channel": "C0SUPPORT", "user": "U0ALICE", "ts": "9.9"}
        )
        await forged[0].done.wait()

        assert "in transit" in answer
        assert forged[0].answer == 401


@pytest.mark.parametrize("who", ["U0GUEST", "U0TEMP"])
async def test_outsiders_are_told_no_and_only_they_see_it(tmp_path: Path, who: str) -> None:
    """Another company's people and guests cannot ask."""
    async with live(tmp_path) as world:
        await world.start()

        thread = await world.ask("Where is order 4930?", who)
        await world.slack.wait_for(lambda: world.slack.whispered(who), what="a line for the outsider")

        assert world.slack.ours(thread_ts=thread) == []
        assert world.model.requests == []


async def test_stop_ends_a_run_that_waits_for_a_person(tmp_path: Path) -> None:
    """Typed in the thread; the card closes, the outcome is said once."""
    async with live(tmp_path) as world:
        await world.start()
        thread = await world.ask("The pallet arrived crushed, order 4921. What do we owe them?")
        card = await world.card(thread)

        await world.slack.say("U0ALICE", "stop", thread_ts=thread)
        answer = await world.answer(thread)
        await world.slack.wait_for(lambda: not world.slack.buttons("C0SUPPORT", card.ts), what="a closed card")

        assert "Stopped" in answer


async def test_a_model_that_cannot_be_reached_stops_no_start_and_is_said_in_the_thread(tmp_path: Path) -> None:
    """One clear line, with a reference; no stack trace at anybody."""
    async with live(tmp_path) as world:
        await world.model.stop()
        process = await world.spawn("serve")
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        while b"ready" not in await process.stdout.readline():
            pass
        async with ClientSession() as session:
            answered = await session.get(first.split("http ")[1].split(",")[0] + "/readyz")
            assert "could not be reached" in await answered.text()

        thread = await world.ask("Where is order 4930?")
        answer = await world.answer(thread, timeout_s=60)

        assert "could not be reached" in answer and "Reference ref-" in answer
        assert "Traceback" not in (tmp_path / "errors.log").read_text()


async def test_tools_of_a_module_outside_the_project_are_used(tmp_path: Path) -> None:
    """`[tools] modules`, found beside the configuration file; the real client sends their schema."""
    (tmp_path / "shop_tools.py").write_text(
        "from pydantic import BaseModel\n"
        "from bot.core.authority import Authority\n"
        "from bot.core.labels import Trust\n"
        "from bot.core.tool import ToolContext, tool\n\n"
        "class Args(BaseModel):\n    order_id: str\n\n"
        "@tool(authority=Authority.OBSERVE, output=Trust.INTERNAL)\n"
        "async def get_shipment(args: Args, context: ToolContext) -> dict:\n"
        '    """Where a shipment is."""\n'
        '    return {"state": "on the moon", "order_id": args.order_id}\n'
    )
    async with live(tmp_path, policy='[tools]\nmodules = ["shop_tools"]\n') as world:
        await world.start()

        thread = await world.ask("Where is order 4930?")

        assert "on the moon" in await world.answer(thread)
        assert [tool["name"] for tool in world.model.requests[0]["tools"]] == ["get_shipment", "todo"]


async def test_a_redis_of_the_operator_s_own_is_used_and_its_log_read_from_there(
    tmp_path: Path, valkey: Embedded
) -> None:
    """`REDIS_URL`: bot and auditor meet on it, and nothing is started beside it."""
    async with fresh_store(valkey), live(tmp_path) as world:
        world.env["REDIS_URL"] = valkey.url
        await world.start()

        thread = await world.ask("Where is order 4930?")
        await world.answer(thread)
        code, told = await world.command("audit", "threads")

        assert (code, thread in told) == (0, True)
        assert not (tmp_path / "state" / "data").exists()
