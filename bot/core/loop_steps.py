"""What the events of the loop do to a session: reason, act, observe."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bot.core import branches, plans, todo
from bot.core import events as e
from bot.core.authority import Authority
from bot.core.frozen import replace
from bot.core.item import Item, said
from bot.core.labels import Label, Readers, Source, Trust
from bot.core.progress import call_key, facts_of, offer
from bot.core.replies import ENDS, NUDGE, asked_again, usable
from bot.core.state import CallState, Reading, Run, Session
from bot.core.todo import TODO


def label_of(kind: str, name: str, trust: str, readers: Any) -> Label:
    """The label of one text; unreadable words fail closed."""
    found = Trust.parse(trust)
    sources = (Source(kind, name, found),) if found < Trust.PRINCIPAL else ()
    return Label(found, Readers.parse(readers), sources)


def _requested(session: Session, event: e.ModelRequested) -> Session:
    run = _live(session)
    if event.branch:
        return replace(session, run=branches.requested(run, event))
    # A request that is followed by another one, not by a reply, may have been charged: at its worst for the
    # budgets, and for the books by what it is known to have used.
    run = replace(
        run,
        turns=max(run.turns, event.turn),
        usage=run.usage.plus(event.lost),
        cost_usd=run.cost_usd + event.lost_usd,
        lost_tokens=run.lost_tokens + max(0, run.reserved_tokens - event.lost.total),
        lost_usd=run.lost_usd + max(0.0, run.reserved_usd - event.lost_usd),
        reserved_tokens=event.reserved_tokens,
        reserved_usd=event.reserved_usd,
        output_limit=event.max_output_tokens,
        pending=event.role,
    )
    if event.role == "agent":
        seq = session.entries + 1
        # What one model counted says nothing of another one's tokens, not even for an attempt that is made twice.
        known = run.known_input if event.model == run.asked_model else (0, 0)
        run = replace(
            run, request_bytes=event.request_bytes, requested_at=seq, asked_model=event.model, known_input=known
        )
    return replace(session, run=run)


def _replied(session: Session, event: e.ModelReplied) -> Session:
    run = _live(session)
    if event.branch:
        return branches.replied(session, event)
    run = replace(
        run,
        usage=run.usage.plus(event.usage),
        cost_usd=run.cost_usd + event.cost_usd,
        reserved_tokens=0,
        reserved_usd=0.0,
        pending="",
    )
    if event.role != "agent":
        return replace(session, run=run)
    run = replace(
        run,
        known_input=(run.request_bytes, event.usage.total - event.usage.output_tokens),
        reply=event,
        calls=(),
        turn_facts=0,
        turn_refused_to_conclude=False,
        cut=run.cut + 1 if event.stop_reason == "max_tokens" else 0,
    )
    return _into_transcript(replace(session, run=run, last_reply=event.request_id), run, event)


def _into_transcript(session: Session, run: Run, event: e.ModelReplied) -> Session:
    """What the next request shows of a reply: nothing of one that is asked for again."""
    if asked_again(event, run):
        return session
    if content := usable(event.content):
        piece = Item("assistant", content, session.entries + 1, run.asked_model, ended=event.stop_reason)
        return replace(session, transcript=(*session.transcript, piece))
    if event.stop_reason not in ENDS or run.nudged:
        return session
    nudge = (said("assistant", "(no reply)", session.entries + 1), said("user", NUDGE, session.entries + 1))
    run = replace(run, nudged=True, reply=None)
    return replace(session, run=run, transcript=(*session.transcript, *nudge))


def _tool_requested(session: Session, event: e.ToolRequested) -> Session:
    run = _live(session)
    authority = Authority.parse(event.authority)
    call = CallState(event.call_id, event.tool, event.arguments, authority, event.stage, event.invalid, event.branch)
    inquiry = run.inquiry.with_call(event.call_id) if run.inquiry and event.branch else run.inquiry
    run = replace(run, calls=(*run.calls, call), steps=(*run.steps, event.tool), inquiry=inquiry)
    return replace(session, run=run)


def _gate_decided(session: Session, event: e.GateDecided) -> Session:
    run = _live(session)
    call = run.call(event.call_id)
    if call and not call.verdict and not call.invalid:
        key = call_key(call.tool, call.arguments, call.branch)
        tried = offer(run, key, call.authority)
        run = replace(run, tried={**run.tried, key: tried}, repeated=max(run.repeated, tried.offers))
    return _with_call(replace(session, run=run), event.call_id, verdict=event.verdict)


def _tool_started(session: Session, event: e.ToolStarted) -> Session:
    run = _live(session)
    used = {
        key: replace(one, used=True) if one.call_id == event.call_id and one.status == "approved" else one
        for key, one in run.approvals.items()
    }
    return _with_call(
        replace(session, run=replace(run, approvals=used)), event.call_id, started=True, key=event.idempotency_key
    )


def _effect_unknown(session: Session, event: e.EffectUnknown) -> Session:
    return _with_call(session, event.call_id, unknown=True)


def _returned(session: Session, event: e.ToolReturned) -> Session:
    block = _result_block(event)
    session = _with_call(session, event.call_id, returned=True, unknown=False, result=block)
    run = _live(session)
    call = run.call(event.call_id)
    assert call is not None, "a result for a call that was never asked for"
    done = event.ran and event.ok
    new = facts_of(call.tool, event.content) - run.facts if event.ok else frozenset()
    changed = done and call.authority >= Authority.LOCAL_WRITE
    # A change that failed may have happened all the same: looking again is no repeat.
    touched = event.ran and call.authority >= Authority.LOCAL_WRITE
    looked = done and call.tool != TODO
    run = replace(
        run,
        facts=run.facts | new,
        turn_facts=run.turn_facts + len(new) + changed,
        world=run.world + touched,
        tried=_forgive(run, call) if event.retryable else run.tried,
        unverified=(*run.unverified, call.tool) if changed else () if looked else run.unverified,
        plan=_plan_after(run, call, event),
        todo=todo.lines(call.arguments) if done and not looked and not call.branch else run.todo,
    )
    run = branches.looked_at(run, call) if looked and call.branch else run
    if not event.ran and isinstance(event.content, dict) and event.content.get("refused") == "conclude now":
        run = replace(run, turn_refused_to_conclude=True)
    label = label_of("tool", call.tool, event.trust, event.readers) if event.ran else Label()
    reading = Reading(call.tool, label.trust, str(block["content"]), run.id, is_result=True)
    readings = (*session.readings, reading) if looked else session.readings
    session = replace(session, run=run, label=session.label.join(label), readings=readings)
    return session if run.open_calls else _turn_ended(session)


def _plan_after(run: Run, call: CallState, event: e.ToolReturned) -> plans.Plan | None:
    if run.plan and event.ran:
        return plans.after_call(run.plan, call.tool, ok=event.ok)
    refused = event.content.get("refused") if isinstance(event.content, dict) else None
    if run.plan and refused == plans.UNPLANNED:
        return replace(run.plan, surprise=run.plan.surprise or f"No step that was left was for {call.tool}.")
    return run.plan


def _turn_ended(session: Session) -> Session:
    """Results of a turn enter the transcript together, in the model's order, whatever order they came in."""
    run = _live(session)
    fruitful = run.turn_facts or run.turn_refused_to_conclude
    # A reply that was cut off still ends the run once its calls are closed.
    reply = None if run.reply and run.reply.stop_reason in ("tool_use", "pause_turn") else run.reply
    run = replace(run, barren=0 if fruitful else run.barren + 1, reply=reply)
    results = branches.results_of(run, session.entries + 1)
    return replace(session, run=run, transcript=(*session.transcript, *results))


def _result_block(event: e.ToolReturned) -> dict[str, Any]:
    content = event.content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    block = {"type": "tool_result", "tool_use_id": event.call_id, "content": text.strip() or "(no output)"}
    # A refusal is an ordinary result: the call did not fail, it was not made.
    return block | {"is_error": True} if event.ran and not event.ok else block


def _forgive(run: Run, call: CallState) -> dict[str, Any]:
    key = call_key(call.tool, call.arguments, call.branch)
    return {**run.tried, key: replace(run.tried[key], free=True)} if key in run.tried else dict(run.tried)


def _live(session: Session) -> Run:
    assert session.run is not None, "an event of a run outside a run"
    return session.run


def _with_call(session: Session, call_id: str, **changes: Any) -> Session:
    run = _live(session)
    calls = tuple(replace(one, **changes) if one.call_id == call_id else one for one in run.calls)
    return replace(session, run=replace(run, calls=calls))


LOOP_STEPS: dict[type[e.Event], Callable[[Session, Any], Session]] = {
    e.ModelRequested: _requested,
    e.ModelReplied: _replied,
    e.ToolRequested: _tool_requested,
    e.GateDecided: _gate_decided,
    e.ToolStarted: _tool_started,
    e.EffectUnknown: _effect_unknown,
    e.ToolReturned: _returned,
}
