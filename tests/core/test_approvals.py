"""Who may decide, and what a click does."""

from __future__ import annotations

from typing import Any

import pytest

from bot.core import events as e
from bot.core.approvals import NotEntitled, Vote, eligible, evolve_approval, judge, newest_for
from bot.core.policy import ApproverRule
from bot.core.words import Person
from tests.builders import GET_TICKET, ISSUE_CREDIT, POLICY, Story

CREDIT = {"order_id": "4921", "amount_cents": 5400, "note": ""}
CAROL = Person("U0CAROL", "T0PLIMSOLL", is_member=True)
ENTITLED = frozenset({"U0CAROL", "U0DAVE", "U0ALICE"})
RULE = ApproverRule(users=("U0CAROL", "U0DAVE", "U0ALICE"))


def _open(**fields: Any) -> Story:
    story = Story().asked().called("t1", GET_TICKET, "x", "untrusted").replied(("c1", ISSUE_CREDIT, CREDIT))
    return story.asks("c1", ISSUE_CREDIT, **fields)


def _judge(story: Story, person: Person | None = CAROL, vote: str = "approve", **changes: Any) -> Vote | NotEntitled:
    run = story.session.run
    assert run is not None
    given = {"clicked_at": "2026-12-01T09:30:00.000000Z", "entitled": ENTITLED, "rule": RULE} | changes
    return judge(run.approvals["apr-1"], person=person, vote=vote, run=run, **given)


def test_one_entitled_yes_decides_where_one_is_needed() -> None:
    """The ordinary case."""
    assert _judge(_open()) == Vote(decides=True)


def test_with_four_eyes_the_first_yes_does_not_decide_and_the_second_person_does() -> None:
    """Two different people."""
    story = _open(distinct=2)

    first = _judge(story)
    story.add(e.ApprovalVoted(approval_id="apr-1", by="U0CAROL", vote="approve"))
    again = _judge(story)
    second = _judge(story, Person("U0DAVE", "T0PLIMSOLL", is_member=True))

    assert first == Vote(decides=False)
    assert isinstance(again, NotEntitled) and "already approved" in again.because
    assert second == Vote(decides=True)


def test_one_no_ends_it_however_many_are_needed() -> None:
    """A single entitled no."""
    assert _judge(_open(distinct=2), vote="deny") == Vote(decides=True)


@pytest.mark.parametrize(
    ("person", "changes", "said"),
    [
        (Person("U0MALLORY", "T0PLIMSOLL", is_member=True), {}, "not among the people"),
        (Person("U0CAROL", "T0OTHER", is_member=False, is_external=True), {}, "only members"),
        (Person("U0CAROL", "T0PLIMSOLL", is_member=False, is_guest=True), {}, "only members"),
        (Person("U0ALICE", "T0PLIMSOLL", is_member=True), {}, "asked for this yourself"),
        (None, {}, "nobody could check"),
        (CAROL, {"entitled": None}, "nobody could check"),
        (CAROL, {"rule": None}, "not among the people"),
        (CAROL, {"clicked_at": "2026-12-02T09:00:00.000001Z"}, "expired"),
    ],
)
def test_a_click_that_does_not_count_says_why(person: Person | None, changes: dict[str, Any], said: str) -> None:
    """Strangers, guests, requesters, failed look-ups, late clicks: nothing is decided."""
    judged = _judge(_open(), person, **changes)

    assert isinstance(judged, NotEntitled)
    assert said in judged.because


def test_a_click_at_the_last_moment_still_counts() -> None:
    """Expiry compares the click's arrival."""
    assert _judge(_open(), clicked_at="2026-12-02T09:00:00.000000Z") == Vote(decides=True)


def test_a_requester_may_say_no_to_their_own_request() -> None:
    """Only a yes needs somebody else."""
    assert _judge(_open(), Person("U0ALICE", "T0PLIMSOLL", is_member=True), "deny") == Vote(decides=True)


def test_a_requester_may_approve_only_where_the_rule_lets_them() -> None:
    """An owner's choice, off by default."""
    alice = Person("U0ALICE", "T0PLIMSOLL", is_member=True)
    story = _open()
    run = story.session.run
    assert run is not None
    lax = RULE.model_copy(update={"requester_may_approve": True})

    assert _judge(story, alice, rule=lax) == Vote(decides=True)
    assert eligible(lax, ENTITLED, run) == ENTITLED
    assert eligible(RULE, ENTITLED, run) == ENTITLED - {"U0ALICE"}


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ("approved", "already approved by <@U0CAROL>"),
        ("denied", "already denied"),
        ("expired", "has expired"),
    ],
)
def test_a_second_click_is_told_what_was_decided(decision: str, said: str) -> None:
    """Twice tapped is once done."""
    judged = _judge(_open().decided(decision))

    assert isinstance(judged, NotEntitled)
    assert said in judged.because


def test_a_voided_request_cannot_be_decided() -> None:
    """What it was bound to has changed."""
    judged = _judge(_open().add(e.ApprovalVoided(approval_id="apr-1", why="the question was changed")))

    assert isinstance(judged, NotEntitled)
    assert "no longer holds" in judged.because


def test_an_edit_gives_the_approval_its_new_arguments_and_digest() -> None:
    """The edited call is what runs."""
    edited = e.ApprovalEdited(
        approval_id="apr-1", by="U0CAROL", before=CREDIT, after={**CREDIT, "amount_cents": 1}, digest="d2"
    )
    run = _open().add(edited).session.run

    assert run is not None
    assert (run.approvals["apr-1"].arguments["amount_cents"], run.approvals["apr-1"].digest) == (1, "d2")


def test_events_of_an_unknown_approval_change_nothing() -> None:
    """A late or foreign word is not taken for another."""
    run = _open().session.run
    assert run is not None
    others: list[e.Event] = [
        e.ApprovalDecided(approval_id="apr-9", decision="denied", by=["U0CAROL"]),
        e.ApprovalVoided(approval_id="apr-9", why="x"),
        e.ApprovalVoted(approval_id="apr-1", by="U0CAROL", vote="deny"),
        e.Cancelled(by="U0ALICE"),
    ]

    assert all(evolve_approval(run, event) == run for event in others)
    assert newest_for(run, "c9") is None


def test_calls_asked_together_count_as_one_message() -> None:
    """`asks_per_run` counts messages, not calls."""
    story = Story().asked().called("t1", GET_TICKET, "x", "untrusted")
    story.replied(("c1", ISSUE_CREDIT, CREDIT), ("c2", ISSUE_CREDIT, {**CREDIT, "amount_cents": 2}))
    story.asks("c1", ISSUE_CREDIT).asks("c2", ISSUE_CREDIT, approval_id="apr-2")

    assert story.session.run is not None
    assert story.session.run.asks == 1
    assert len(story.session.run.open_approvals) == 2


def test_delegates_of_named_people_are_entitled_and_those_of_others_are_not() -> None:
    """A delegate stands in for somebody who is named."""
    rule = ApproverRule(users=("U0CAROL",), delegates={"U0CAROL": "U0DAVE", "U0BOB": "U0MALLORY"})

    assert rule.people == {"U0CAROL", "U0DAVE"}
    assert POLICY.approvals.rule is not None
