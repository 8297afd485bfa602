"""Ask people about calls above the ceiling: who could decide, what exactly, until when.

1. Nobody is asked who may not decide; when nobody may, the call is refused at once.
2. All calls of a turn that need a person stand in one message, each with its own buttons and digest.
3. What an approval was bound to is looked up again before its call runs.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from bot.core import caps as limits
from bot.core import events as e
from bot.core.actions import Finish
from bot.core.approvals import binding, bound_digest, denial_key, eligible, newest_for
from bot.core.canon import clean
from bot.core.effects import CardLink, Effect, SessionStatus
from bot.core.errors import ModelMistake, OutsideFailed
from bot.core.gate import NeedsApproval, Refused, Verdict, admit, ceiling_for, needs_person
from bot.core.session import evolve, evolve_all
from bot.core.state import Approval, CallState, Session
from bot.core.tool import Tool, ToolCall, ToolContext, ToolError
from bot.core.view import card, card_key, progress
from bot.engine.desk import Desk
from bot.engine.storage import TimerSet
from bot.engine.writer import Writer, stamp

Prepared = ToolCall | Refused | NeedsApproval


def gate_event(call: CallState, verdict: Verdict) -> e.GateDecided:
    """The gate's word as the log keeps it."""
    word = {NeedsApproval: "needs_approval", Refused: "refused"}.get(type(verdict), "allowed")
    return e.GateDecided(
        call_id=call.call_id,
        verdict=word,
        reason=verdict.reason,
        ceiling=verdict.ceiling.word,
    )


async def prepare(desk: Desk, session: Session, call: CallState) -> Prepared:
    """The call as the gate judges it now, with what has to be looked up for it."""
    ceiling = ceiling_for(session.label, desk.policy)
    if call.invalid:
        return Refused(call.invalid, ceiling, "invalid")
    tool = desk.toolbox.get(call.tool)
    if tool is None or tool.spec not in desk.toolbox.specs(session.thread.channel):
        return Refused(f"The tool {call.tool} is no longer offered here.", ceiling, "not offered")
    proposed = ToolCall(call.call_id, tool.spec, call.arguments)
    if not needs_person(proposed, session, desk.policy):
        return proposed
    approval = newest_for(session.run, call.call_id) if session.run else None
    if approval and approval.status == "approved" and (lost := await _no_longer_entitled(desk, tool, approval)):
        return NeedsApproval(f"<@{lost}> approved it and may no longer do so", ceiling, approval)
    try:
        precondition = await _precondition(desk, session, tool, call)
    except ModelMistake as mistake:
        return Refused(str(mistake), ceiling, "precondition")
    return ToolCall(call.call_id, tool.spec, call.arguments, precondition, await _approvers(desk, session, tool))


async def _approvers(desk: Desk, session: Session, tool: Tool) -> frozenset[str] | None:
    rule = desk.policy.approvals.rule(tool.spec.authority)
    if rule is None or session.run is None:
        return frozenset()
    try:
        return eligible(rule, await desk.people.approvers(rule), session.run)
    except OutsideFailed as failure:
        desk.tracer.note("approvers.unknown", thread=str(session.thread), why=str(failure))
        return None


async def _no_longer_entitled(desk: Desk, tool: Tool, approval: Approval) -> str:
    """The id of a decider who may not decide any more; empty while all still may. Raises `OutsideFailed`."""
    rule = desk.policy.approvals.rule(tool.spec.authority)
    entitled = await desk.people.approvers(rule) if rule else frozenset()
    for user in approval.decided_by:
        if user not in entitled or not (await desk.people.lookup(user)).is_member:
            return user
    return ""


async def _precondition(desk: Desk, session: Session, tool: Tool, call: CallState) -> Any:
    if tool.precondition is None:
        return None
    assert session.run is not None
    context = ToolContext(
        session.thread,
        session.run.principal,
        session.run.id,
        call.call_id,
        "",
        limits.deadline(session, desk.clock.now()),
        desk.toolbox.resources,
    )
    left = (context.deadline - desk.clock.now()).total_seconds()
    try:
        async with asyncio.timeout(max(0.0, min(tool.spec.timeout_s, left))):
            return clean(await tool.precondition(tool.parse(call.arguments), context))
    except ToolError as error:
        raise ModelMistake(f"{tool.name} was not run: {error}") from None
    except Exception as fault:
        reference = desk.clock.new_id("tool")
        desk.tracer.note("precondition.failed", tool=tool.name, reference=reference, error=type(fault).__name__)
        raise ModelMistake(
            f"{tool.name} was not run: its state could not be looked up (reference {reference}). "
            "Try again later or conclude."
        ) from fault


async def ask(desk: Desk, writer: Writer, call: CallState, verdict: NeedsApproval) -> Finish | None:
    """Ask about that call and every other call of the turn that needs a person; or hand over."""
    session = writer.session
    assert session.run is not None
    if session.run.asks >= desk.policy.approvals.asks_per_run:
        detail = f"This run has asked people {session.run.asks} times already; {call.tool} needs another yes."
        return Finish("escalated", "hand_over", detail=detail)
    batch = desk.clock.new_id("ask")
    events: list[e.Event] = []
    for one, why in await _all_that_need(desk, session, call, verdict):
        events += [*_voided(why), gate_event(one, why)]
        events.append(await _request(desk, session, one, why, batch))
    after = evolve_all(session, events)
    asked = [event for event in events if isinstance(event, e.ApprovalRequested)]
    timers = _timers(desk, asked, batch)
    await writer.write(*events, effects=_effects(desk, after, batch, verdict), timers=timers)
    return None


def _timers(desk: Desk, asked: list[e.ApprovalRequested], batch: str) -> list[TimerSet]:
    timers = [
        TimerSet(f"expire:{one.approval_id}", datetime.fromisoformat(one.expires_at), {"approval_id": one.approval_id})
        for one in asked
    ]
    rules = desk.policy.approvals
    if rules.remind_after_s < rules.expires_after_s:
        due = desk.clock.now() + timedelta(seconds=rules.remind_after_s)
        timers.append(TimerSet(f"remind:{batch}", due, {"batch": batch}))
    return timers


async def _all_that_need(
    desk: Desk, session: Session, first: CallState, verdict: NeedsApproval
) -> list[tuple[CallState, NeedsApproval]]:
    """That call, and those after it that would be stopped likewise as things are now."""
    assert session.run is not None
    found = [(first, verdict)]
    calls = session.run.open_calls
    open_ids = {one.call_id for one in session.run.open_approvals}
    # As if the ones before had been decided about: the same call twice is a repeat, and nobody is asked about it.
    session = evolve(session, gate_event(first, verdict))
    for call in calls[calls.index(first) + 1 :]:
        if call.started or call.call_id in open_ids:
            continue
        prepared = await prepare(desk, session, call)
        other = prepared if not isinstance(prepared, ToolCall) else admit(prepared, session, desk.policy)
        if isinstance(other, NeedsApproval):
            found.append((call, other))
            session = evolve(session, gate_event(call, other))
    return found


def _voided(verdict: NeedsApproval) -> list[e.Event]:
    if verdict.voids is None:
        return []
    return [e.ApprovalVoided(approval_id=verdict.voids.id, why=verdict.reason)]


async def _request(
    desk: Desk, session: Session, call: CallState, verdict: NeedsApproval, batch: str
) -> e.ApprovalRequested:
    tool = desk.toolbox.get(call.tool)
    assert tool is not None
    try:
        precondition = await _precondition(desk, session, tool, call)
    except ModelMistake:
        precondition = None  # it held a moment ago; at execution it is looked up again and will not match
    approvers = await _approvers(desk, session, tool) or frozenset()
    proposed = ToolCall(call.call_id, tool.spec, call.arguments, precondition, approvers)
    bound = binding(proposed, session, desk.policy)
    rule = desk.policy.approvals.rule(tool.spec.authority)
    until = desk.clock.now() + timedelta(seconds=desk.policy.approvals.expires_after_s)
    return e.ApprovalRequested(
        approval_id=desk.clock.new_id("apr"),
        batch=batch,
        call_id=call.call_id,
        tool=call.tool,
        arguments=dict(call.arguments),
        digest=bound_digest(bound),
        binding=bound,
        expires_at=stamp(until),
        why=verdict.reason,
        read=[source.name for source in session.label.sources],
        approvers=sorted(approvers),
        distinct=rule.distinct if rule else 1,
        critical=list(tool.spec.critical_args),
        denial_key=denial_key(proposed),
    )


def _effects(desk: Desk, after: Session, batch: str, verdict: NeedsApproval) -> list[Effect]:
    effects: list[Effect] = []
    if verdict.voids is not None:
        effects.append(card(after, verdict.voids.batch, desk.policy))
    shown = card(after, batch, desk.policy)
    effects += [progress(after, "waiting"), shown, SessionStatus(key="status", status="suspended")]
    if desk.policy.approvals.channel:
        tools = ", ".join(one.tool for one in shown.calls)
        effects.append(
            CardLink(
                key=f"link:{batch}",
                channel=desk.policy.approvals.channel,
                card_key=card_key(batch),
                summary=f"A decision is needed: {tools}, asked by <@{shown.asker}>",
            )
        )
    return effects
