"""Whether a message is for us: a mention, a direct message, or the last asker going on (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot.core import events as e
from bot.core.effects import Effect, Notice, Whisper
from bot.core.errors import OutsideFailed
from bot.core.policy import Policy
from bot.core.state import Session
from bot.core.words import Person
from bot.engine.desk import Desk
from bot.engine.storage import InboxItem

MAX_BOT_RUNS = 10
"""Runs that bots may start in one thread (DESIGN section 9, [people] allow_bots)."""


@dataclass(frozen=True)
class Accepted:
    """It enters a run."""

    body: dict[str, Any]
    person: Person

    def event(self, principal: str) -> e.MessageReceived:
        """As the log keeps it: the principal's own word, another member's, or a stranger's."""
        quoted = [str(one) for one in self.body.get("quoted", [])]
        files = [f"file {name}" for name in self.body.get("files", [])]
        if quoted or files or not self.person.is_member:
            trust = "untrusted"
        else:
            trust = "principal" if self.person.user == principal else "internal"
        return e.MessageReceived(
            ts=str(self.body["ts"]),
            author=self.person.user,
            trust=trust,
            text=str(self.body.get("text", "")),
            lowered_by=[*(f"quote: {one[:60]}" for one in quoted), *files],
        )


@dataclass(frozen=True)
class Ignored:
    """It enters no run; the reason is in the log."""

    event: e.MessageIgnored
    effects: Sequence[Effect] = field(default_factory=tuple)


async def judge_message(desk: Desk, session: Session, item: InboxItem) -> Accepted | Ignored:
    """Accept or ignore, with the reason. A refused question gets one line; talk among people gets none."""
    body = dict(item.body)
    author = str(body.get("author", ""))
    addressed = bool(body.get("mentions_us") or body.get("direct"))
    if not addressed and (reason := _not_ours(desk.policy, session, body, author)):
        return _ignore(body, author, reason)
    if body.get("bot"):
        return await _bot(desk, session, body, author)
    try:
        person = await desk.people.lookup(author)
    except OutsideFailed as failure:
        desk.tracer.note("person.unknown", user=author, why=str(failure))
        line = "I could not check who you are just now, so I did not start. Please ask again in a minute."
        return _refuse(body, author, "lookup failed", line)
    return _admit_person(desk.policy, body, person)


def _not_ours(policy: Policy, session: Session, body: dict[str, Any], author: str) -> str:
    if not policy.channel(session.thread.channel).follow_up:
        return "follow-ups need a mention in this channel"
    if author != session.principal:
        return "not from the last asker, and it does not mention us"
    if body.get("addresses_others"):
        return "it addresses somebody else"
    if session.spoke_since_post - {author}:
        return "others have been talking since our last post"
    return ""


def _admit_person(policy: Policy, body: dict[str, Any], person: Person) -> Accepted | Ignored:
    if body.get("shared_channel") and not policy.people.allow_external:
        line = "This channel is shared with another company, and they would read my answer. Ask me elsewhere."
        return _refuse(body, person.user, "shared channel", line)
    external = person.is_external or bool(body.get("external"))
    allowed = (
        (person.is_member and not external)
        or (external and policy.people.allow_external)
        or (person.is_guest and not external and policy.people.allow_guests)
    )
    if allowed:
        return Accepted(body, person)
    line = "I only take questions from members of this workspace. Please ask somebody of the team."
    return _refuse(body, person.user, "external" if external else "guest", line)


async def _bot(desk: Desk, session: Session, body: dict[str, Any], author: str) -> Accepted | Ignored:
    if author not in desk.policy.people.allow_bots or not body.get("mentions_us"):
        return _ignore(body, author, "written by a bot")
    if session.bot_runs >= MAX_BOT_RUNS:
        ignored = _ignore(body, author, f"bots have started {MAX_BOT_RUNS} runs in this thread already")
        line = f"Bots have started {MAX_BOT_RUNS} runs here; from now on I wait for a person."
        return ignored if "bots" in session.posted else replace(ignored, effects=[Notice(key="bots", text=line)])
    return Accepted(body, Person(author, session.thread.team, is_member=False, is_bot=True))


def _ignore(body: dict[str, Any], author: str, reason: str) -> Ignored:
    return Ignored(e.MessageIgnored(ts=str(body.get("ts", "")), reason=reason, author=author))


def _refuse(body: dict[str, Any], author: str, reason: str, line: str) -> Ignored:
    whisper = Whisper(key=f"refused:{body.get('ts')}", user=author, text=line)
    return Ignored(e.MessageIgnored(ts=str(body.get("ts", "")), reason=reason, author=author), [whisper])
