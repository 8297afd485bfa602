"""End a run: everything open is closed, and people get the one outcome."""

from __future__ import annotations

from bot.core import events as e
from bot.core.actions import Finish
from bot.core.branches import instead_of
from bot.core.effects import CardLink, Effect, SessionStatus
from bot.core.gate import Refused, ceiling_for
from bot.core.outcomes import post_for
from bot.core.session import evolve_all
from bot.core.state import Run
from bot.core.view import answer, card, progress
from bot.engine.desk import Desk
from bot.engine.dispatch import not_run
from bot.engine.storage import TimerSet
from bot.engine.writer import Writer


async def finish(desk: Desk, writer: Writer, end: Finish) -> None:
    """Write the terminal outcome and everything people are told, in one commit."""
    session = writer.session
    run = session.run
    if run is None:
        return
    end = instead_of(session, end)
    reference = desk.clock.new_id("ref")
    closing = _closing(desk, writer, run, end)
    after = evolve_all(session, closing)
    text = post_for(end.outcome, end.stop_reason, end.text, after, end.detail)
    finished = e.RunFinished(
        outcome=end.outcome,
        stop_reason=end.stop_reason,
        text=text,
        messages=list(run.messages),
        usage=run.usage.plus(writer.lost),
        cost_usd=run.cost_usd + writer.lost_usd,
        reference=reference,
    )
    said = answer(after, outcome=end.outcome, stop_reason=end.stop_reason, text=text, reference=reference)
    voided = {event.approval_id for event in closing if isinstance(event, e.ApprovalVoided)}
    batches = dict.fromkeys(run.approvals[one].batch for one in sorted(voided))
    effects: list[Effect] = [card(after, batch, desk.policy) for batch in batches]
    effects.append(progress(after, "done" if end.outcome == "answered" else "stopped"))
    effects += [said, *_handed_over(desk, run, end), SessionStatus(key="status", status="active")]
    timers = [TimerSet(f"expire:{one.id}", None) for one in run.open_approvals]
    await writer.write(*closing, finished, effects=effects, timers=timers)
    writer.booked()
    where = {"thread": str(session.thread), "run": run.id, "seq": writer.seq, "reference": reference}
    desk.tracer.note("run.finished", **where, outcome=end.outcome, stop_reason=end.stop_reason)


def _closing(desk: Desk, writer: Writer, run: Run, end: Finish) -> list[e.Event]:
    """Approvals that can never be used any more, and a result for each call that has none."""
    why = f"the run ended ({end.stop_reason})"
    ceiling = ceiling_for(writer.session.label, desk.policy)
    events: list[e.Event] = [
        e.ApprovalVoided(approval_id=one.id, why=why)
        for one in run.approvals.values()
        if one.status in ("open", "approved") and not one.used
    ]
    refused = Refused(f"Not made: {why}.", ceiling, end.stop_reason)
    return events + [not_run(call, refused) for call in run.open_calls]


def _handed_over(desk: Desk, run: Run, end: Finish) -> list[Effect]:
    channel = desk.policy.handover.channel
    if end.outcome != "escalated" or channel is None:
        return []
    summary = f"A run was handed over ({end.stop_reason.replace('_', ' ')}), asked by <@{run.principal}>"
    return [CardLink(key=f"handover:{run.id}", channel=channel, card_key=f"answer:{run.id}", summary=summary)]
