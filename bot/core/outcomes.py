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

from bot.core.labels import Trust
from bot.core.progress import fact_lines, parsed
from bot.core.state import Reading, Run, Session

OUTCOMES: dict[str, tuple[str, ...]] = {
    "answered": ("end_turn",),
    "partial": ("turn_cap", "token_budget", "cost_budget", "deadline", "context_window", "max_tokens"),
    "escalated": ("no_progress", "repetition", "approval_denied", "approval_expired", "hand_over"),
    "refused": ("refusal",),
    "cancelled": ("cancelled",),
    "failed": ("model_error", "internal_error"),
}


RESULTS_SHOWN, FACTS_SHOWN, FACT_CHARACTERS = 8, 6, 120
"""Of an ending's summary of results: as much as a phone shows without becoming the log."""
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
    """What people are told: an answer as it is; else what happened, was found, is unknown, can be done."""
    run = session.run
    if outcome == "answered":
        return text
    if run and outcome in ("partial", "escalated", "failed"):
        text = text or run.draft
    turns = run.turns if run else 0
    parts = [_WHAT_HAPPENED[stop_reason].format(turns=turns)]
    parts += [detail] if detail else []
    parts += [f"So far:\n\n{text}"] if text else []
    if run and outcome != "refused":
        parts += [*_found(session, run), *_unknown(run, text)]
    return "\n\n".join([*parts, _WHAT_NEXT[outcome]])


def _found(session: Session, run: Run) -> list[str]:
    """What the tools of this run returned, by code, without asking a model; a stranger's words are only named."""
    lines: dict[str, None] = {}
    for one in session.readings:
        if one.is_result and one.run == run.id:
            lines[f"- {one.source}: {_told(one)}"] = None
    left_out = [f"- and {len(lines) - RESULTS_SHOWN} earlier results, in the log"] if len(lines) > RESULTS_SHOWN else []
    return ["\n".join(["What was found:", "", *left_out, *list(lines)[-RESULTS_SHOWN:]])] if lines else []


def _told(reading: Reading) -> str:
    if reading.trust < Trust.INTERNAL:
        return "was read; it is untrusted, so look it up in the log"
    lines = fact_lines("", parsed(reading.text))
    facts = [line.removeprefix(".").removeprefix("=") for line in lines]
    more = f"; and {len(facts) - FACTS_SHOWN} more" if len(facts) > FACTS_SHOWN else ""
    return "; ".join(_short(fact) for fact in facts[:FACTS_SHOWN]) + more


def _unknown(run: Run, text: str) -> list[str]:
    found = [
        f"whether {call.tool} took effect; check before anybody does it again" for call in run.calls if call.unknown
    ]
    found += unverified(run)
    found += [] if text else ["the answer to the question itself"]
    return ["What is unknown: " + "; ".join(found) + "."] if found else []


def unverified(run: Run) -> list[str]:
    """Each change that nothing was read after, in words."""
    return [f"{tool} was done and nothing was read after it" for tool in dict.fromkeys(run.unverified)]


def _short(fact: str) -> str:
    return fact if len(fact) <= FACT_CHARACTERS else f"{fact[:FACT_CHARACTERS]}…"
