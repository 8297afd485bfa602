"""Limits, endings, facts, policies and names: the small rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.core import events as e
from bot.core.caps import Room, Stop, deadline, input_at_most, reached, room_for
from bot.core.errors import Misconfigured
from bot.core.outcomes import OUTCOMES, post_for
from bot.core.policy import CapsTable, Policy
from bot.core.progress import MAX_FACTS_PER_RESULT, call_key, facts_of
from bot.core.replies import ending_for
from bot.core.state import Session
from bot.core.strategies.react import React
from bot.core.strategy import AskModel, Finish, RunTools, Wait, next_action
from bot.core.view import origin, quotes
from bot.core.words import ThreadId
from tests.builders import GET_ORDER, GET_TICKET, ISSUE_CREDIT, POLICY, THREAD, Story

CREDIT = {"order_id": "4921", "amount_cents": 5400, "note": ""}


def _run(story: Story) -> Any:
    assert story.session.run is not None
    return story.session.run


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 9000), st.integers(1, 9000), st.floats(0.00001, 0.01))
def test_what_a_call_may_use_never_passes_a_budget(used: int, worst: int, wanted: int, tokens: int, usd: float) -> None:
    """Whatever is left, the reservation fits in it."""
    run = replace(_run(Story().asked()), usage=e.Usage(input_tokens=used), cost_usd=used * usd)
    caps = CapsTable(tokens=tokens, usd=max(0.0001, tokens * usd * 0.9))

    room = room_for(run, caps, worst_input=worst, max_output=wanted, usd_of=lambda i, o: (i + o) * usd)

    if isinstance(room, Room):
        assert used + worst + room.max_output_tokens <= tokens
        assert used * usd + room.usd <= caps.usd + 1e-9
        assert room.max_output_tokens <= wanted
    else:
        assert room.outcome == "partial"


def test_a_free_model_is_bounded_by_tokens_alone() -> None:
    """No division by a price of nothing."""
    room = room_for(_run(Story().asked()), CapsTable(), worst_input=10, max_output=100, usd_of=lambda _i, _o: 0.0)

    assert room == Room(100, 110, 0.0)


@pytest.mark.parametrize(
    ("change", "stop"),
    [
        ({"repeated": 2}, None),
        ({"repeated": 3}, Stop("escalated", "repetition")),
        ({"barren": 2}, None),
        ({"barren": 3}, Stop("escalated", "no_progress")),
        ({"turns": 23}, None),
        ({"turns": 24}, Stop("partial", "turn_cap")),
    ],
)
def test_each_limit_acts_at_its_number_and_not_before(change: dict[str, Any], stop: Stop | None) -> None:
    """At n and at n + 1."""
    assert reached(replace(_run(Story().asked()), **change), CapsTable()) == stop


def test_the_next_input_is_bounded_by_what_the_service_counted_and_what_was_added() -> None:
    """A token for each new byte."""
    run = replace(_run(Story().asked()), known_input=(1000, 250))

    assert input_at_most(run, 1100) == 250 + 100 + 64
    assert input_at_most(run, 900) == 250 + 64


def test_the_deadline_ends_a_run_only_where_something_would_still_be_done() -> None:
    """A person's wait and a finished answer are not cut off."""
    story = Story().asked()
    late = story.now + timedelta(seconds=400)

    assert next_action(React(), story.session, CapsTable(), late) == Finish("partial", "deadline")
    assert deadline(Session(THREAD), late) == late
    story.replied(text="Done.")
    assert next_action(React(), story.session, CapsTable(), late) == Finish("answered", "end_turn", "Done.")


def test_react_asks_acts_waits_and_ends() -> None:
    """Each in its place."""
    react, story = React(), Story()
    nothing = (react.propose(story.session), next_action(react, story.session, CapsTable(), story.now))
    story.asked()
    first = react.propose(story.session)
    story.called("t1", GET_TICKET, "x", "untrusted").replied(("c1", ISSUE_CREDIT, CREDIT))
    acts = react.propose(story.session)
    story.asks("c1", ISSUE_CREDIT)
    waits = react.propose(story.session)
    story.add(e.Cancelled(by="U0ALICE"))
    stopped = next_action(react, story.session, CapsTable(), story.now)

    assert all(isinstance(one, Wait) for one in nothing)
    assert first == AskModel()
    assert isinstance(acts, RunTools) and [call.call_id for call in acts.calls] == ["c1"]
    assert waits == Wait("a person decides")
    assert stopped == Finish("cancelled", "cancelled")


def test_a_promise_of_calls_without_any_ends_the_run() -> None:
    """And with calls it goes on."""
    reply = e.ModelReplied(turn=1, content=[], stop_reason="tool_use", usage=e.Usage(), cost_usd=0)
    run = _run(Story().asked())
    acting = _run(Story().asked().replied(("c1", GET_ORDER, {"order_id": "4921"})))

    assert ending_for(reply, run) == ("failed", "model_error", "")
    assert ending_for(reply, acting) is None


def test_every_ending_has_words_and_a_next_step() -> None:
    """What happened, what was found, what can be done."""
    session = Story().asked().called("c1", GET_ORDER, {"a": 1}).session

    for outcome, reasons in OUTCOMES.items():
        for reason in reasons:
            text = post_for(outcome, reason, "words" if outcome == "answered" else "", session, "Detail.")
            assert text == "words" if outcome == "answered" else ("Detail." in text and text.count("\n\n") >= 2)
    assert "So far:" in post_for("partial", "max_tokens", "Half", session)
    assert post_for("failed", "internal_error", "", Session(THREAD))


def test_an_effect_of_unknown_end_is_named_in_the_ending() -> None:
    """Check before anybody does it again."""
    story = Story().asked().replied(("c1", ISSUE_CREDIT, CREDIT)).add(e.EffectUnknown(call_id="c1"))

    assert "whether issue_credit took effect" in post_for("escalated", "hand_over", "", story.session)


def test_facts_are_values_and_lines_not_handles_times_or_order() -> None:
    """The same thing said again in other letters is nothing new."""
    one = facts_of("t", {"a": [1, {"b": "Hello  World\n\n2026-12-01T10:00:00Z"}], "handle": "h1", "none": None})

    assert one == facts_of("t", {"a": [1, {"b": "hello world"}], "handle": "h2"})
    assert len(one) == 2
    assert facts_of("t", True) != facts_of("t", 1)
    assert len(facts_of("t", [str(number) for number in range(9000)])) == MAX_FACTS_PER_RESULT


def test_a_call_is_known_by_its_tool_and_arguments() -> None:
    """Key order is nothing; 1, 1.0 and "1" stay apart, at any depth."""
    assert call_key("t", {"a": 1, "b": 2}) == call_key("t", {"b": 2, "a": 1})
    keys = {call_key("t", {"a": [{"b": value}]}) for value in (1, 1.0, "1")}
    assert len(keys | {call_key("u", {"a": [{"b": 1}]})}) == 4


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"ceiling": {"internal": "observe"}}, "must not fall as trust rises"),
        ({"channels": {"C0SUPPORT": {"tools": ["get_*"]}}}, "no other patterns"),
        ({"tools": {"mcp": [{"name": "crm"}]}}, "not built yet"),
        ({"untrusted": {"reading": "sealed"}}, "open"),
        ({"approvals": {"default": {"users": ["carol"]}}}, "pattern"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(raw: dict[str, Any], said: str) -> None:
    """With the reason."""
    with pytest.raises(ValidationError, match=said):
        Policy.model_validate(raw)


def test_the_policy_s_version_leaves_out_what_decides_nothing_about_authority() -> None:
    """Model, caps and loop may change under an open approval."""
    same = Policy.model_validate({"model": {"name": "x"}, "caps": {"turns": 2}, "loop": {"parallel": True}})
    other = Policy.model_validate({"ceiling": {"extracted": "observe"}})

    assert same.version == Policy().version != other.version
    assert Policy.model_validate({"channels": {"C0A": {"follow_up": False}}}).channel("C0A").follow_up is False
    assert Policy.model_validate({"tools": {"mcp": []}, "channels": {"C0A": {"tools": ["a_b"]}}}).tools.mcp == ()


@pytest.mark.parametrize(
    ("text", "thread"),
    [
        ("T1/C1/1.5", ThreadId("T1", "C1", "1.5")),
        ("https://x.slack.com/archives/C1/p1780000000000100", ThreadId("*", "C1", "1780000000.000100")),
        ("https://x.slack.com/archives/C1/p1780000000000200?thread_ts=1.5&cid=C1", ThreadId("*", "C1", "1.5")),
    ],
)
def test_a_thread_is_named_by_its_parts_or_a_permalink(text: str, thread: ThreadId) -> None:
    """Both are what people have at hand."""
    assert ThreadId.parse(text) == thread


@pytest.mark.parametrize("text", ["", "T1/C1", "T1/C1/1.5/x", "../../etc", "T1/C 1/1.5", "T1/C1/{p00}"])
def test_what_is_no_thread_is_refused_with_what_to_write(text: str) -> None:
    """Keys of the store are made of it."""
    with pytest.raises(Misconfigured, match="TEAM/CHANNEL/TS"):
        ThreadId.parse(text)


def test_a_card_quotes_a_stranger_s_words_apart_from_what_our_system_set() -> None:
    """The newest first, cut with a mark, the rest counted."""
    story = Story().asked()
    story.called("t1", GET_TICKET, {"source": "ticket T-1", "text": "x" * 900}, "untrusted")
    for number in range(3):
        story.called(f"u{number}", GET_TICKET, f"plain {number}", "untrusted", order_id=f"{number}000")

    shown = quotes(story.session.readings)

    assert shown[0] == "get ticket: “plain 2”"
    assert shown[-1] == "and 1 more untrusted texts, in the log"
    alone = quotes(story.session.readings[:2])
    assert alone[0].startswith("get ticket, ticket T-1: “xxx") and "300 more characters" in alone[0]


def test_where_a_value_came_from_is_told_least_trusted_place_first() -> None:
    """Whole values only; what stands nowhere was made up by the model."""
    story = Story().asked("credit order 4921").called("t1", GET_TICKET, "order 4921, 5400.5", "untrusted")
    readings = story.session.readings

    assert origin("4921", readings) == "get ticket (untrusted) and 1 other place"
    assert "stands in nothing" in origin(5400, readings)
    assert origin("", readings) == '""' or origin(" ", readings) == "empty"
    assert POLICY.approvals.asks_per_run == 3
