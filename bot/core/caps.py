"""The five limits of a run: turns, tokens and money, deadline, no progress, repetition.

Each is checked before an expensive step, and each has its own way to end (DESIGN section 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.core.policy import CapsTable
from bot.core.state import Run, Session

SOFT_SHARE = 0.8
"""Above this share of tokens or money calls are refused with "conclude now" (DESIGN section 5)."""
REPEATS_THAT_END = 3
"""The third offer of one call in one world ends the run (DESIGN section 5)."""
LEAST_OUTPUT_TOKENS = 256
"""With less room than this a reply would be cut off: the call is not made."""
UNREPORTED_TOKENS = 64
"""Framing that the service counts and the bytes of a request do not show."""


@dataclass(frozen=True)
class Stop:
    """A limit that is reached."""

    outcome: str
    stop_reason: str


@dataclass(frozen=True)
class Room:
    """What one model call may use at the very most; reserved before it is made."""

    max_output_tokens: int
    tokens: int
    usd: float


def past_soft_limit(run: Run, caps: CapsTable) -> bool:
    """Whether the run must conclude: calls are refused, the model may still answer."""
    return run.tokens_spent >= SOFT_SHARE * caps.tokens or run.usd_spent >= SOFT_SHARE * caps.usd


def deadline(session: Session, now: datetime) -> datetime:
    """When the live run must have ended; waiting for a person moves it on."""
    run = session.run
    if run is None:
        return now
    since = now if run.waiting or session.last_at is None else session.last_at
    return since + timedelta(seconds=run.budget_s - run.active_s)


def reached(run: Run, caps: CapsTable) -> Stop | None:
    """The limit that forbids another model call, if one does. Repetition and barrenness speak first."""
    if run.repeated >= REPEATS_THAT_END:
        return Stop("escalated", "repetition")
    if run.barren >= caps.barren_turns:
        return Stop("escalated", "no_progress")
    if run.turns >= caps.turns:
        return Stop("partial", "turn_cap")
    return None


def input_at_most(run: Run, request_bytes: int) -> int:
    """At most this much input: what the service counted last, and a token for each byte since."""
    known_bytes, known_tokens = run.known_input
    return known_tokens + max(0, request_bytes - known_bytes) + UNREPORTED_TOKENS


def room_for(
    run: Run, caps: CapsTable, *, worst_input: int, max_output: int, usd_of: Callable[[int, int], float]
) -> Room | Stop:
    """What the next call may use, its output cut to what is left; a `Stop` when that is too little.

    `usd_of(input_tokens, output_tokens)` gives dollars at the dearest.
    """
    tokens_left = caps.tokens - run.tokens_spent - worst_input
    usd_left = caps.usd - run.usd_spent - usd_of(worst_input, 0)
    per_output = usd_of(worst_input, 1) - usd_of(worst_input, 0)
    # A millionth of a token is the noise of floating point, not money: what exactly fits must be let in.
    affordable = int(usd_left / per_output + 1e-6) if per_output > 0 else max_output
    output = min(max_output, tokens_left, affordable)
    if output < min(LEAST_OUTPUT_TOKENS, max_output):
        return Stop("partial", "token_budget" if tokens_left <= affordable else "cost_budget")
    return Room(output, worst_input + output, usd_of(worst_input, output))
