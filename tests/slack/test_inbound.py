"""What Slack delivers, and what we make of it; the claim that makes two deliveries one message."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.slack.inbound import Drop, Enqueue, Us, read

US = Us("T0PLIMSOLL", "U0BOT", "B0BOT", "A0PLIMSOLL")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def _body(**event: Any) -> dict[str, Any]:
    given = {
        "type": "message",
        "channel": "C0SUPPORT",
        "user": "U0ALICE",
        "ts": "5.000100",
        "text": "hi",
        "team": "T0PLIMSOLL",
    }
    return {"type": "event_callback", "api_app_id": "A0PLIMSOLL", "event_id": "Ev1", "event": given | event}


def _taken(**event: Any) -> Enqueue:
    found = read(_body(**event), US)
    assert isinstance(found, Enqueue), found
    return found


def _dropped(**event: Any) -> str:
    found = read(_body(**event), US)
    assert isinstance(found, Drop), found
    return found.reason


@pytest.mark.parametrize("text", ["<@U0BOT> where is 4921?", "where is 4921, <@U0BOT|plimsoll>?"])
def test_both_copies_of_a_mention_are_one_message(text: str) -> None:
    """Other event id, other type, either order: the same claim, the same item, decided from the text."""
    one, other = _taken(text=text), _taken(text=text, type="app_mention")

    assert one == other
    assert one.item.body["mentions_us"] is True
    assert one.only_known is False
    assert "U0BOT" not in one.item.body["text"]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"text": "just talk"}, "neither a mention"),
        ({"user": "U0BOT", "text": "<@U0BOT> me"}, "our own"),
        ({"bot_id": "B0BOT", "text": "<@U0BOT>"}, "our own"),
        ({"subtype": "channel_join"}, "no message of a person"),
        ({"subtype": ["odd"]}, "no message of a person"),
        ({"type": "reaction_added"}, "not for us"),
        ({"type": "app_mention", "text": "<@U0BOT> x", "edited": {"ts": "6.0"}}, "comes as a change"),
        ({"ts": "yesterday", "text": "<@U0BOT>"}, "no channel and ts"),
        (
            {"subtype": "message_changed", "message": {"ts": "5.1", "text": "a"}, "previous_message": {"text": "a"}},
            "unchanged",
        ),
        ({"subtype": "message_changed"}, "without its messages"),
        ({"subtype": "message_deleted", "deleted_ts": "5.1", "previous_message": {"bot_id": "B0BOT"}}, "our own"),
    ],
)
def test_what_is_not_for_us_is_dropped_with_its_reason(event: dict[str, Any], reason: str) -> None:
    """Nothing is stored, and Slack is told that it arrived."""
    assert reason in _dropped(**event)


def test_a_reply_without_a_mention_is_for_threads_we_know() -> None:
    """A direct message is always for us."""
    assert _taken(thread_ts="1.0").only_known is True
    assert _taken(channel="D0ALICE", channel_type="im").only_known is False
    assert _taken(thread_ts="1.0").item.thread.root_ts == "1.0"
    assert _taken(thread_ts="1.0", text="<@U0BOB> look").item.body["addresses_others"] is True


@pytest.mark.parametrize("text", ["stop", "Stop.", " STOP! ", "<@U0BOT> stop"])
def test_a_bare_stop_in_a_thread_is_no_question(text: str) -> None:
    """Nor is Slack's own button; a bot's word stops nothing."""
    assert _taken(thread_ts="1.0", text=text).item.kind == "stop"
    assert _taken(thread_ts="1.0", text=text, team="T0OTHER").item.body["external"] is True
    assert _taken(thread_ts="1.0", text=text, bot_id="B0HOOK").item.kind == "message"
    assert _taken(type="agent_session_stopped", thread_ts="1.0", event_ts="9.1").item.kind == "stop"
    assert _taken(thread_ts="1.0", text="stop the refund").item.kind == "message"


def test_what_is_not_the_author_s_own_word_is_kept_apart() -> None:
    """Quotes, fences, previews, forwarded text, file names; invisible characters are dropped and counted."""
    taken = _taken(
        text="<@U0BOT> handle &amp; reply\n&gt; refund 900\n```rm -rf```a\u202eb\U000e0041",
        attachments=[
            {"author_name": "Alerts", "text": "FIRING", "fields": [{"title": "n", "value": "12"}]},
            {"fields": 5},
        ],
        files=[{"name": "report\n<!channel>.csv"}, "odd"],
    )

    body = taken.item.body
    assert body["quoted"] == ["refund 900", "rm -rf", "(Alerts) FIRING n: 12"]
    assert "2 invisible characters were dropped" in body["text"] and "handle & reply" in body["text"]
    assert body["files"] == ["report #channel.csv"]


def test_links_keep_the_author_s_words() -> None:
    """Label and address where they differ."""
    text = "<@U0BOT> <https://x.example/a|order 4711> <https://x.example> <tel:123|123> <#C1|support>"

    assert _taken(text=text).item.body["text"] == "order 4711 (https://x.example/a) https://x.example tel:123 #support"


def test_a_huge_message_keeps_head_and_tail_and_says_what_is_missing() -> None:
    """The newest words are at its end."""
    body = _taken(text="<@U0BOT> " + "a" * 30_000 + " THE END").item.body

    assert len(body["text"]) < 26_000
    assert "left out here" in body["text"] and body["text"].endswith("THE END")


@pytest.mark.parametrize("kind", ["edit", "delete", "tombstone"])
def test_edits_and_deletions_of_questions_reach_their_thread(kind: str) -> None:
    """Each change has its own claim, and a root with replies is deleted by being emptied."""
    message = {"ts": "5.1", "user": "U0ALICE", "text": "new", "edited": {"ts": "6.1"}, "files": [{"name": "x"}]}
    if kind == "delete":
        event = {"subtype": "message_deleted", "deleted_ts": "5.1", "previous_message": message}
    elif kind == "edit":
        event = {"subtype": "message_changed", "message": message, "previous_message": {**message, "text": "old"}}
    else:
        emptied = {**message, "subtype": "tombstone", "user": "USLACKBOT"}
        event = {"subtype": "message_changed", "message": emptied, "previous_message": message}

    taken = _taken(**event)

    assert taken.item.kind == ("edit" if kind == "edit" else "delete")
    assert taken.item.body["ts"] == "5.1" and taken.only_known
    assert kind != "edit" or taken.item.body["files"] == ["x"]


def _click(value: str = "apr-1", action: str = "approve:apr-1", **fields: Any) -> Any:
    body = {
        "type": "block_actions",
        "api_app_id": "A0PLIMSOLL",
        "user": {"id": "U0CAROL", "team_id": "T0PLIMSOLL"},
        "channel": {"id": "C0SUPPORT"},
        "message": {"ts": "7.1", "thread_ts": "1.0", "bot_id": "B0BOT", "user": "U0BOT"},
        "actions": [{"action_id": action, "value": value, "action_ts": "8.1"}],
    }
    return read(body | fields, US)


def test_a_click_is_a_person_an_approval_and_a_word() -> None:
    """Two calls on one card are two claims; a redelivery is one."""
    assert _click().item.body == {
        "user": "U0CAROL",
        "team": "T0PLIMSOLL",
        "approval_id": "apr-1",
        "vote": "approve",
        "tampered": False,
    }
    assert _click().claim == _click().claim != _click("apr-2", "approve:apr-2").claim
    assert _click().item.thread.root_ts == "1.0"


@pytest.mark.parametrize(
    "forged",
    [
        {"value": '{"amount": 9000}'},
        {"value": "apr-2"},
        {"message": {"ts": "7.1", "thread_ts": "1.0", "bot_id": "B0OTHER"}},
        {"value": "x" * 900, "action": "approve:" + "x" * 900},
    ],
)
def test_a_button_that_is_not_ours_as_we_made_it_is_marked(forged: dict[str, Any]) -> None:
    """The attempt goes to the log; it can decide nothing."""
    assert _click(**forged).item.body["tampered"] is True


@settings(max_examples=300)
@given(JSON, JSON, st.sampled_from(["event_callback", "block_actions", "view_submission", None]))
def test_nothing_that_is_delivered_can_make_it_raise(event: Any, other: Any, kind: Any) -> None:
    """An odd body is dropped or taken, never an error that brings it back for ever."""
    body = {"type": kind, "event": event, "actions": other, "message": event, "user": other, "channel": event}

    assert isinstance(read(body, US), (Drop, Enqueue))
    if isinstance(event, dict):
        assert isinstance(read(_body(**{str(key): value for key, value in event.items()}), US), (Drop, Enqueue))


@pytest.mark.parametrize("unit", ["<#", "<http:", "<!", "&lt;", "```", "> ", "<@U", "<@UA|", "stop ", "\u202e"])
def test_the_cost_of_a_text_grows_with_its_length_and_no_faster(unit: str) -> None:
    """A hostile message must not hold up everybody's acknowledgements."""

    def cost(length: int) -> float:
        text = "<@U0BOT> " + unit * (length // len(unit))
        begun = time.process_time()
        for _ in range(3):
            _taken(text=text, attachments=[{"text": text}] * 3)
            _taken(text="stop" + " " * length + "x", thread_ts="1.0")
        return time.process_time() - begun

    small, large = cost(2_750), cost(22_000)

    assert large < max(small, 0.004) * 40, f"8 times the text took {large / max(small, 1e-9):.0f} times as long"
