"""The gate: what it admits, what it holds, what it refuses, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core import events as e
from bot.core.authority import Authority
from bot.core.gate import Allowed, NeedsApproval, Refused, admit, needs_person
from bot.core.labels import Trust
from bot.core.policy import Policy
from tests.builders import GET_ORDER, GET_TICKET, ISSUE_CREDIT, POLICY, Story, make_tool

CAREFUL = ISSUE_CREDIT.restricted(always_ask=True)
CREDIT = {"order_id": "4921", "amount_cents": 5400, "note": ""}
DEFAULT_CEILINGS = {  # written down from the handbook, not read from the code under test
    "untrusted": "observe",
    "extracted": "send",
    "internal": "critical",
    "principal": "critical",
}


def _tainted() -> Story:
    return Story().asked().called("t1", GET_TICKET, "refund 900", "untrusted")


def _wanting(story: Story, call_id: str = "c1") -> Story:
    return story.replied((call_id, ISSUE_CREDIT, CREDIT))


@pytest.mark.parametrize("trust", list(DEFAULT_CEILINGS))
@pytest.mark.parametrize("authority", list(Authority))
def test_a_call_runs_unasked_exactly_when_it_is_within_the_ceiling(trust: str, authority: Authority) -> None:
    """Both ways round: what is within does run, what is above needs a person."""
    order = ["observe", "egress", "local_write", "send", "critical"]
    one = make_tool("act", authority)
    story = Story().asked().called("t1", GET_ORDER, "x", trust).replied(("c1", one, {"order_id": "4921"}))

    verdict = admit(story.proposed("c1", one), story.session, POLICY)

    within = order.index(authority.word) <= order.index(DEFAULT_CEILINGS[trust])
    assert isinstance(verdict, Allowed if within else NeedsApproval)
    assert verdict.reason


def test_the_reason_names_what_was_read() -> None:
    """An approver and an auditor see why the call is held."""
    story = _wanting(_tainted())

    verdict = admit(story.proposed("c1", ISSUE_CREDIT), story.session, POLICY)

    assert verdict == NeedsApproval(
        "critical is above the ceiling observe that trust untrusted leaves after reading get_ticket",
        Authority.OBSERVE,
    )


def test_a_tool_may_always_ask() -> None:
    """Below the ceiling too, when the policy says so."""
    careful = ISSUE_CREDIT.restricted(always_ask=True)
    story = Story().asked().replied(("c1", careful, CREDIT))

    call = story.proposed("c1", careful)

    assert needs_person(call, story.session, POLICY)
    assert isinstance(admit(call, story.session, POLICY), NeedsApproval)


def test_an_approved_call_runs_and_says_who_approved_it() -> None:
    """The approval lifts exactly this call."""
    story = _wanting(_tainted()).asks("c1", ISSUE_CREDIT).decided("approved")

    verdict = admit(story.proposed("c1", ISSUE_CREDIT), story.session, POLICY)

    assert isinstance(verdict, Allowed)
    assert "approved by U0CAROL" in verdict.reason


def test_approving_one_call_admits_no_other() -> None:
    """Not even one with the same arguments."""
    story = _tainted().replied(("c1", ISSUE_CREDIT, CREDIT), ("c2", ISSUE_CREDIT, {**CREDIT, "note": "again"}))
    story.asks("c1", ISSUE_CREDIT).decided("approved")

    assert isinstance(admit(story.proposed("c2", ISSUE_CREDIT), story.session, POLICY), NeedsApproval)


def test_an_approval_is_spent_when_its_call_starts() -> None:
    """Single use: starting again needs another word."""
    story = _wanting(_tainted()).asks("c1", ISSUE_CREDIT).decided("approved")
    story.add(e.ToolStarted(call_id="c1", idempotency_key="k"))

    verdict = admit(story.proposed("c1", ISSUE_CREDIT), story.session, POLICY)

    assert isinstance(verdict, NeedsApproval)
    assert verdict.voids is not None


@pytest.mark.parametrize("what", ["label", "definition", "precondition", "arguments"])
def test_an_approval_does_not_outlive_what_it_was_bound_to(what: str) -> None:
    """A lower label, another definition, another state of the world, other arguments."""
    story = _careful().replied(("c1", CAREFUL, CREDIT)).asks("c1", CAREFUL).decided("approved")
    call, session = story.proposed("c1", CAREFUL), story.session
    if what == "label":
        session = replace(session, label=replace(session.label, trust=Trust.UNTRUSTED))
    elif what == "definition":
        call = replace(call, spec=replace(call.spec, description="other"))
    elif what == "precondition":
        call = replace(call, precondition={"balance": 1})
    else:
        call = replace(call, arguments={**CREDIT, "amount_cents": 5401})

    assert isinstance(admit(story.proposed("c1", CAREFUL), story.session, POLICY), Allowed)
    verdict = admit(call, session, POLICY)

    assert isinstance(verdict, NeedsApproval)
    assert verdict.voids is not None and verdict.voids.id == "apr-1"


def _careful() -> Story:
    return Story().asked().called("t1", GET_ORDER, "x", "internal")


def test_another_policy_runs_nothing_of_this_run() -> None:
    """Its approvals were given under the old one."""
    story = _wanting(Story().asked())
    other = Policy.model_validate({"approvals": {"default": {"users": ["U0MALLORY"]}}})

    verdict = admit(story.proposed("c1", ISSUE_CREDIT), story.session, other)

    assert isinstance(verdict, Refused)
    assert verdict.code == "policy changed"


def test_another_model_or_other_caps_are_no_other_policy() -> None:
    """Model, caps and loop settings decide nothing about authority."""
    story = _wanting(Story().asked())
    other = Policy.model_validate({**POLICY.model_dump(), "model": {"name": "claude-opus-5-5"}, "caps": {"turns": 3}})

    assert isinstance(admit(story.proposed("c1", ISSUE_CREDIT), story.session, other), Allowed)


@pytest.mark.parametrize("approvers", [None, frozenset[str]()])
def test_nobody_to_ask_is_a_refusal_at_once(approvers: frozenset[str] | None) -> None:
    """Never a silent wait: no approver, or nobody who could look them up."""
    story = _wanting(_tainted())

    verdict = admit(story.proposed("c1", ISSUE_CREDIT, approvers=approvers), story.session, POLICY)

    assert isinstance(verdict, Refused)
    assert verdict.code == "nobody may approve"


def test_a_policy_without_approvers_lets_nothing_above_the_ceiling_run() -> None:
    """Fail closed, whoever the caller says could approve."""
    bare = Policy()
    story = Story(bare).asked().called("t1", GET_TICKET, "x", "untrusted").replied(("c1", ISSUE_CREDIT, CREDIT))

    verdict = admit(story.proposed("c1", ISSUE_CREDIT), story.session, bare)

    assert isinstance(verdict, Refused)
    assert "[approvals.critical]" in verdict.reason


def test_two_needed_and_one_there_is_a_refusal() -> None:
    """Four eyes need two people."""
    two = Policy.model_validate({"approvals": {"critical": {"users": ["U0CAROL"], "distinct": 2}}})
    story = Story(two).asked().called("t1", GET_TICKET, "x", "untrusted").replied(("c1", ISSUE_CREDIT, CREDIT))

    verdict = admit(story.proposed("c1", ISSUE_CREDIT, approvers=frozenset({"U0CAROL"})), story.session, two)

    assert isinstance(verdict, Refused)
    assert "needs 2 approvers and 1" in verdict.reason


@pytest.mark.parametrize(
    ("decision", "reason", "said"), [("denied", "too much", "too much"), ("expired", "", "in time")]
)
def test_denied_and_expired_are_told_apart(decision: str, reason: str, said: str) -> None:
    """Two results that the model can act on."""
    story = _wanting(_tainted()).asks("c1", ISSUE_CREDIT).decided(decision, reason=reason)

    verdict = admit(story.proposed("c1", ISSUE_CREDIT), story.session, POLICY)

    assert isinstance(verdict, Refused)
    assert (verdict.code, said in verdict.reason) == (decision, True)


def test_a_denial_is_remembered_for_the_rest_of_the_run() -> None:
    """Same tool, same critical arguments: refused without asking, even when a note is worded otherwise."""
    story = _wanting(_tainted()).asks("c1", ISSUE_CREDIT).decided("denied")
    story.add(e.ToolReturned(call_id="c1", ok=False, content={"refused": "denied"}, trust="system", ran=False))
    story.replied(
        ("c2", ISSUE_CREDIT, {**CREDIT, "note": "please"}),
        ("c3", ISSUE_CREDIT, {**CREDIT, "amount_cents": 1}),
    )

    again = admit(story.proposed("c2", ISSUE_CREDIT), story.session, POLICY)
    other = admit(story.proposed("c3", ISSUE_CREDIT), story.session, POLICY)

    assert isinstance(again, Refused) and again.code == "denied"
    assert isinstance(other, NeedsApproval)


def test_the_same_call_again_in_an_unchanged_world_is_refused() -> None:
    """With an instruction; the third time ends the run (test_caps)."""
    story = Story().asked().called("c1", GET_ORDER, {"a": 1}).replied(("c2", GET_ORDER, {"order_id": "4921"}))

    verdict = admit(story.proposed("c2", GET_ORDER), story.session, POLICY)

    assert isinstance(verdict, Refused)
    assert verdict.code == "repetition"
    assert "already made" in verdict.reason


def test_reading_again_after_a_change_is_no_repetition() -> None:
    """That is how a claim is verified."""
    story = Story().asked().called("c1", GET_ORDER, {"a": 1}).called("c2", ISSUE_CREDIT, {"ok": 1}, **CREDIT)
    story.replied(("c3", GET_ORDER, {"order_id": "4921"}))

    assert isinstance(admit(story.proposed("c3", GET_ORDER), story.session, POLICY), Allowed)


def test_an_identical_state_change_waits_for_a_person() -> None:
    """A change of its own making does not free it."""
    story = Story().asked().called("c1", ISSUE_CREDIT, {"ok": 1}, **CREDIT).replied(("c2", ISSUE_CREDIT, CREDIT))

    refused = admit(story.proposed("c2", ISSUE_CREDIT), story.session, POLICY)
    story.add(e.ToolReturned(call_id="c2", ok=False, content={"refused": "repetition"}, trust="system", ran=False))
    story.add(e.MessageReceived(ts="9.9", author="U0ALICE", trust="principal", text="do it again"))
    story.replied(("c3", ISSUE_CREDIT, CREDIT))

    assert isinstance(refused, Refused)
    assert isinstance(admit(story.proposed("c3", ISSUE_CREDIT), story.session, POLICY), Allowed)


def test_one_repeat_after_a_retryable_error_is_free() -> None:
    """And only one."""

    def fails(story: Story, call_id: str) -> bool:
        story.replied((call_id, GET_ORDER, {"order_id": "4921"}))
        free = isinstance(admit(story.proposed(call_id, GET_ORDER), story.session, POLICY), Allowed)
        story.ran(call_id, "away", ok=False, retryable=True)
        return free

    story = Story().asked()

    assert [fails(story, f"c{number}") for number in range(3)] == [True, True, False]


def test_near_the_end_of_the_budget_calls_are_told_to_conclude() -> None:
    """At 80 %, and not before."""
    tight = Policy.model_validate({**POLICY.model_dump(), "caps": {"tokens": 135}})
    loose = Policy.model_validate({**POLICY.model_dump(), "caps": {"tokens": 140}})
    story = Story().asked().replied(("c1", GET_ORDER, {"order_id": "4921"}))

    refused = admit(story.proposed("c1", GET_ORDER), story.session, tight)

    assert isinstance(refused, Refused) and refused.code == "conclude now"
    assert isinstance(admit(story.proposed("c1", GET_ORDER), story.session, loose), Allowed)


def test_without_a_run_nothing_is_admitted() -> None:
    """The gate fails closed."""
    story = Story().asked().replied(("c1", GET_ORDER, {"order_id": "4921"}))
    call = story.proposed("c1", GET_ORDER)

    assert isinstance(admit(call, replace(story.session, run=None), POLICY), Refused)
