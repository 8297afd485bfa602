"""The only place that says whether a call may run.

1. It knows nothing of Slack, Redis or the model's reasons: a call, what the log says, and the policy.
2. A verdict carries its reason; the model, the approver and the auditor are all shown it.
3. What is missing counts against the call: no approver, no policy, an unreadable label.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.approvals import binding, bound_digest, denial_key, newest_for
from bot.core.authority import Authority
from bot.core.caps import past_soft_limit
from bot.core.labels import Label
from bot.core.policy import Policy
from bot.core.progress import call_key, offer
from bot.core.state import Approval, Run, Session
from bot.core.tool import ToolCall


@dataclass(frozen=True)
class Allowed:
    """The call may run now."""

    reason: str
    ceiling: Authority
    approval: Approval | None = None
    """What lifted it above the ceiling."""


@dataclass(frozen=True)
class NeedsApproval:
    """A person must decide about this exact call."""

    reason: str
    ceiling: Authority
    voids: Approval | None = None
    """An approval that no longer holds, and must be said to."""


@dataclass(frozen=True)
class Refused:
    """The call does not run; the reason is an instruction to the model."""

    reason: str
    ceiling: Authority
    code: str
    """`conclude now`, `read only`, `repetition`, `denied`, `expired`, `nobody may approve`."""


Verdict = Allowed | NeedsApproval | Refused


def ceiling_for(label: Label, policy: Policy) -> Authority:
    """The highest authority that runs without a person."""
    return policy.ceiling.of(label.trust)


def admit(call: ToolCall, session: Session, policy: Policy) -> Verdict:
    """Whether that call may run now, by the session's label, its approvals and the policy.

    `call.precondition` and `call.approvers` must be of this moment.
    """
    ceiling = ceiling_for(session.label, policy)
    run = session.run
    if run is None or policy.version != run.policy_version:
        return Refused("The policy changed while this run was under way; ask again.", ceiling, "policy changed")
    if refused := _refused_anyway(call, run, policy, ceiling):
        return refused
    if call.spec.authority <= ceiling and not call.spec.always_ask:
        return Allowed(_within(call, session, ceiling), ceiling)
    return _above(call, session, policy, ceiling)


def needs_person(call: ToolCall, session: Session, policy: Policy) -> bool:
    """Whether the ceiling alone would stop it: then its approvers and precondition must be looked up."""
    if session.run and _branch_of(call, session.run):
        return False
    return call.spec.always_ask or call.spec.authority > ceiling_for(session.label, policy)


def _branch_of(call: ToolCall, run: Run) -> int:
    state = run.call(call.call_id)
    return state.branch if state else 0


def _beyond_looking(call: ToolCall, run: Run, ceiling: Authority) -> Refused | None:
    """An investigation looks things up, asks nobody, and runs nothing once it has ended."""
    number = _branch_of(call, run)
    if not number:
        return None
    if call.spec.authority > Authority.OBSERVE or call.spec.always_ask:
        reason = (
            f"An investigation only looks things up, so {call.spec.name} was not made and nobody was asked. "
            "Name in your conclusion what should be done."
        )
        return Refused(reason, ceiling, "read only")
    if run.inquiry is None or run.inquiry.branch(number).ended:
        return Refused("This investigation has ended; no further call of it is made.", ceiling, "conclude now")
    return None


def _refused_anyway(call: ToolCall, run: Run, policy: Policy, ceiling: Authority) -> Refused | None:
    if refused := _beyond_looking(call, run, ceiling):
        return refused
    approval = newest_for(run, call.call_id)
    if approval is None and past_soft_limit(run, policy.caps):
        reason = "Most of the budget is used: conclude now with what you have; no further call is made."
        return Refused(reason, ceiling, "conclude now")
    state = run.call(call.call_id)
    again = offer(run, call_key(call.spec.name, call.arguments, _branch_of(call, run)), call.spec.authority)
    if not (state and state.verdict) and again.offers > 1:
        reason = (
            "This exact call was already made and nothing has changed since. Use that result, "
            "try another way, or conclude."
        )
        return Refused(reason, ceiling, "repetition")
    if denial_key(call) in run.denied and (approval is None or approval.status != "denied"):
        reason = "A person denied this call earlier in this run; it is not asked again. Find another way or conclude."
        return Refused(reason, ceiling, "denied")
    return None


def _within(call: ToolCall, session: Session, ceiling: Authority) -> str:
    trust = session.label.trust.word
    return f"{call.spec.authority.word} is within the ceiling {ceiling.word} that trust {trust} leaves"


def _above(call: ToolCall, session: Session, policy: Policy, ceiling: Authority) -> Verdict:
    assert session.run is not None
    approval = newest_for(session.run, call.call_id)
    why = _why_held(call, session, ceiling)
    match approval.status if approval else None:
        case "denied" if approval:
            said = f" They said: {approval.reason}" if approval.reason else ""
            return Refused(f"A person denied this call.{said}", ceiling, "denied")
        case "expired":
            return Refused("Nobody decided about this call in time, so it was not made.", ceiling, "expired")
        case "approved" if approval:
            return _approved(call, approval, session, policy, ceiling)
        case _:
            return _ask(call, policy, ceiling, why)


def _approved(
    call: ToolCall, approval: Approval, session: Session, policy: Policy, ceiling: Authority
) -> Allowed | NeedsApproval:
    if approval.used:
        return NeedsApproval("its approval was used once already", ceiling, approval)
    if bound_digest(binding(call, session, policy)) != approval.digest:
        return NeedsApproval("what its approval was bound to has changed since", ceiling, approval)
    by = ", ".join(approval.decided_by)
    return Allowed(f"approved by {by} (approval {approval.id})", ceiling, approval)


def _ask(call: ToolCall, policy: Policy, ceiling: Authority, why: str) -> NeedsApproval | Refused:
    rule = policy.approvals.rule(call.spec.authority)
    needed = rule.distinct if rule else 1
    if rule is None or call.approvers is None or len(call.approvers) < needed:
        found = 0 if call.approvers is None else len(call.approvers)
        reason = (
            f"{why}; it needs {needed} approver{'s' if needed > 1 else ''} and {found} can be asked "
            f"(policy [approvals.{call.spec.authority.word}]). It was not made; tell the person so."
        )
        return Refused(reason, ceiling, "nobody may approve")
    return NeedsApproval(why, ceiling)


def _why_held(call: ToolCall, session: Session, ceiling: Authority) -> str:
    if call.spec.authority <= ceiling:
        return f"the policy says that a person always decides about {call.spec.name}"
    lowered = [source.name for source in session.label.sources if source.trust == session.label.trust]
    read = f" after reading {', '.join(lowered[:3])}" if lowered else ""
    trust = session.label.trust.word
    return f"{call.spec.authority.word} is above the ceiling {ceiling.word} that trust {trust} leaves{read}"
