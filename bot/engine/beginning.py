"""A run begins: what a replay needs is pinned, earlier messages are imported, the question enters."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

from bot.core import events as e
from bot.core.canon import canonical, clean, digest
from bot.core.effects import Progress, SessionStatus
from bot.core.errors import OutsideFailed
from bot.core.labels import Trust
from bot.engine.accept import Accepted
from bot.engine.desk import Desk
from bot.engine.storage import InboxItem
from bot.engine.writer import Writer, stamp

_NEW = re.compile(r"\s*new\s*(?::|\n)\s*(?P<question>\S.*)", re.IGNORECASE | re.DOTALL)


async def begin(desk: Desk, writer: Writer, item: InboxItem, accepted: Accepted) -> None:
    """Start the run that this message asks for."""
    principal = accepted.person.user
    fresh, accepted = anew(accepted)
    run_id = desk.clock.new_id("run")
    pins = pinned(desk, writer.session.thread.channel)
    started = e.RunStarted(
        run_id=run_id,
        principal=principal,
        deadline=stamp(desk.clock.now() + timedelta(seconds=desk.policy.caps.deadline_s)),
        pins={name: digest(content) for name, content in pins.items()},
        policy_version=desk.policy.version,
        fresh=fresh,
        by_bot=accepted.person.is_bot,
        tools=[spec.name for spec in desk.toolbox.specs(writer.session.thread.channel)],
    )
    events: list[e.Event] = [started]
    if accepted.body.get("thread_reply") and not writer.session.heard and not fresh:
        events += await _history(desk, writer, str(accepted.body["ts"]))
    writer.stop.clear()
    await writer.write(
        *events,
        accepted.event(principal),
        consumed=[item.id],
        effects=[
            SessionStatus(key="status", status="processing"),
            Progress(key=f"progress:{run_id}", steps=[], state="working"),
        ],
        pins={digest(content): canonical(content).decode() for content in pins.values()},
    )


def anew(accepted: Accepted) -> tuple[bool, Accepted]:
    """Whether the asker begins with a fresh context (`new: QUESTION`), and the message without that word.

    Nothing that was said or read before enters such a run, so nothing of it holds the label down.
    """
    found = _NEW.match(str(accepted.body.get("text", "")))
    if found is None:
        return False, accepted
    return True, replace(accepted, body={**accepted.body, "text": found["question"]})


def pinned(desk: Desk, channel: str) -> dict[str, Any]:
    """What decides how this run goes besides the log, by name, as JSON."""
    tools = [
        {
            "name": spec.name,
            "description": spec.description,
            "input_schema": dict(spec.input_schema),
            "definition": spec.definition,
        }
        for spec in desk.toolbox.specs(channel)
    ]
    return {
        "model": desk.policy.model.model_dump(mode="json"),
        "policy": desk.policy.model_dump(mode="json"),
        "prompt": desk.prompt,
        "tools": tools,
        "renderer": desk.surface.renderer,
    }


async def _history(desk: Desk, writer: Writer, before_ts: str) -> list[e.Event]:
    """What stood in the thread before we were asked; each author is looked up, unknown ones are strangers."""
    try:
        messages, left_out = await desk.surface.history(writer.session.thread, before_ts)
    except OutsideFailed as failure:
        desk.tracer.note("history.unreadable", thread=str(writer.session.thread), why=str(failure))
        return []
    trust_of = {author: await _trust(desk, author) for author in {str(one.get("author")) for one in messages}}
    imported, lowest = [], Trust.INTERNAL
    for one in messages:
        trust = Trust.UNTRUSTED if one.get("bot") or one.get("quoted") else trust_of[str(one.get("author"))]
        lowest = min(lowest, trust)
        kept = {"ts": one["ts"], "author": one["author"], "text": one["text"], "trust": trust.word}
        imported.append(clean(kept))
    word: Any = lowest.word
    return [e.HistoryImported(messages=imported, left_out=left_out, trust=word)] if imported else []


async def _trust(desk: Desk, author: str) -> Trust:
    try:
        return Trust.INTERNAL if (await desk.people.lookup(author)).is_member else Trust.UNTRUSTED
    except OutsideFailed:
        return Trust.UNTRUSTED
