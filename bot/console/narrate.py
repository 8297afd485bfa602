"""A log told in sentences, one an entry: who did what, on whose word, after reading what."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bot.core.chain import Entry

LONGEST = 400
"""Characters of a text that a sentence shows; the export has the whole."""


def narrate(entries: Iterable[Entry]) -> list[str]:
    """Lines for a terminal or a page; plain text, every control character made visible."""
    lines: list[str] = []
    run = None
    for entry in entries:
        if entry.run and entry.run != run:
            lines.append(f"── {entry.run}")
        run = entry.run or run
        first, *rest = sentence(entry).split("\n")
        lines.append(f"{entry.seq:>4}  {entry.at[:23]}Z  {entry.type:<18} {first}")
        lines += [f"{'':>6}{'':>24}  {'':<18} {line}" for line in rest]
    return [visible(line).replace("\n", "⟨U+000A⟩") for line in lines]


def sentence(entry: Entry) -> str:
    """One entry in words."""
    if entry.payload is None:
        return f"(erased; digest {entry.payload_digest[:16]}…)"
    if tell := _TELL.get(entry.type):
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError, IndexError):
            return visible(tell(entry.payload))
        # Somebody changed it, or another version wrote it: an auditor must see it all the same.
    return visible(_short(dict(entry.payload)))


def visible(text: str) -> str:
    """No character that could move a terminal's cursor or hide a text; line feeds stay."""
    return "".join(one if one == "\n" or one.isprintable() else f"⟨U+{ord(one):04X}⟩" for one in text)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    more = len(text) - LONGEST
    return text if more <= 0 else f"{text[:LONGEST]} [… {more} more characters]"


def _arguments(payload: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_short(value)}" for name, value in payload["arguments"].items())


def _replied(payload: Mapping[str, Any]) -> str:
    parts = []
    for block in payload["content"]:
        if block.get("type") == "text":
            parts.append(f"said: {_short(block['text'])}")
        elif block.get("type") == "tool_use":
            parts.append(f"wants {block['name']} ({block['id']})")
    usage = payload["usage"]
    read = usage["input_tokens"] + usage["cache_read_tokens"] + usage["cache_write_tokens"]
    cost = f"{read} tokens in, {usage['output_tokens']} out, ${payload['cost_usd']:.4f}"
    missed = f", cache missed: {payload['cache_miss_reason']}" if payload.get("cache_miss_reason") else ""
    said = "; ".join(parts) or "said nothing"
    return f"{_turn(payload)}, {payload['stop_reason']}; {said} ({cost}{missed})"


def _turn(payload: Mapping[str, Any]) -> str:
    """Which question of the run it belongs to; entries of the first version know only the agent's own."""
    role = payload.get("role", "agent")
    return f"turn {payload['turn']}" if role == "agent" else f"{role} question"


def _compacted(payload: Mapping[str, Any]) -> str:
    who = "a model" if payload.get("by_model") else "code"
    gone = f"everything up to {payload['through_seq']} left the prompt ({payload.get('why', 'threshold')})"
    return f"{gone}; summary by {who}: {_short(payload['summary'])}"


def _planned(payload: Mapping[str, Any]) -> str:
    steps = [f"{number}. {_short(step)}" for number, step in enumerate(payload["steps"], 1)]
    return "\n".join([f"revision {payload['revision']}, {len(steps)} steps", *steps])


def _returned(payload: Mapping[str, Any]) -> str:
    how = "returned" if payload["ok"] else "failed" if payload["ran"] else "was not made"
    facts = f", {payload['facts_added']} new facts" if payload["facts_added"] else ""
    return f"{payload['call_id']} {how} (trust {payload['trust']}{facts}): {_short(payload['content'])}"


def _asked(payload: Mapping[str, Any]) -> str:
    asked = ", ".join(payload["approvers"])
    return "\n".join(
        [
            f"{payload['approval_id']}: {payload['tool']}({_arguments(payload)})",
            f"held because {payload['why']}",
            f"asked {asked}, {payload['distinct']} needed, until {payload['expires_at']}",
            f"digest {payload['digest']}",
        ]
    )


def _decided(payload: Mapping[str, Any]) -> str:
    by = f" by {', '.join(payload['by'])}" if payload["by"] else ""
    reason = f": {payload['reason']}" if payload["reason"] else ""
    return f"{payload['approval_id']} {payload['decision']}{by}{reason}"


def _finished(payload: Mapping[str, Any]) -> str:
    spent = f"{payload['usage']['calls']} model calls, ${payload['cost_usd']:.4f}"
    what = f"{payload['outcome']} / {payload['stop_reason']} ({spent}, reference {payload['reference']})"
    return f"{what}\n{payload['text']}"


def _requested(payload: Mapping[str, Any]) -> str:
    wrong = f" — invalid: {payload['invalid']}" if payload["invalid"] else ""
    return f"{payload['call_id']}: {payload['tool']}({_arguments(payload)}), class {payload['authority']}{wrong}"


_TELL: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "RunStarted": lambda p: (
        f"on the word of {p['principal']}{', with a fresh context' if p.get('fresh') else ''}; "
        f"policy {p['policy_version'][:16]}…"
    ),
    "MessageReceived": lambda p: f"{p['author']} (trust {p['trust']}): {_short(p['text'])}",
    "MessageIgnored": lambda p: f"{p['author'] or 'somebody'}, {p['ts']}: {p['reason']}",
    "MessageEdited": lambda p: (
        f"{p['author']} changed {p['ts']}{'' if p['material'] else ' (same words)'}: {_short(p['text'])}"
    ),
    "MessageDeleted": lambda p: f"{p['ts']} was deleted",
    "HistoryImported": lambda p: (
        f"{len(p['messages'])} earlier messages (trust {p['trust']}), {p['left_out']} left out"
    ),
    "RouteChosen": lambda p: f"{p['path']}{': ' + p['why'] if p['why'] else ''}",
    "PlanCommitted": _planned,
    "Critiqued": lambda p: f"{'found nothing wrong' if p['ok'] else 'found something wrong'}: {_short(p['notes'])}",
    "Compacted": _compacted,
    "ModelRequested": lambda p: f"{_turn(p)} of {p['model']}; {p['reserved_tokens']} tokens reserved",
    "ModelReplied": _replied,
    "ToolRequested": _requested,
    "GateDecided": lambda p: f"{p['call_id']} {p['verdict']} (ceiling {p['ceiling']}): {p['reason']}",
    "ToolStarted": lambda p: f"{p['call_id']}, idempotency key {p['idempotency_key']}",
    "ToolReturned": _returned,
    "EffectUnknown": lambda p: f"{p['call_id']} started, and nobody knows how it ended",
    "LabelLowered": lambda p: f"trust fell from {p['before']} to {p['after']} after {p['source']}",
    "ApprovalRequested": _asked,
    "ApprovalAttempted": lambda p: f"{p['by']} on {p['approval_id']}: refused, {p['refused_because']}",
    "ApprovalVoted": lambda p: f"{p['by']} said {p['vote']} on {p['approval_id']}",
    "ApprovalDecided": _decided,
    "ApprovalVoided": lambda p: f"{p['approval_id']} no longer holds: {p['why']}",
    "Cancelled": lambda p: f"by {p['by']}",
    "RunFinished": _finished,
    "Posted": lambda p: f"{p['key']} as {p['ts']}",
}
