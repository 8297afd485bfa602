"""An approval's life, who may decide, and what voids it.

| from | event | to |
|---|---|---|
| - | ApprovalRequested | open |
| open | ApprovalVoted approve, fewer than `distinct` people | open |
| open | ApprovalDecided | approved, denied or expired |
| open, approved | ApprovalVoided | voided |
| approved | ToolStarted of its call | used: it admits nothing any more |

1. An approval admits the one call it was asked for, with exactly the facts that its digest was taken over.
2. People are ids that the workspace vouched for at the click; names never count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.core import events as e
from bot.core.canon import digest
from bot.core.frozen import replace
from bot.core.policy import ApproverRule, Policy
from bot.core.state import Approval, Run, Session
from bot.core.tool import ToolCall
from bot.core.words import Person


def binding(call: ToolCall, session: Session, policy: Policy) -> dict[str, Any]:
    """Everything an approval of that call is bound to, as it is now."""
    run = session.run
    return {
        "tool": call.spec.name,
        "definition": call.spec.definition,
        "arguments": dict(call.arguments),
        "precondition": call.precondition,
        "thread": str(session.thread),
        "principal": run.principal if run else "",
        "trust": session.label.trust.word,
        "readers": session.label.readers.dump(),
        "policy": policy.version,
    }


def bound_digest(bound: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of a binding."""
    return digest(dict(bound))


def newest_for(run: Run, call_id: str) -> Approval | None:
    """The approval that was last asked for that call."""
    found = [one for one in run.approvals.values() if one.call_id == call_id]
    return found[-1] if found else None


def denial_key(call: ToolCall) -> str:
    """What a denial is remembered by: tool, critical arguments and destination."""
    names = sorted({*call.spec.critical_args, *call.spec.destination})
    return digest({"tool": call.spec.name, "arguments": {name: call.arguments.get(name) for name in names}})


@dataclass(frozen=True)
class Vote:
    """An entitled person's click."""

    decides: bool
    """Whether the question is closed by it."""


@dataclass(frozen=True)
class NotEntitled:
    """A click that changes nothing, and what the person is told."""

    because: str


def judge(
    approval: Approval,
    *,
    person: Person | None,
    vote: str,
    clicked_at: str,
    entitled: frozenset[str] | None,
    rule: ApproverRule | None,
    run: Run,
) -> Vote | NotEntitled:
    """Whether that click counts.

    `person` and `entitled` are looked up at the click; `None` means nobody could look them up (fail closed).
    `clicked_at` is when the click reached the inbox, RFC 3339; expiry compares that.
    """
    if approval.status != "open":
        return NotEntitled(_ALREADY[approval.status].format(", ".join(f"<@{one}>" for one in approval.decided_by)))
    if clicked_at > approval.expires_at:
        return NotEntitled("this request had expired before your click; nothing was run")
    if person is None or entitled is None:
        return NotEntitled("nobody could check just now who you are, so nothing was decided; click again in a moment")
    if not person.is_member:
        return NotEntitled("only members of this workspace may decide, not guests, bots or other companies")
    if person.user not in entitled or rule is None:
        return NotEntitled("you are not among the people who may decide about this kind of call")
    if person.user in run.requesters and not rule.requester_may_approve and vote == "approve":
        return NotEntitled("you asked for this yourself, so somebody else must approve it")
    if person.user in approval.votes and vote == "approve":
        return NotEntitled("you have already approved this; another person must approve it as well")
    return Vote(decides=vote == "deny" or len(approval.votes) + 1 >= approval.distinct)


_ALREADY = {
    "approved": "this was already approved by {0}",
    "denied": "this was already denied by {0}",
    "expired": "this request has expired; nothing was run",
    "voided": "this request no longer holds, because something it was bound to has changed; nothing was run",
}


def eligible(rule: ApproverRule, entitled: frozenset[str], run: Run) -> frozenset[str]:
    """Who could approve: the entitled, requesters left out unless the rule lets them."""
    return entitled if rule.requester_may_approve else entitled - run.requesters


def evolve_approval(run: Run, event: e.Event) -> Run:
    """The run after an approval event; an event of an unknown approval changes nothing."""
    match event:
        case e.ApprovalRequested():
            return _asked(run, event)
        case e.ApprovalVoted() if event.vote == "approve":
            return _change(run, event.approval_id, lambda one: replace(one, votes=(*one.votes, event.by)))
        case e.ApprovalEdited():
            return _change(run, event.approval_id, lambda one: replace(one, arguments=event.after, digest=event.digest))
        case e.ApprovalDecided():
            return _decided(run, event)
        case e.ApprovalVoided():
            return _change(run, event.approval_id, lambda one: replace(one, status="voided", reason=event.why))
        case _:
            return run


def _asked(run: Run, event: e.ApprovalRequested) -> Run:
    approval = Approval(
        event.approval_id,
        event.batch,
        event.call_id,
        event.tool,
        event.arguments,
        event.digest,
        event.expires_at,
        tuple(event.approvers),
        event.distinct,
        event.why,
        tuple(event.critical),
        event.denial_key,
    )
    new_message = all(one.batch != event.batch for one in run.approvals.values())
    calls = tuple(
        replace(call, approval=event.approval_id) if call.call_id == event.call_id else call for call in run.calls
    )
    approvals = {**run.approvals, event.approval_id: approval}
    return replace(run, approvals=approvals, asks=run.asks + new_message, calls=calls)


def _decided(run: Run, event: e.ApprovalDecided) -> Run:
    approval = run.approvals.get(event.approval_id)
    if approval and event.decision == "denied":
        run = replace(run, denied=run.denied | {approval.denial_key})
    return _change(
        run,
        event.approval_id,
        lambda one: replace(one, status=event.decision, decided_by=tuple(event.by), reason=event.reason),
    )


def _change(run: Run, approval_id: str, how: Any) -> Run:
    if approval_id not in run.approvals:
        return run
    return replace(run, approvals={**run.approvals, approval_id: how(run.approvals[approval_id])})
