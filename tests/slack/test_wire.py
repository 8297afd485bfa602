"""The Slack storey over real sockets: the real Bolt and SDK against the local workspace."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientSession

from bot.core.effects import Answer, Card, CardCall, Notice, SessionStatus, Whisper
from bot.core.errors import OutsideFailed
from bot.core.policy import ApproverRule
from bot.core.words import ThreadId
from bot.engine.ports import Piece
from bot.lab.slack_faults import Broken, Fails, Limited, Lost
from bot.lab.slack_server import BOT_TOKEN, LocalSlack
from bot.lab.slack_state import Human
from bot.slack.calls import make_client
from bot.slack.listeners import connect
from bot.slack.surface import HISTORY_CHARACTERS
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


@pytest.mark.parametrize("elsewhere", [False, True], ids=["thread", "channel"])
async def test_a_look_up_that_fails_in_passing_is_no_reason_to_post_again(floor: Floor, elsewhere: bool) -> None:
    """Only where we have no right to read is there nothing to wait for."""
    thread = await _root(floor)
    piece = Piece("n1", "post", {"text": "hello"}, thread.channel if elsewhere else "")
    method = "conversations.history" if elsewhere else "conversations.replies"
    ts = await floor.surface.post(thread, piece)
    floor.slack.faults.next(method, Fails("internal_error"), Fails("missing_scope"), Limited(1))

    with pytest.raises(OutsideFailed) as failed:
        await floor.surface.find(thread, piece)

    assert failed.value.retryable
    assert await floor.surface.find(thread, piece) is None
    assert await floor.surface.find(thread, piece) == ts


async def test_a_card_of_which_slack_refused_a_part_cannot_be_decided(floor: Floor) -> None:
    """Neither at first nor when it is shown again: nobody decides about what they were not shown."""
    thread = await _root(floor)
    call = CardCall(
        approval_id="apr-1", tool="pay", authority="critical", arguments={"note": "x" * 13_000}, digest="d" * 64
    )
    card = Card(
        key="c", asker="U0ALICE", why="w", approvers=["U0CAROL"], expires_at="2026-12-02T09:00:00Z", calls=[call]
    )
    pieces = floor.surface.render(thread, card, {})
    assert ["actions" in str(piece.body) for piece in pieces] == [False, False, True]

    posted = [await floor.surface.post(thread, pieces[0])]
    floor.slack.faults.next("chat.postMessage", Fails("invalid_blocks"))
    posted += [await floor.surface.post(thread, piece) for piece in pieces[1:]]
    await floor.surface.update(thread, posted[2], pieces[2])

    for ts in posted:
        assert floor.slack.buttons(thread.channel, ts) == []
    assert "cannot be decided here" in str(floor.slack.ours(thread_ts=thread.root_ts)[2].blocks)


async def test_a_refused_card_with_its_buttons_says_that_it_cannot_be_decided(floor: Floor) -> None:
    """In the text that takes its place."""
    thread = await _root(floor)
    button = {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Approve"}}]}
    floor.slack.faults.next("chat.postMessage", Fails("msg_too_long"))

    await floor.surface.post(thread, Piece("c", "post", {"text": "pay 5", "blocks": [button]}))

    [post] = floor.slack.ours(thread_ts=thread.root_ts)
    assert "cannot be decided here" in post.text and post.text.endswith("pay 5")


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


async def test_asking_who_may_decide_waits_out_slack_s_rates(floor: Floor) -> None:
    """A limit is no reason to say that nobody may."""
    floor.slack.workspace.groups["S0LEADS"] = ["U0CAROL", "U0DAVE"]
    floor.slack.faults.next("usergroups.users.list", Limited(1))
    floor.slack.faults.next("users.info", Limited(1), Limited(1))

    assert await floor.people.approvers(ApproverRule(groups=("S0LEADS",))) == {"U0CAROL", "U0DAVE"}


async def test_earlier_messages_are_bounded_and_hold_no_news_of_who_came(floor: Floor) -> None:
    """By their characters too; the root and the newest come first."""
    thread = await _root(floor)
    await floor.slack.say("U0BOB", "joined", thread_ts=thread.root_ts, subtype="channel_join")
    for number in range(5):
        await floor.slack.say("U0BOB", f"{number} " + "x" * 19_990, thread_ts=thread.root_ts)
    last = await floor.slack.say("U0ALICE", "<@U0BOT> what was decided?", thread_ts=thread.root_ts)

    messages, left_out = await floor.surface.history(thread, last)

    assert [one["text"][:2] for one in messages] == ["a ", "2 ", "3 ", "4 "]
    assert left_out == 2
    assert sum(len(one["text"]) for one in messages) <= HISTORY_CHARACTERS


async def test_an_app_token_of_another_kind_is_refused_before_slack_is_asked(floor: Floor) -> None:
    """In one line."""
    floor.ingress._app_token = "xoxb-mixed-up"

    with pytest.raises(OutsideFailed, match="must start with xapp-"):
        await floor.ingress.start()

    assert floor.slack.called("apps.connections.open") == []


async def test_loopback_is_never_asked_through_a_proxy(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says; everything else obeys it."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with ClientSession() as session:
        assert (await make_client(BOT_TOKEN, floor.slack.api_url, session).auth_test())["ok"]
        assert make_client("xoxb-x", "https://slack.example/api/", session).proxy == "http://127.0.0.1:9"


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
