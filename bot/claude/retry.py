"""What may be tried again, and when. Safe because no call of a reply runs before the reply is whole.

Classified by the error's type, never by class or status alone: an overload inside a stream has status 200.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from bot.claude.stream import Incomplete

PASSING_TYPES = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})
PASSING_STATUS = frozenset({408, 409, 429})
FINAL_WORDS = ("spend_limit", "billing", "credit")
"""Codes of a 429 that no waiting changes."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
ATTEMPTS = 6

_PLAIN = {
    400: "did not accept the request",
    401: "refused the API key",
    402: "wants to be paid first",
    403: "does not allow this",
    404: "does not know that model or address",
    413: "finds the request too large",
    429: "limits the rate",
    529: "is overloaded",
}


@dataclass(frozen=True)
class Trouble:
    """One failed attempt."""

    line: str
    """For a person."""
    again: bool
    wait_s: float | None = None
    """What the service asked for."""
    kind: str = "unknown"
    """One word of a small set, for counting."""


def classify(error: BaseException) -> Trouble:
    """Whether that failure may pass."""
    if isinstance(error, Incomplete):
        return Trouble(f"The model's reply broke off: {error}.", again=True, kind="incomplete")
    status = getattr(error, "status_code", None)
    if status is None:
        words = str(error).split("\n", 1)[0][:200] or type(error).__name__
        return Trouble(f"The model service could not be reached: {words}", again=True, kind="connection")
    kind, code = str(getattr(error, "type", "") or ""), str(getattr(error, "error_code", "") or "")
    said = str(getattr(error, "api_message", "") or "")[:300]
    final = any(word in f"{code} {said}".lower().replace(" ", "_") for word in FINAL_WORDS)
    passing = kind in PASSING_TYPES or status in PASSING_STATUS or status >= 500
    line = f"The model service {_PLAIN.get(status, 'failed')} ({kind if status == 200 else status}): {said or kind}"
    return Trouble(line.rstrip(": "), passing and not final, _asked_wait(error), _kind(kind, status))


def _kind(kind: str, status: int) -> str:
    """The service's own word where we know it; what it may call errors tomorrow must not make new metrics."""
    return kind if kind in PASSING_TYPES else f"http_{status}"


def _asked_wait(error: Any) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {}) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    return None


def pause_s(attempt: int, trouble: Trouble) -> float:
    """Before the next attempt; `attempt` counts from 0."""
    backoff: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt) * random.uniform(0.75, 1.0)
    return backoff if trouble.wait_s is None else max(trouble.wait_s, 0.0)
