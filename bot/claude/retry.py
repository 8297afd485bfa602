"""What an attempt's failure means, and when the next one may be made.

1. Free failures (an error status, a connection that was never made) are tried again here.
2. Once the service may have begun to work, a failure is `lost`: whoever pays reserves anew before it is tried again.
3. Classified by the error's type and code, never by class or status alone: an overload inside a stream has status 200.
4. Words are read where there is no code: a prompt that is too long and a thinking block that is not accepted are 400s
   like any other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from bot.engine.ports import FailureKind

PASSING_TYPES = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})
PASSING_STATUS = frozenset({408, 409, 429})
FINAL_WORDS = ("spend_limit", "billing", "credit")
"""In codes, and in what is said of a limit: no waiting changes it."""
TOO_LONG = ("prompt is too long", "exceed context limit")
IN_BAND_WAIT_S = 2.0
"""After an overload or a rate limit that was told inside a stream, which has no header to say how long."""

_PLAIN = {
    **dict.fromkeys((301, 302, 303, 307, 308), "has moved, and its new address must be configured"),
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
    kind: FailureKind
    """What it is when no attempt follows here."""
    cause: str
    """One word of a small set, for counting: the service's own where we know it; its new words make no new metrics."""
    free: bool = False
    """It cost nothing and may pass: it is tried again here."""
    wait_s: float = 0.0
    """What the service asked for; 0: nothing."""
    of_thinking: bool = False
    """The thinking of past turns was refused: without it the same request may be taken."""


class Failed(Exception):
    """An attempt without a reply."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.line)
        self.trouble = trouble


@dataclass(frozen=True)
class Patience:
    """How often free failures are tried again, and how long the pauses are at least."""

    attempts: int = 6
    first_s: float = 0.5
    longest_s: float = 8.0

    def pause_s(self, tried: int, trouble: Trouble) -> float:
        """Before the next attempt, after `tried` (at least 1): ours or the service's, whichever is longer.

        A `retry-after: 0` does not take away ours: many who obey it at once are what it was meant to prevent.
        """
        own = min(self.longest_s, self.first_s * 2.0 ** min(tried - 1, 30)) * random.uniform(0.75, 1.0)
        return max(own, trouble.wait_s)


def answered(status: int, kind: str, code: str, said: str, headers: Mapping[str, str]) -> Trouble:
    """An error status came instead of a stream: nothing was charged."""
    said = one_line(said)
    what = f"The model service {_PLAIN.get(status, 'failed')} ({status}): {said or kind}".rstrip(": ")
    if status == 413 or _too_long(status, said):
        return Trouble(what, "too_long", "too_long")
    if _final(code, said if status in (402, 429) else ""):
        return Trouble(what, "final", "spend_limit")
    cause = kind if kind in PASSING_TYPES else f"http_{status}"
    passing = status >= 400 and (kind in PASSING_TYPES or status in PASSING_STATUS or status >= 500)
    advice = headers.get("x-should-retry", "")
    if passing or advice == "true":
        return Trouble(what, "away", cause, free=advice != "false", wait_s=asked_wait_s(headers, datetime.now(UTC)))
    return Trouble(what, "final", cause, of_thinking=status == 400 and _of_thinking(said))


def told(kind: str, code: str, said: str) -> Trouble:
    """The service said inside the stream that it failed: what it had done until then may be charged."""
    said = one_line(said)
    what = f"The model service failed in mid reply ({kind or 'no type'}): {said}".rstrip(": ")
    if _too_long(400, said) or kind == "request_too_large":
        return Trouble(what, "too_long", "too_long")
    if _final(code, said if kind == "rate_limit_error" else ""):
        return Trouble(what, "final", "spend_limit")
    if kind in PASSING_TYPES:
        return Trouble(what, "lost", kind, wait_s=IN_BAND_WAIT_S)
    return Trouble(what, "final" if kind else "lost", "in_band")


def broken(why: str, cause: str) -> Trouble:
    """The request was sent, and no complete reply came back."""
    return Trouble(f"The model's reply broke off: {one_line(why)}.", "lost", cause)


def unreachable(why: str) -> Trouble:
    """No connection was made, so nothing was sent."""
    return Trouble(f"The model service could not be reached: {one_line(why)}", "away", "connection", free=True)


def asked_wait_s(headers: Mapping[str, str], now: datetime) -> float:
    """What the headers ask for, in seconds; 0 when they ask for nothing that can be read."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return 0.0
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds())


def one_line(text: str) -> str:
    """For a person: no line breaks, no end without an end."""
    return " ".join(text.split())[:300]


def _final(code: str, said: str) -> bool:
    words = f"{code} {said}".lower().replace(" ", "_")
    return any(word in words for word in FINAL_WORDS)


def _too_long(status: int, said: str) -> bool:
    return status == 400 and any(words in said.lower() for words in TOO_LONG)


def _of_thinking(said: str) -> bool:
    return "thinking" in said.lower() or "signature" in said.lower()
