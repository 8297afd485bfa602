"""What came in becomes events: messages taken or ignored, votes, stops, edits, confirmations.

1. An inbox item is consumed in the same commit as the events it became: never twice, never lost.
2. Stops, edits, deletions, clicks and timers act at once. Messages enter only between turns; while a
   person decides they wait, and their author is told so.
3. Who somebody is gets looked up; when nobody can say, the answer is no, said aloud.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from bot.core import events as e
from bot.core.canon import clean
from bot.core.effects import Notice
from bot.core.state import Session
from bot.engine.accept import Accepted, judge_message
from bot.engine.beginning import begin
from bot.engine.clicks import click, due
from bot.engine.corrections import deleted, edited
from bot.engine.desk import Desk
from bot.engine.storage import InboxItem
from bot.engine.writer import Writer


async def absorb(desk: Desk, writer: Writer) -> bool:
    """Take in what waits; returns whether anything was consumed."""
    items = await desk.store.inbox.pending(writer.held.thread)
    writer.looked = items[-1].id if items else ""
    # Slack's JSON may hold half a surrogate pair, for which the log has no bytes: it would be refused for ever.
    took = [await _take(desk, writer, replace(item, body=clean(dict(item.body)))) for item in items]
    writer.left = not all(took)
    return any(took)


async def _take(desk: Desk, writer: Writer, item: InboxItem) -> bool:
    match item.kind:
        case "message":
            return await _message(desk, writer, item)
        case "click":
            await click(desk, writer, item)
        case "timer":
            await due(desk, writer, item)
        case "stop":
            await _stop(writer, item)
        case "edit":
            return await edited(desk, writer, item)
        case "delete":
            await deleted(desk, writer, item)
        case "posted":
            pairs = item.body.get("keys", [])
            await writer.write(*(e.Posted(ts=str(ts), key=str(key)) for key, ts in pairs), consumed=[item.id])
        case _ as never:
            assert_never(never)
    return True


async def _stop(writer: Writer, item: InboxItem) -> None:
    user = str(item.body.get("user", ""))
    if item.body.get("external"):
        ignored = e.MessageIgnored(
            ts=str(item.body.get("ts", "")), reason="a stop from outside the workspace", author=user
        )
        await writer.write(ignored, consumed=[item.id])
        return
    events = [e.Cancelled(by=user)] if writer.session.run else []
    if events:
        writer.stop.set()
    await writer.write(*events, consumed=[item.id])


async def _message(desk: Desk, writer: Writer, item: InboxItem) -> bool:
    session = writer.session
    if item.body.get("ts") in session.heard:
        await writer.write(consumed=[item.id])
        return True
    judged = await judge_message(desk, session, item)
    if not isinstance(judged, Accepted):
        await writer.write(judged.event, consumed=[item.id], effects=judged.effects)
        return True
    run = session.run
    if run is None:
        await begin(desk, writer, item, judged)
        return True
    if run.waiting:
        return await _hold(writer, item, session)
    if run.open_calls or run.cancelled_by or run.reply is not None:
        # Between turns only: results come first, and an answer that is there is said before the next word is read.
        return False
    await writer.write(judged.event(run.principal), consumed=[item.id])
    return True


async def _hold(writer: Writer, item: InboxItem, session: Session) -> bool:
    """Tell the author once who decides and until when; the message waits in the inbox."""
    key = f"held:{item.body.get('ts')}"
    if key in session.posted or key in writer.told:
        return False
    writer.told.add(key)
    await writer.write(effects=[Notice(key=key, text=held_line(session))])
    return False


def held_line(session: Session) -> str:
    """One line for somebody who writes while a person decides."""
    assert session.run is not None
    asked = session.run.open_approvals
    who = ", ".join(f"<@{user}>" for user in asked[0].approvers) or "nobody"
    until = asked[0].expires_at[:16].replace("T", " ")
    return f"I will read this once {who} decided about the open request (until {until} UTC). `stop` drops it."
