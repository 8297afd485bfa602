"""The local workspace is as strict as Slack: sizes, shapes, tokens, rates, and deliveries that come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, WSServerHandshakeError

from bot.lab.slack_limits import Rates, block_faults, message_faults
from bot.lab.slack_server import APP_TOKEN, BOT_TOKEN, LocalSlack


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _button(**fields: Any) -> dict[str, Any]:
    return {"type": "button", "text": {"type": "plain_text", "text": "Go"}, "action_id": "a", "value": "v"} | fields


def _actions(*elements: Any) -> dict[str, Any]:
    return {"type": "actions", "elements": list(elements)}


@pytest.mark.parametrize(
    ("method", "call", "error"),
    [
        ("chat.postMessage", {}, "no_text"),
        ("chat.postMessage", {"text": "x" * 40_001}, "msg_too_long"),
        ("chat.update", {"text": "x" * 4_001}, "msg_too_long"),
        ("chat.postMessage", {"markdown_text": "x", "text": "x"}, "markdown_text_conflict"),
        ("chat.postMessage", {"markdown_text": "x" * 12_001}, "msg_too_long"),
        ("chat.postMessage", {"text": "x", "blocks": "odd"}, "invalid_blocks_format"),
        ("chat.postMessage", {"text": "x", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        ("chat.postMessage", {"blocks": [{"type": "markdown", "text": "x" * 7_000}] * 2}, "msg_blocks_too_long"),
        ("chat.postMessage", {"text": "x", "metadata": {"event_type": 1}}, "invalid_metadata_format"),
    ],
)
def test_a_message_that_slack_refuses_is_refused(method: str, call: dict[str, Any], error: str) -> None:
    """By Slack's own word."""
    found = message_faults(method, call)

    assert found is not None and found[0] == error


@pytest.mark.parametrize(
    ("block", "pointer"),
    [
        ({"type": "hologram"}, "/blocks/0/type"),
        (_section("x" * 3_001), "/blocks/0/text/text"),
        (_section(""), "/blocks/0/text/text"),
        ({"type": "section"}, "/blocks/0"),
        ({"type": "header", "text": {"type": "mrkdwn", "text": "x"}}, "/blocks/0/text"),
        ({"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}, "/blocks/0/text/text"),
        (_actions(), "/blocks/0/elements"),
        (_actions(_button(), _button()), "/blocks/0/elements/1/action_id"),
        (_actions(_button(value="x" * 2_001)), "/blocks/0/elements/0/value"),
        (_actions(_button(style="loud")), "/blocks/0/elements/0/style"),
        ({**_section("x"), "block_id": "x" * 256}, "/blocks/0/block_id"),
        ({"type": "markdown", "text": ""}, "/blocks/0/text"),
        ({"type": "context", "elements": []}, "/blocks/0/elements"),
        ({"type": "table", "rows": [[{"type": "raw_text", "text": ""}]]}, "/blocks/0/rows"),
        ({"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]] * 101}, "/blocks/0/rows"),
        ({"type": "rich_text"}, "/blocks/0/elements"),
    ],
)
def test_a_block_that_slack_refuses_is_named_by_its_place(block: dict[str, Any], pointer: str) -> None:
    """As `response_metadata.messages` does."""
    [fault] = block_faults([block])

    assert f"json-pointer:{pointer}]" in fault


def test_a_channel_takes_a_burst_and_then_a_post_a_second() -> None:
    """Other channels are not held up; without rates nothing is."""
    now = [0.0]
    rates = Rates(on=True, now=lambda: now[0])

    burst = [rates.wait_s("chat.postMessage", "C1") for _ in range(6)]
    now[0] += 1.0

    assert burst == [0, 0, 0, 0, 1, 1]
    assert (rates.wait_s("chat.postMessage", "C1"), rates.wait_s("chat.postMessage", "C2")) == (0, 0)
    assert Rates().wait_s("chat.postMessage", "C1") == 0


@pytest.fixture
async def slack() -> AsyncIterator[LocalSlack]:
    """A workspace and nobody on it."""
    async with LocalSlack() as found:
        yield found


async def _call(slack: LocalSlack, method: str, token: str = BOT_TOKEN, **arguments: Any) -> dict[str, Any]:
    async with ClientSession() as session:
        headers = {"Authorization": f"Bearer {token}"}
        answer = await session.post(f"{slack.api_url}{method}", json=arguments, headers=headers)
        found: dict[str, Any] = await answer.json()
        return found


@pytest.mark.wire
@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("chat.postMessage", {"channel": "C0NONE", "text": "x"}, "channel_not_found"),
        ("chat.postMessage", {"channel": "C0PRIVATE", "text": "x"}, "not_in_channel"),
        ("chat.update", {"channel": "C0SUPPORT", "ts": "1.1", "text": "x"}, "message_not_found"),
        ("chat.startStream", {"channel": "C0SUPPORT", "thread_ts": "1.1"}, "missing_recipient_team_id"),
        ("users.info", {"user": "U0NOBODY"}, "user_not_found"),
        ("usergroups.users.list", {"usergroup": "S0NONE"}, "no_such_subteam"),
        ("agents.sessions.setStatus", {"channel_id": "C0SUPPORT", "status": "sleepy"}, "invalid_arguments"),
        ("chat.teleport", {}, "unknown_method"),
    ],
)
async def test_the_web_api_says_no_as_slack_does(
    slack: LocalSlack, method: str, arguments: dict[str, Any], error: str
) -> None:
    """`ok: false`, status 200."""
    answer = await _call(slack, method, **arguments)

    assert (answer["ok"], answer["error"]) == (False, error)


@pytest.mark.wire
async def test_tokens_open_only_their_own_doors(slack: LocalSlack) -> None:
    """The bot's for methods, the app's for sockets."""
    assert (await _call(slack, "auth.test", token="xoxb-wrong"))["error"] == "invalid_auth"
    assert (await _call(slack, "auth.test", token=""))["error"] == "not_authed"
    assert (await _call(slack, "apps.connections.open"))["error"] == "not_allowed_token_type"
    assert (await _call(slack, "apps.connections.open", token=APP_TOKEN))["url"].startswith("ws://127.0.0.1:")
    slack.missing_scopes.add("users.info")
    assert (await _call(slack, "users.info", user="U0BOB"))["error"] == "missing_scope"


@pytest.mark.wire
async def test_a_delivery_without_an_acknowledgement_comes_again_with_its_number(slack: LocalSlack) -> None:
    """Up to three times, then it is given up; an acknowledged one never comes again."""
    slack.delivering.ack_s, slack.delivering.retry_s = 0.1, (0.0, 0.0, 0.0)
    link = (await _call(slack, "apps.connections.open", token=APP_TOKEN))["url"]
    async with ClientSession() as session, session.ws_connect(link) as socket:
        assert (await socket.receive_json())["type"] == "hello"
        await slack.say("U0ALICE", "hello")
        attempts = [(await socket.receive_json())["retry_attempt"] for _ in range(4)]
        await slack.delivering.all[0].done.wait()
        await slack.say("U0ALICE", "again")
        frame = await socket.receive_json()
        await socket.send_json({"envelope_id": frame["envelope_id"]})
        await slack.delivering.all[1].done.wait()

    assert attempts == [0, 1, 2, 3]
    assert (slack.delivering.all[0].gave_up, slack.delivering.all[1].acked) == (True, True)
    assert slack.delivering.all[1].attempts == 1


@pytest.mark.wire
async def test_another_site_in_a_browser_gets_neither_messages_nor_methods(slack: LocalSlack) -> None:
    """The lab's tokens are public, and it listens on the machine of somebody who also browses."""
    link = (await _call(slack, "apps.connections.open", token=APP_TOKEN))["url"]
    evil = {"Origin": "https://evil.example", "Authorization": f"Bearer {BOT_TOKEN}"}
    async with ClientSession() as session:
        posted = await session.post(f"{slack.api_url}auth.test", headers=evil)
        rebound = await session.post(f"{slack.api_url}auth.test", headers={"Host": "evil.example"})
        for url, headers in ((link, evil), (f"{slack.url}/link", {}), (f"{slack.url}/link?ticket=lab", {})):
            with pytest.raises(WSServerHandshakeError):
                await session.ws_connect(url, headers=headers)

    assert (posted.status, rebound.status) == (403, 403)


@pytest.mark.wire
async def test_a_click_that_finds_nobody_is_lost_and_a_line_that_breaks_loses_no_event(slack: LocalSlack) -> None:
    """As in Slack: events come again, a person clicks again."""
    ts = (await _call(slack, "chat.postMessage", channel="C0SUPPORT", text="x", blocks=[_actions(_button())]))["ts"]
    click = await slack.click("U0CAROL", ts, "Go")
    await click.done.wait()
    for _ in range(5):
        link = (await _call(slack, "apps.connections.open", token=APP_TOKEN))["url"]
        async with ClientSession() as session, session.ws_connect(link):
            await slack.delivering.connected()
        await slack.delivering.abort()
    slack.delivering.retry_s = (0.0, 0.0, 0.0)
    waiting = slack.delivering.event({"type": "message", "text": "hello"})[0]
    link = (await _call(slack, "apps.connections.open", token=APP_TOKEN))["url"]
    async with ClientSession() as session, session.ws_connect(link) as socket:
        await socket.receive_json()
        frame = await socket.receive_json()
        while frame["envelope_id"] != waiting.envelope_id:
            frame = await socket.receive_json()
        await socket.send_json({"envelope_id": frame["envelope_id"]})
        await waiting.done.wait()

    assert (click.gave_up, waiting.acked) == (True, True)


@pytest.mark.wire
async def test_people_see_only_buttons_that_are_there(slack: LocalSlack) -> None:
    """A phone cannot click what a card no longer shows."""
    card = {
        "channel": "C0SUPPORT",
        "text": "x",
        "blocks": [_actions(_button(text={"type": "plain_text", "text": "Approve"}))],
    }
    ts = (await _call(slack, "chat.postMessage", **card))["ts"]
    await _call(slack, "chat.update", channel="C0SUPPORT", ts=ts, text="done")

    with pytest.raises(AssertionError, match="shows no button"):
        await slack.click("U0CAROL", ts, "Approve")
    with pytest.raises(AssertionError, match="did not come"):
        await asyncio.wait_for(slack.wait_for(lambda: False, 0.1), 2)
