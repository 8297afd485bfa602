"""An asker changed or removed a question."""

from __future__ import annotations

from bot.core import events as e
from bot.core.effects import Effect, Notice, SessionStatus
from bot.core.gate import Refused, ceiling_for
from bot.core.session import evolve_all
from bot.core.state import Run, Session
from bot.core.view import card
from bot.engine.desk import Desk
from bot.engine.dispatch import not_run
from bot.engine.storage import InboxItem, TimerSet
from bot.engine.writer import Writer


async def edited(desk: Desk, writer: Writer, item: InboxItem) -> bool:
    """A material edit of a running question voids what is open and enters as a correction; else it is noted.

    Returns False, leaving the item, while a call that was started has no result yet.
    """
    run = writer.session.run
    if run and any(call.started for call in run.open_calls):
        return False
    ts, author, text = (str(item.body.get(name, "")) for name in ("ts", "author", "text"))
    heard = writer.session.heard.get(ts)
    if heard is None:
        await writer.write(consumed=[item.id])
        return True
    material = _words(heard.text) != _words(text) and author == heard.author
    noted = e.MessageEdited(ts=ts, author=author, text=text, material=material)
    if not material or run is None or ts not in run.messages:
        effects: list[Effect] = []
        if material:
            line = "You changed a question that is already answered. Mention me again to have it done anew."
            effects = [Notice(key=f"edited:{ts}:{item.id}", text=line)]
        await writer.write(noted, consumed=[item.id], effects=effects)
        return True
    why = "the question was changed after this was asked"
    events = [*_voiding(desk, writer.session, run, why), noted]
    correction = e.MessageReceived(
        ts=f"{ts}#{item.id}",
        author=author,
        trust="untrusted" if _foreign(item) else "principal" if author == run.principal else "internal",
        text=f"Correction, this replaces my earlier message: {text}",
    )
    await _write(desk, writer, item, [*events, correction])
    return True


async def deleted(desk: Desk, writer: Writer, item: InboxItem) -> None:
    """A question that is gone is not worked on any more."""
    ts = str(item.body.get("ts", ""))
    run = writer.session.run
    if ts not in writer.session.heard:
        await writer.write(consumed=[item.id])
        return
    events: list[e.Event] = [e.MessageDeleted(ts=ts)]
    if run and ts in run.messages:
        events.append(e.Cancelled(by=writer.session.heard[ts].author))
        writer.stop.set()
    await writer.write(*events, consumed=[item.id])


def _foreign(item: InboxItem) -> bool:
    """Whether the new text holds what is not a member's own word."""
    return any(item.body.get(name) for name in ("quoted", "files", "external"))


def _words(text: str) -> str:
    return " ".join(text.split())


def _voiding(desk: Desk, session: Session, run: Run, why: str) -> list[e.Event]:
    """Open and unused approvals are void, and the calls they were for get their one result."""
    ceiling = ceiling_for(session.label, desk.policy)
    events: list[e.Event] = [
        e.ApprovalVoided(approval_id=one.id, why=why)
        for one in run.approvals.values()
        if one.status in ("open", "approved") and not one.used
    ]
    refused = Refused(f"Not made: {why}.", ceiling, "corrected")
    return events + [not_run(call, refused) for call in run.open_calls if not call.started]


async def _write(desk: Desk, writer: Writer, item: InboxItem, events: list[e.Event]) -> None:
    after = evolve_all(writer.session, events)
    voided = [event.approval_id for event in events if isinstance(event, e.ApprovalVoided)]
    effects: list[Effect] = []
    if after.run:
        batches = dict.fromkeys(after.run.approvals[one].batch for one in voided)
        effects = [card(after, batch, desk.policy) for batch in batches]
    if voided:
        effects.append(SessionStatus(key="status", status="processing"))
    timers = [TimerSet(f"expire:{one}", None) for one in voided]
    await writer.write(*events, consumed=[item.id], effects=effects, timers=timers)
