"""What people see of a thread, computed from the log: progress, cards, the ending."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from bot.core import plans
from bot.core.authority import Authority
from bot.core.effects import Answer, Card, CardCall, Progress
from bot.core.labels import Trust
from bot.core.outcomes import unverified
from bot.core.policy import Policy
from bot.core.replies import text_of
from bot.core.state import Approval, Reading, Run, Session
from bot.core.todo import TODO

QUOTE_CHARACTERS = 600
"""Of each untrusted text on a card; the rest is counted. A phone shows about this much at once."""
QUOTES = 3
"""Untrusted texts quoted on a card; further ones are named."""
_URL = re.compile(r"https?://[^\s<>|\"'`]+")


def progress(session: Session, state: Literal["working", "waiting", "done", "stopped"]) -> Progress:
    """The one progress message of the live run."""
    run = _live(session)
    return Progress(key=f"progress:{run.id}", steps=_steps(run), state=state, badge=badge(session))


def _steps(run: Run) -> list[str]:
    """The plan, else the model's own list, else the tools that were called."""
    if run.plan:
        return plans.lines(run.plan, [call.tool for call in run.open_calls])
    if run.todo:
        return list(run.todo)
    done = run.steps[: len(run.steps) - len(run.open_calls)]
    marked = [("✓", tool) for tool in done] + [("…", tool) for tool in run.steps[len(done) :]]
    return [f"{mark} {_words(tool)}" for mark, tool in marked if tool != TODO]


def badge(session: Session) -> str:
    """Why less may be done than at first, in one line; empty while the ceiling has not fallen."""
    if session.trust >= Trust.INTERNAL:
        return ""
    names = dict.fromkeys(source.name for source in session.label.sources if source.trust == session.trust)
    read = ", ".join(_words(name) for name in list(names)[:3])
    return f"Read untrusted content ({read}): actions of higher authority now need a person."


def card_key(batch: str) -> str:
    """Key of the message that asks about a batch."""
    return f"card:{batch}"


def card(session: Session, batch: str, policy: Policy) -> Card:
    """The approval card of that batch as it stands now."""
    run = _live(session)
    asked = [one for one in run.approvals.values() if one.batch == batch]
    return Card(
        key=card_key(batch),
        asker=run.principal,
        why=asked[0].why,
        read=quotes(session.readings),
        model_reason=text_of(run.reply.content) if run.reply else "",
        approvers=sorted({person for one in asked for person in one.approvers}),
        expires_at=max(one.expires_at for one in asked),
        calls=[_card_call(session, run, one) for one in asked],
    )


def _card_call(session: Session, run: Run, approval: Approval) -> CardCall:
    call = run.call(approval.call_id)
    authority = call.authority if call else Authority.CRITICAL
    return CardCall(
        approval_id=approval.id,
        tool=approval.tool,
        authority=authority.word,
        arguments=dict(approval.arguments),
        critical=list(approval.critical),
        origins={name: origin(value, session.readings) for name, value in approval.arguments.items()},
        digest=approval.digest,
        distinct=approval.distinct,
        status=approval.status,
        decided_by=list(approval.decided_by),
        voted_by=list(approval.votes),
        note=approval.reason,
    )


def quotes(readings: Sequence[Reading]) -> list[str]:
    """What untrusted content was read, newest first, each cut with a mark."""
    strange = [one for one in reversed(readings) if one.trust < Trust.INTERNAL]
    shown = []
    for one in strange[:QUOTES]:
        source, text = _quoted(one)
        more = len(text) - QUOTE_CHARACTERS
        cut = f" [… {more} more characters, in the log]" if more > 0 else ""
        shown.append(f"{source}: “{text[:QUOTE_CHARACTERS]}”{cut}")
    if len(strange) > QUOTES:
        shown.append(f"and {len(strange) - QUOTES} more untrusted texts, in the log")
    return shown


def _quoted(reading: Reading) -> tuple[str, str]:
    """Where it came from and the stranger's own words, apart from what our system set beside them."""
    try:
        found = json.loads(reading.text)
    except ValueError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("text"), str):
        return f"{_words(reading.source)}, {found.get('source', 'no source named')}", found["text"]
    return _words(reading.source), reading.text


def origin(value: Any, readings: Sequence[Reading]) -> str:
    """Where a value stands literally, least trusted place first; nothing is folded.

    This tells a person where to look; it never decides anything: literal matches prove nothing.
    """
    needle = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not needle.strip():
        return "empty"
    pattern = re.compile(rf"(?<![\w.]){re.escape(needle)}(?![\w]|\.\d)")
    found = [one for one in readings if pattern.search(one.text)]
    if not found:
        return "written by the model; it stands in nothing that was read"
    lowest = min(found, key=lambda one: one.trust)
    others = len({one.source for one in found} - {lowest.source})
    also = f" and {others} other place{'s' if others > 1 else ''}" if others else ""
    return f"{_words(lowest.source)} ({lowest.trust.word}){also}"


def answer(session: Session, *, outcome: str, stop_reason: str, text: str, reference: str) -> Answer:
    """The one visible ending of the live run."""
    run = _live(session)
    return Answer(
        key=f"answer:{run.id}",
        outcome=outcome,
        stop_reason=stop_reason,
        text=text,
        by_model=_by_model(run, outcome, stop_reason, text),
        asker=run.principal,
        trusted_urls=trusted_urls(session.readings),
        badge=badge(session),
        unverified=list(unverified(run)) if outcome == "answered" else [],
        reference=reference,
    )


def _by_model(run: Run, outcome: str, stop_reason: str, text: str) -> bool:
    drafted = bool(run.draft) and run.draft in text
    return outcome == "answered" or stop_reason in ("max_tokens", "context_window") or drafted


def trusted_urls(readings: Sequence[Reading]) -> list[str]:
    """URLs that stand verbatim in what a principal wrote or our own systems returned."""
    found = (url.rstrip(".,;:!?)") for one in readings if one.trust >= Trust.INTERNAL for url in _URL.findall(one.text))
    return list(dict.fromkeys(found))[:200]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _live(session: Session) -> Run:
    assert session.run is not None, "a view of a run outside a run"
    return session.run
