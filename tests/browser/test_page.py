"""The trial page in a real browser: all three roles, on a desk and on a phone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession
from playwright.async_api import Page, expect

from bot.lab.slack_page import add_page
from bot.lab.story_brain import QUESTIONS
from tests.live import Live, live

pytestmark = pytest.mark.wire


@contextlib.asynccontextmanager
async def _trial(home: Path) -> AsyncIterator[Live]:
    """Everything as `plimsoll try` has it."""

    async def audit(thread: str) -> str:
        _, told = await world.command("audit", "show", f"T0PLIMSOLL/{thread}")
        return told

    async with live(home, prepare=lambda slack: add_page(slack, suggestions=QUESTIONS, audit=audit)) as world:
        yield world


async def test_one_person_plays_asker_approver_and_auditor(tmp_path: Path, page: Page) -> None:
    """Ask, be refused as Mallory, approve as Carol, read the log as Erin."""
    async with _trial(tmp_path) as world:
        await world.start()
        await page.goto(world.slack.url)
        await expect(page.get_by_text("The model is scripted")).to_be_visible()

        await page.get_by_role("button", name=QUESTIONS[0]).click()
        await page.get_by_role("button", name="Mallory").click()
        await page.get_by_role("button", name="Approve", exact=True).click(timeout=15_000)
        await expect(page.get_by_text("Nothing was decided")).to_be_visible()
        await page.get_by_role("button", name="Carol approves").click()
        await expect(page.get_by_text("Nothing was decided")).to_have_count(0)
        await page.get_by_role("button", name="Approve", exact=True).click()
        await expect(page.get_by_text("The ledger shows it")).to_be_visible(timeout=15_000)
        await page.get_by_role("button", name="Erin audits").click()
        await page.get_by_role("button", name="Audit this thread").click()

        await expect(page.locator("#log")).to_contain_text("WHOLE", timeout=15_000)
        await expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


async def test_a_card_fits_a_phone(tmp_path: Path, page: Page) -> None:
    """No sideways scrolling; the buttons can be reached."""
    async with _trial(tmp_path) as world:
        await world.start()
        await page.set_viewport_size({"width": 360, "height": 740})
        await page.goto(world.slack.url)
        await page.get_by_role("button", name=QUESTIONS[0]).click()
        await page.get_by_role("button", name="Carol approves").click()
        approve = page.get_by_role("button", name="Approve", exact=True)
        await approve.scroll_into_view_if_needed(timeout=15_000)

        width = await page.evaluate("document.documentElement.scrollWidth")

        assert width <= 360
        await expect(approve).to_be_visible()


async def test_a_hostile_message_stays_text(tmp_path: Path, page: Page) -> None:
    """Markup of a message is no markup of the page."""
    hostile = "<img src=x onerror=document.title='owned'> </p><script>document.title='owned'</script> &lt;b&gt; *bold*"
    async with _trial(tmp_path) as world:
        await page.goto(world.slack.url)
        await world.slack.say("U0ALICE", hostile)
        await expect(page.get_by_text("<img src=x")).to_be_visible()

        assert await page.title() == "Plimsoll to try"
        assert await page.locator("article img, article script").count() == 0
        await expect(page.locator("article b", has_text="bold")).to_be_visible()


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Content-Type": "text/plain"}],
    ids=["origin", "host", "form"],
)
async def test_another_site_cannot_drive_the_page(tmp_path: Path, headers: dict[str, str]) -> None:
    """It knows nobody's password, and it would not need one."""
    async with _trial(tmp_path) as world, ClientSession() as session:
        given = {"Content-Type": "application/json"} | headers
        body = '{"what": "say", "user": "U0ALICE", "channel": "C0SUPPORT", "text": "hi"}'

        answer = await session.post(f"{world.slack.url}/page/act", data=body, headers=given)

        assert answer.status == 403
        assert world.slack.messages() == []
