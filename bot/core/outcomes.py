"""Every way a run ends, and what people are told.

| outcome | stop reasons |
|---|---|
| answered | end_turn |
| partial | turn_cap, token_budget, cost_budget, deadline, context_window, max_tokens |
| escalated | no_progress, repetition, approval_denied, approval_expired, hand_over |
| refused | refusal |
| cancelled | cancelled |
| failed | model_error, internal_error |
"""

from __future__ import annotations

from collections.abc import Iterable

from bot.core.events import ModelReplied
from bot.core.state import Run, Session

OUTCOMES: dict[str, tuple[str, ...]] = {
    "answered": ("end_turn",),
    "partial": ("turn_cap", "token_budget", "cost_budget", "deadline", "context_window", "max_tokens"),
    "escalated": ("no_progress", "repetition", "approval_denied", "approval_expired", "hand_over"),
    "refused": ("refusal",),
    "cancelled": ("cancelled",),
    "failed": ("model_error", "internal_error"),
}


def text_of(content: Iterable[object]) -> str:
    """The text blocks of a reply, joined."""
    texts = [str(block["text"]) for block in content if isinstance(block, dict) and block.get("type") == "text"]
    return "\n\n".join(text.strip() for text in texts if text.strip())


def ending_for(reply: ModelReplied, run: Run) -> tuple[str, str, str] | None:
    """Outcome, stop reason and text that a complete reply without open calls means; `None`: the run goes on.

    A stop reason that this version does not know, or a promise of calls without any, ends the run.
    """
    text = text_of(reply.content)
    match reply.stop_reason:
        case "tool_use" if run.calls:
            return None
        case "end_turn" | "stop_sequence" if text:
            return ("answered", "end_turn", text)
        case "end_turn" | "stop_sequence":
            return ("escalated", _why_silent(run), "")
        case "max_tokens":
            return ("partial", "max_tokens", text)
        case "model_context_window_exceeded":
            return ("partial", "context_window", text)
        case "refusal":
            return ("refused", "refusal", "")
        case _:
            return ("failed", "model_error", "")


def _why_silent(run: Run) -> str:
    decided = {approval.status for approval in run.approvals.values()}
    if "denied" in decided:
        return "approval_denied"
    return "approval_expired" if "expired" in decided else "hand_over"


_WHAT_HAPPENED = {
    "turn_cap": "I stopped after {turns} steps without an answer.",
    "token_budget": "I stopped: the token budget of this run is used up.",
    "cost_budget": "I stopped: the money budget of this run is used up.",
    "deadline": "I stopped: the time for this run is over.",
    "context_window": "I stopped: the conversation no longer fits into the model.",
    "max_tokens": "I stopped: the reply was longer than it may be, so it is cut off here.",
    "no_progress": "I stopped: the last steps brought nothing new.",
    "repetition": "I stopped: I was about to make the same call again with nothing changed.",
    "approval_denied": "What I wanted to do was denied, and I have no other answer.",
    "approval_expired": "Nobody decided in time about what I wanted to do, and I have no other answer.",
    "hand_over": "I cannot go on by myself, so I hand this over to you.",
    "refusal": "The model declined to answer this. It was not asked again.",
    "cancelled": "Stopped, as you asked.",
    "model_error": "The model could not be reached or gave no usable reply.",
    "internal_error": "Something went wrong on our side.",
}
_WHAT_NEXT = {
    "partial": "Ask me to go on, narrow the question, or take over from here.",
    "escalated": "A person should take over; tell me what changed if I should try again.",
    "refused": "Put the question differently, or take over.",
    "cancelled": "Ask again whenever you like.",
    "failed": "Ask again in a few minutes; if it stays like this, give the reference below to your operator.",
}


def post_for(outcome: str, stop_reason: str, text: str, session: Session, detail: str = "") -> str:
    """What people are told: an answer as it is; else what happened, was found, is open, can be done."""
    if outcome == "answered":
        return text
    run = session.run
    turns = run.turns if run else 0
    parts = [_WHAT_HAPPENED[stop_reason].format(turns=turns)]
    parts += [detail] if detail else []
    parts += [f"So far:\n\n{text}"] if text else []
    if run and run.steps and not text:
        looked = ", ".join(dict.fromkeys(run.steps))
        parts.append(f"Looked at so far: {looked} ({len(run.facts)} facts). The question itself is still open.")
    parts += [_open_effects(run)] if run and outcome != "refused" and _open_effects(run) else []
    return "\n\n".join([*parts, _WHAT_NEXT[outcome]])


def _open_effects(run: Run) -> str:
    unknown = [call.tool for call in run.calls if call.unknown]
    if unknown:
        return f"Unknown: whether {', '.join(unknown)} took effect. Check before anybody does it again."
    return ""
