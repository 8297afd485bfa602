"""A person decides: who it is gets looked up at the click, and every attempt is in the log."""

from __future__ import annotations

from typing import Literal

from bot.core import events as e
from bot.core.approvals import NotEntitled, judge
from bot.core.effects import Effect, Notice, SessionStatus, Whisper
from bot.core.errors import OutsideFailed
from bot.core.policy import ApproverRule
from bot.core.session import evolve_all
from bot.core.state import Approval, Run, Session
from bot.core.view import card
from bot.core.words import Person
from bot.engine.desk import Desk
from bot.engine.storage import InboxItem, TimerSet
from bot.engine.writer import Writer

Word = Literal["approve", "deny"]


async def click(desk: Desk, writer: Writer, item: InboxItem) -> None:
    """One click on Approve or Deny."""
    user, approval_id = str(item.body.get("user", "")), str(item.body.get("approval_id", ""))
    run = writer.session.run
    approval = run.approvals.get(approval_id) if run else None
    if run is None or approval is None:
        await _refuse(writer, item, approval_id, user, "this request is closed; its run has ended")
        return
    if item.body.get("tampered"):
        await _refuse(writer, item, approval_id, user, "the button did not carry what we put there")
        return
    vote: Word = "approve" if item.body.get("vote") == "approve" else "deny"
    rule = _rule(desk, run, approval)
    person, entitled = await _who(desk, user, rule)
    judged = judge(approval, person=person, vote=vote, clicked_at=item.at, entitled=entitled, rule=rule, run=run)
    if isinstance(judged, NotEntitled):
        await _refuse(writer, item, approval_id, user, judged.because)
        return
    events = _said(approval, user, vote, str(item.body.get("reason", "")), decides=judged.decides)
    await settle(desk, writer, approval, events, consumed=[item.id])


def _said(approval: Approval, user: str, vote: Word, reason: str, *, decides: bool) -> list[e.Event]:
    events: list[e.Event] = [e.ApprovalVoted(approval_id=approval.id, by=user, vote=vote)]
    if decides and vote == "approve":
        by = [*approval.votes, user]
        events.append(e.ApprovalDecided(approval_id=approval.id, decision="approved", by=by, reason=reason))
    elif decides:
        events.append(e.ApprovalDecided(approval_id=approval.id, decision="denied", by=[user], reason=reason))
    return events


async def settle(desk: Desk, writer: Writer, approval: Approval, events: list[e.Event], *, consumed: list[str]) -> None:
    """Write what became of an approval, and show it on its card."""
    after = evolve_all(writer.session, events)
    effects: list[Effect] = [card(after, approval.batch, desk.policy)] if after.run else []
    timers = []
    if after.run and after.run.approvals[approval.id].status != "open":
        timers.append(TimerSet(f"expire:{approval.id}", None))
    if _resumes(writer.session, after):
        effects.append(SessionStatus(key="status", status="processing"))
    await writer.write(*events, consumed=consumed, effects=effects, timers=timers)


def _resumes(before: Session, after: Session) -> bool:
    return bool(before.run and before.run.waiting and after.run and not after.run.waiting)


async def due(desk: Desk, writer: Writer, item: InboxItem) -> None:
    """A timer came due: an approval that is still open has expired, or its approvers are reminded once."""
    run = writer.session.run
    if run and (batch := str(item.body.get("batch", ""))):
        waiting = [one for one in run.open_approvals if one.batch == batch]
        effects = [reminder(waiting, batch)] if waiting else []
        await writer.write(consumed=[item.id], effects=effects)
        return
    approval = run.approvals.get(str(item.body.get("approval_id", ""))) if run else None
    if approval is None or approval.status != "open":
        await writer.write(consumed=[item.id])
        return
    decided = e.ApprovalDecided(approval_id=approval.id, decision="expired", by=[])
    await settle(desk, writer, approval, [decided], consumed=[item.id])


def reminder(waiting: list[Approval], batch: str) -> Notice:
    """One line to those who may decide, before it lapses."""
    people = sorted({person for one in waiting for person in one.approvers})
    who = ", ".join(f"<@{person}>" for person in people[:20])
    tools = ", ".join(dict.fromkeys(one.tool for one in waiting))
    until = waiting[0].expires_at[:16].replace("T", " ")
    return Notice(key=f"remind:{batch}", text=f"Still waiting for a decision about {tools}: {who}, until {until} UTC.")


async def _refuse(writer: Writer, item: InboxItem, approval_id: str, user: str, because: str) -> None:
    attempted = e.ApprovalAttempted(approval_id=approval_id, by=user, refused_because=because)
    line = f"Nothing was decided: {because}."
    await writer.write(attempted, consumed=[item.id], effects=[Whisper(key=f"attempt:{item.id}", user=user, text=line)])


def _rule(desk: Desk, run: Run, approval: Approval) -> ApproverRule | None:
    call = run.call(approval.call_id)
    return desk.policy.approvals.rule(call.authority) if call else None


async def _who(desk: Desk, user: str, rule: ApproverRule | None) -> tuple[Person | None, frozenset[str] | None]:
    try:
        person = await desk.people.lookup(user)
        return person, await desk.people.approvers(rule) if rule else frozenset()
    except OutsideFailed as failure:
        desk.tracer.note("click.unknown", user=user, why=str(failure))
        return None, None
