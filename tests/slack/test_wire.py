"""The Slack storey over real sockets: the real Bolt and SDK against the local workspace."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientSession

from bot.core.effects import Answer, Notice, SessionStatus, Whisper
from bot.core.errors import OutsideFailed
from bot.core.policy import ApproverRule
from bot.core.words import ThreadId
from bot.lab.slack_faults import Broken, Fails, Limited, Lost
from bot.lab.slack_server import LocalSlack
from bot.lab.slack_state import Human
from bot.slack.listeners import connect
from tests.slack.conftest import Floor

pytestmark = pytest.mark.wire


async def _root(floor: Floor) -> ThreadId:
    return ThreadId("T0PLIMSOLL", "C0SUPPORT", await floor.slack.say("U0ALICE", "a question"))


async def test_a_mention_in_either_order_and_thrice_is_one_message(floor: Floor) -> None:
    """In the inbox before Slack is told."""
    await floor.ingress.start()
    floor.slack.delivering.duplicate = 3
    for _ in range(2):  # the workspace alternates which copy comes first
        await floor.slack.say("U0ALICE", "<@U0BOT> where is 4921?")
    for delivery in floor.slack.delivering.all:
        await delivery.done.wait()

    assert len(floor.slack.delivering.all) == 12
    assert all(delivery.acked for delivery in floor.slack.delivering.all)
    assert [item.body["text"] for item in floor.waiting] == ["where is 4921?"] * 2


async def test_what_cannot_be_stored_is_not_acknowledged_and_comes_again(floor: Floor) -> None:
    """The store is away; once it is back nothing is missing."""
    await floor.ingress.start()
    floor.slack.delivering.ack_s, floor.slack.delivering.retry_s = 0.2, (0.2, 0.2, 0.2)
    floor.store.memory.away = True
    await floor.slack.say("U0ALICE", "<@U0BOT> hello")
    [first, *_] = floor.slack.delivering.all
    while first.attempts < 2:
        await floor.slack.workspace.wait_past(10**9, 0.05)
    floor.store.memory.away = False
    await first.done.wait()

    assert first.acked
    assert len(floor.waiting) == 1


async def test_a_new_socket_is_opened_when_slack_asks_and_when_it_breaks(floor: Floor) -> None:
    """Nothing is lost in between."""
    await floor.ingress.start()
    await floor.slack.delivering.connected()
    await floor.slack.delivering.disconnect()
    await floor.slack.say("U0ALICE", "<@U0BOT> one")
    for delivery in list(floor.slack.delivering.all):
        await delivery.done.wait()

    assert len(floor.waiting) == 1
    assert await floor.ingress.healthy()


async def test_a_post_of_unknown_outcome_is_found_by_its_marker(floor: Floor) -> None:
    """The reply was lost; the message is there."""
    thread = await _root(floor)
    [piece] = floor.surface.render(thread, Notice(key="n1", text="hello"), {})
    floor.slack.faults.next("chat.postMessage", Lost(after=True))

    with pytest.raises(OutsideFailed) as lost:
        await floor.surface.post(thread, piece)
    found = await floor.surface.find(thread, piece)

    assert lost.value.retryable
    assert found == floor.slack.ours(thread_ts=thread.root_ts)[0].ts
    [other] = floor.surface.render(thread, Notice(key="n2", text="hello"), {})
    assert await floor.surface.find(thread, other) is None


async def test_everything_we_write_is_in_the_thread_marked_and_never_unfurled(floor: Floor) -> None:
    """On every post and update."""
    thread = await _root(floor)
    answer = Answer(
        key="a", outcome="answered", stop_reason="end_turn", text="x " * 9000, by_model=True, asker="U0ALICE"
    )
    for piece in floor.surface.render(thread, answer, {}):
        await floor.surface.update(thread, await floor.surface.post(thread, piece), piece)

    posts = floor.slack.called("chat.postMessage")
    assert len(posts) > 1
    for call in posts:
        assert call.arguments["thread_ts"] == thread.root_ts
        assert (call.arguments["unfurl_links"], call.arguments["unfurl_media"]) == (False, False)
        assert call.arguments["metadata"]["event_payload"]["key"].startswith("a")


async def test_a_rate_limit_is_waited_out_and_a_refusal_of_shape_is_said_plainly(floor: Floor) -> None:
    """Once each."""
    thread = await _root(floor)
    [piece] = floor.surface.render(thread, Notice(key="n1", text="hello"), {})
    floor.slack.faults.next("chat.postMessage", Limited(1), Fails("invalid_blocks"))

    await floor.surface.post(thread, piece)

    [post] = floor.slack.ours(thread_ts=thread.root_ts)
    assert (post.text, post.blocks) == ("hello", [])


@pytest.mark.parametrize(
    ("fault", "retryable"),
    [
        (Broken(503), True),
        (Broken(200), True),
        (Fails("fatal_error"), True),
        (Fails("channel_not_found"), False),
        (Lost(False), True),
    ],
)
async def test_failures_say_whether_it_may_have_happened(floor: Floor, fault: Any, retryable: bool) -> None:
    """One line, with Slack's own word."""
    thread = await _root(floor)
    [piece] = floor.surface.render(thread, Notice(key="n1", text="hello"), {})
    floor.slack.faults.next("chat.postMessage", fault)

    with pytest.raises(OutsideFailed) as failed:
        await floor.surface.post(thread, piece)

    assert failed.value.retryable is retryable
    assert "chat.postMessage" in str(failed.value) and "\n" not in str(failed.value)


async def test_a_status_that_slack_does_not_take_is_noted_and_nothing_waits_for_it(floor: Floor) -> None:
    """Whatever the reason."""
    thread = await _root(floor)
    [piece] = floor.surface.render(thread, SessionStatus(key="status", status="processing"), {})
    for fault in (Fails("not_authorized"), Fails("internal_error"), Broken(503), Lost()):
        floor.slack.faults.next("agents.sessions.setStatus", fault)
        assert await floor.surface.post(thread, piece) == ""
    await floor.surface.post(thread, piece)

    assert floor.slack.workspace.statuses["C0SUPPORT", thread.root_ts] == "processing"


async def test_a_whisper_is_seen_by_one(floor: Floor) -> None:
    """In the thread."""
    thread = await _root(floor)
    [piece] = floor.surface.render(thread, Whisper(key="w", user="U0MALLORY", text="no"), {})
    await floor.surface.post(thread, piece)

    assert floor.slack.whispered("U0MALLORY") == ["no"]


async def test_who_somebody_is_comes_from_the_workspace(floor: Floor) -> None:
    """Guests, strangers, bots and the deactivated are no members; one odd id harms no other approver."""
    floor.slack.workspace.people["U0GONE"] = Human("U0GONE", "Gone", deleted=True)
    floor.slack.workspace.groups["S0LEADS"] = ["U0CAROL", "U0TEMP", "U0OTHERBOT", "U0GONE", "U0GUEST"]
    rule = ApproverRule(users=("U0DAVE", "U0NOBODY"), groups=("S0LEADS", "S0NONE"))

    assert await floor.people.approvers(rule) == {"U0CAROL", "U0DAVE"}
    assert (await floor.people.lookup("U0GUEST")).is_external
    assert (await floor.people.lookup("U0TEMP")).is_guest
    floor.slack.faults.next("users.info", Broken(503))
    assert (await floor.people.lookup("U0CAROL")).is_member
    floor.slack.faults.next("users.info", Broken(503), Broken(503))
    with pytest.raises(OutsideFailed):
        await floor.people.lookup("U0CAROL")


async def test_earlier_messages_keep_the_root_and_the_newest_and_say_how_many_are_missing(floor: Floor) -> None:
    """Paged, bounded, our own left out."""
    thread = await _root(floor)
    for number in range(260):
        await floor.slack.say("U0BOB", f"message {number}", thread_ts=thread.root_ts)
    last = await floor.slack.say("U0ALICE", "<@U0BOT> what was decided?", thread_ts=thread.root_ts)

    messages, left_out = await floor.surface.history(thread, last)

    assert (len(messages), left_out) == (200, 61)
    assert messages[0]["text"] == "a question" and messages[-1]["text"] == "message 259"


@pytest.mark.parametrize(
    ("token", "said"), [("xoxb-wrong", "the token is not valid"), ("xoxp-user", "xoxb-"), ("", "xoxb-")]
)
async def test_a_wrong_token_is_one_clear_line(token: str, said: str) -> None:
    """And is not shown."""
    async with LocalSlack() as slack, ClientSession() as session:
        with pytest.raises(OutsideFailed) as failed:
            await connect(session, token, slack.api_url)

    assert said in str(failed.value)
    assert not token or token not in str(failed.value)
