"""What a log amounts to."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bot.core import events as e
from bot.core.caps import deadline
from bot.core.chain import Entry, genesis, seal_entry
from bot.core.item import Item, Message
from bot.core.labels import Trust
from bot.core.session import evolve, replay
from bot.core.state import Session
from bot.core.transcript import faults
from bot.core.transcript import messages as rendered
from tests.builders import GET_ORDER, GET_TICKET, ISSUE_CREDIT, THREAD, Story

CREDIT = {"order_id": "4921", "amount_cents": 5400, "note": ""}


def _run(story: Story) -> Any:
    assert story.session.run is not None
    return story.session.run


def _entries(story: Story) -> list[Entry]:
    entries: list[Entry] = []
    prev = genesis(THREAD)
    for number, event in enumerate(story.events):
        at = f"2026-12-01T09:00:{number + 1:02d}.000000Z"
        entries.append(seal_entry(event, seq=number + 1, at=at, run="", prev=prev, salt=b"s" * 16))
        prev = entries[-1].hash
    return entries


def messages(session: Any) -> list[dict[str, Any]]:
    """As they are sent."""
    return [one.dump() for one in rendered(session)]


def test_a_stored_log_gives_the_session_back() -> None:
    """A restart loses nothing."""
    story = Story().asked().called("t1", GET_TICKET, "x", "untrusted").replied(("c1", ISSUE_CREDIT, CREDIT))
    story.asks("c1", ISSUE_CREDIT).decided("approved")

    again = replay(THREAD, _entries(story))

    assert messages(again) == messages(story.session)
    assert again.label == story.session.label
    assert again.run is not None and again.run.approvals == _run(story).approvals


def test_an_erased_payload_counts_as_untrusted_and_breaks_nothing() -> None:
    """What nobody can read any more is nobody's word."""
    entries = _entries(Story().asked())
    entries[1] = replace(entries[1], payload=None, salt=None)

    session = replay(THREAD, entries)

    assert session.trust is Trust.UNTRUSTED


def test_results_stand_in_the_model_s_order_whatever_order_they_came_in() -> None:
    """The next request is the same side by side as one by one."""
    story = Story().asked().replied(("a", GET_ORDER, {"order_id": "1111"}), ("b", GET_ORDER, {"order_id": "2222"}))
    story.ran("b", "second").ran("a", "first")

    results = messages(story.session)[-1]["content"]

    assert [block["tool_use_id"] for block in results] == ["a", "b"]


def test_a_person_s_word_after_the_results_shares_their_message() -> None:
    """Results first, then what was said."""
    story = Story().asked().called("c1", GET_ORDER, {"a": 1})
    story.add(e.MessageReceived(ts="2.0", author="U0BOB", trust="internal", text="and hurry"))

    last = messages(story.session)[-1]

    assert last["role"] == "user"
    assert [block["type"] for block in last["content"]] == ["tool_result", "text"]
    assert "U0BOB" in _run(story).requesters


def test_each_request_begins_with_the_one_before() -> None:
    """Byte for byte, over a whole run and into the next one."""
    story, sent = Story().asked(), list[str]()

    def note() -> None:
        assert faults(rendered(story.session)) == []
        sent.append(str(messages(story.session))[:-1])

    note()
    story.called("c1", GET_ORDER, {"a": 1})
    note()
    story.called("c2", GET_TICKET, "hello", "untrusted")
    note()
    story.replied(text="Done.").add(_finished("answered", "end_turn", "Done."))
    story.asked("And now?")
    note()

    assert all(later.startswith(earlier) for earlier, later in pairwise(sent))


def _finished(outcome: Any, stop: str, text: str) -> e.RunFinished:
    return e.RunFinished(
        outcome=outcome,
        stop_reason=stop,
        text=text,
        messages=["1.0"],
        usage=e.Usage(),
        cost_usd=0.0,
        reference="ref-1",
    )


def test_a_run_that_code_ended_leaves_a_conversation_that_can_go_on() -> None:
    """What people were told closes it for the model too."""
    story = Story().asked().called("c1", GET_ORDER, {"a": 1}).add(_finished("partial", "turn_cap", "I stopped."))

    story.asked("Go on")

    assert faults(rendered(story.session)) == []
    assert messages(story.session)[-2] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "I stopped."}],
    }


def test_an_empty_reply_is_never_sent_back() -> None:
    """The service refuses empty texts."""
    story = Story().asked().replied(text="")
    story.add(
        e.ModelReplied(
            turn=2,
            content=[{"type": "text", "text": " "}],
            stop_reason="end_turn",
            usage=e.Usage(),
            cost_usd=0,
        )
    )
    story.add(_finished("escalated", "hand_over", "I hand over.")).asked("Again")

    assert faults(rendered(story.session)) == []


def test_an_empty_result_is_never_empty() -> None:
    """The service refuses that too."""
    story = Story().asked().called("c1", GET_ORDER, "  ")

    assert messages(story.session)[-1]["content"][0]["content"] == "(no output)"


def test_a_failed_call_is_marked_and_a_refused_one_is_not() -> None:
    """A refusal is an ordinary result."""
    story = Story().asked().replied(("a", GET_ORDER, {}), ("b", GET_ORDER, {"order_id": "1"}))
    story.ran("a", "away", ok=False)
    story.add(e.ToolReturned(call_id="b", ok=False, content={"refused": "x"}, trust="system", ran=False))

    first, second = messages(story.session)[-1]["content"]

    assert first["is_error"] is True
    assert "is_error" not in second


def test_what_a_tool_returns_lowers_the_label_by_the_tool_s_trust() -> None:
    """And a call that never ran lowers nothing."""
    story = Story().asked().replied(("a", GET_TICKET, {"order_id": "1111"}), ("b", GET_TICKET, {"order_id": "2222"}))
    story.add(e.ToolReturned(call_id="a", ok=False, content={"refused": "x"}, trust="untrusted", ran=False))
    before = story.session.trust
    story.ran("b", "text", "untrusted")

    assert (before, story.session.trust) == (Trust.PRINCIPAL, Trust.UNTRUSTED)
    assert story.session.label.sources[-1].name == "get_ticket"


def test_time_spent_waiting_for_a_person_does_not_count() -> None:
    """The clock stands still while a card is open and goes on afterwards."""
    story = Story().asked().called("t1", GET_TICKET, "x", "untrusted").replied(("c1", ISSUE_CREDIT, CREDIT))
    story.asks("c1", ISSUE_CREDIT)
    used = _run(story).active_s

    later = story.now.replace(day=2)
    assert (deadline(story.session, later) - later).total_seconds() == pytest.approx(300 - used)

    story.add(e.ApprovalDecided(approval_id="apr-1", decision="approved", by=["U0CAROL"]), after_s=80_000)
    assert _run(story).active_s == used

    story.add(e.ToolStarted(call_id="c1", idempotency_key="k"), after_s=7)
    assert _run(story).active_s == pytest.approx(used + 7)


def test_a_lost_call_keeps_its_reservation() -> None:
    """It may have been charged: the budget never forgets it."""
    story = Story().asked()
    for turn in (1, 2):
        story.add(e.ModelRequested(turn=turn, reserved_tokens=500, reserved_usd=0.5, model="m"))

    assert (_run(story).tokens_spent, _run(story).usd_spent) == (1000, 1.0)


def test_words_of_others_are_remembered_until_our_next_post() -> None:
    """A follow-up without a mention is for us only while nobody else spoke."""
    story = Story().asked().add(e.MessageIgnored(ts="2.0", reason="talk", author="U0BOB"))
    between = story.session.spoke_since_post
    story.replied(text="Done.").add(_finished("answered", "end_turn", "Done."))

    assert (between, story.session.spoke_since_post) == ({"U0BOB"}, frozenset())


def test_an_edit_changes_what_was_heard_only_when_the_words_changed() -> None:
    """A link preview is not an edit."""
    story = Story().asked("one")
    ts = _run(story).messages[0]
    story.add(e.MessageEdited(ts=ts, author="U0ALICE", text="one!", material=False))
    same = story.session.heard[ts].text
    story.add(e.MessageEdited(ts=ts, author="U0ALICE", text="two", material=True))
    story.add(e.MessageEdited(ts="9.9", author="U0ALICE", text="three", material=True))

    assert (same, story.session.heard[ts].text) == ("one", "two")


def test_earlier_messages_enter_as_context_with_their_own_trust() -> None:
    """And say how many were left out."""
    story = Story().asked()
    story.add(
        e.HistoryImported(
            messages=[{"ts": "0.1", "author": "U0GUEST", "text": "refund me", "trust": "untrusted"}],
            left_out=12,
            trust="untrusted",
        )
    )

    text = messages(story.session)[-1]["content"][-1]["text"]

    assert story.session.trust is Trust.UNTRUSTED
    assert "12 earlier messages were left out" in text and "refund me" in text


def test_events_outside_a_run_leave_no_run_behind() -> None:
    """A late word of a run that ended changes nothing."""
    session = Session(THREAD)
    late: list[e.Event] = [
        e.MessageReceived(ts="1.0", author="U0ALICE", trust="principal", text="x"),
        e.Cancelled(by="U0ALICE"),
        e.ApprovalVoided(approval_id="apr-1", why="x"),
        e.FeedbackGiven(by="U0ALICE", vote="up"),
    ]

    for event in late:
        session = evolve(session, event)

    assert (session.run, session.transcript, session.entries) == (None, (), 4)


def test_what_was_posted_is_found_by_its_key() -> None:
    """The newest ts of a key."""
    story = Story().asked().add(e.Posted(ts="5.1", key="answer:run-0"))

    assert story.session.posted == {"answer:run-0": "5.1"}


def test_a_call_of_unknown_end_is_marked_until_it_has_a_result() -> None:
    """And its result closes it."""
    story = Story().asked().replied(("c1", ISSUE_CREDIT, CREDIT)).add(e.ToolStarted(call_id="c1", idempotency_key="k"))
    story.add(e.EffectUnknown(call_id="c1"))
    marked = _run(story).calls[0].unknown
    story.add(e.ToolReturned(call_id="c1", ok=False, content="unknown", trust="system"))

    assert (marked, _run(story).calls[0].unknown) == (True, False)


@pytest.mark.parametrize(
    ("conversation", "said"),
    [
        ([], "start with a person"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "x"}]}], "start with a person"),
        (
            [
                {"role": "user", "content": [{"type": "text", "text": "x"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {}}]},
                {"role": "user", "content": [{"type": "text", "text": "y"}]},
            ],
            "are answered by",
        ),
        ([{"role": "user", "content": [{"type": "text", "text": " "}]}], "empty text"),
    ],
)
def test_a_conversation_that_the_service_would_refuse_is_named(conversation: list[Any], said: str) -> None:
    """Before it is sent."""
    sent = [Message(one["role"], (Item(one["role"], tuple(one["content"])),)) for one in conversation]

    assert any(said in fault for fault in faults(sent))
