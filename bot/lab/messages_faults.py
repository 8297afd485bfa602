"""Faults of the wire, by name: one table that scripts, tests and the handbook go by.

`Broken(turn, after_frames, how)` plays one of them; `how` is the name, `after_frames` the place in the reply.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate

from bot.lab import messages_edits as edits
from bot.lab import messages_wire as wire
from bot.lab.messages_script import Status


class Reads(enum.Enum):
    """What a strict reader makes of such a reply."""

    SAME = "complete: every block that was scripted, exactly"
    SPOILT = "complete, but the arguments of one call are none, so that call cannot run"
    UNSURE = "no frame tells: it may count as complete, and then it may differ from what was scripted"
    NEVER = "never complete: nothing of it may be kept or run"

    @property
    def may_complete(self) -> bool:
        """The reply may still count as complete."""
        return self is not Reads.NEVER


@dataclass(frozen=True)
class Fault:
    """One way to be wrong."""

    reads: Reads
    says: str
    """What happens, in a line."""
    stream: wire.Wire | None = None
    """How the stream goes, from the frames as they should be and the place of the fault."""
    status: Callable[[], Status] | None = None
    """The answer that comes instead of a stream."""


def _never(says: str, stream: wire.Wire) -> Fault:
    return Fault(Reads.NEVER, says, stream)


def _same(says: str, stream: wire.Wire) -> Fault:
    return Fault(Reads.SAME, says, stream)


def _unsure(says: str, stream: wire.Wire) -> Fault:
    return Fault(Reads.UNSURE, says, stream)


def _spoilt(says: str, change: Callable[[str], str], size: int = 24) -> Fault:
    return Fault(Reads.SPOILT, says, wire.edited(edits.arguments(change, size)))


def _status(status: int, kind: str, code: str = "", body: str | None = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    says = f"answered with {status} {kind}" + "".join(f", {name}: {value}" for name, value in named.items())
    return Fault(Reads.NEVER, says, status=lambda: Status(status, kind, "scripted", named, code, body))


def _dated(seconds: float) -> Callable[[], Status]:
    def answer() -> Status:
        when = formatdate(time.time() + seconds, usegmt=True)
        return Status(429, "rate_limit_error", headers={"retry-after": when})

    return answer


_KINDS = ("message_start", edits.START, edits.DELTA, edits.STOP, "message_delta", "message_stop")
_DOUBLED = {edits.DELTA: Reads.UNSURE, "message_delta": Reads.SAME, "message_stop": Reads.SAME}
_HTML = "<html><head><title>Bad Gateway</title></head><body>upstream</body></html>"
_DEEP = '"deep": ' + "[" * 3000 + "]" * 3000

ENDINGS = {
    "cut": _never("the stream ends cleanly before that frame", wire.ends()),
    "cut_in_frame": _never("it ends cleanly in the middle of that frame's bytes", wire.ends(share=0.5)),
    "cut_before_blank_line": _never(
        "it ends cleanly when that frame lacks only its blank line", wire.without_blank_line
    ),
    "abort": _never("the connection breaks before that frame", wire.ends(wire.Torn())),
    "abort_in_frame": _never("it breaks in the middle of that frame's bytes", wire.ends(wire.Torn(), share=0.5)),
    "error": _never("overloaded_error in band", wire.in_band("overloaded_error", "Overloaded")),
    "error_rate_limit": _never(
        "rate_limit_error in band", wire.in_band("rate_limit_error", "This request would exceed your rate limit")
    ),
    "error_api": _never("api_error in band", wire.in_band("api_error", "Internal server error")),
    "error_invalid_request": _never(
        "invalid_request_error in band", wire.in_band("invalid_request_error", "Output blocked")
    ),
    "stall": _never("silence before that frame", wire.ends(wire.Wait(wire.LONG_S))),
    "stall_in_frame": _never("silence in the middle of that frame", wire.ends(wire.Wait(wire.LONG_S), share=0.5)),
    "endless_pings": _never("nothing but pings from there on", wire.endless_pings),
}
DAMAGES = {
    **{f"lost_{kind}": _never(f"a {kind} is lost", wire.edited(edits.lost(kind))) for kind in _KINDS},
    "lost_content_block_delta": _unsure("a delta is lost", wire.edited(edits.lost(edits.DELTA))),
    **{
        f"doubled_{kind}": Fault(
            _DOUBLED.get(kind, Reads.NEVER), f"a {kind} comes twice", wire.edited(edits.doubled(kind))
        )
        for kind in _KINDS
    },
    "second_message_start": _never("another message begins there", wire.edited(edits.second_start)),
    "early_message_stop": _never(
        "message_stop too early", wire.edited(edits.added({"type": "message_stop"}, least=1, before_end=2))
    ),
    "out_of_order": _never("a block opens after what is in it", wire.edited(edits.swapped(edits.START))),
    "swapped_deltas": _unsure("two deltas change places", wire.edited(edits.swapped(edits.DELTA))),
    "wrong_index": _never(
        "a delta names no block", wire.edited(edits.set_on(edits.DELTA, lambda f: {**f, "index": edits.NOWHERE}))
    ),
    "stop_without_start": _never(
        "a block is closed that was never opened",
        wire.edited(edits.added({"type": edits.STOP, "index": edits.NOWHERE}, least=1, before_end=1)),
    ),
    "delta_after_stop": _never("more of a closed block", wire.edited(edits.delta_after_stop)),
    "missing_stop_reason": _never("message_delta names no stop reason", wire.edited(edits.stop_reason())),
    "null_stop_reason": _never("the stop reason is null", wire.edited(edits.stop_reason(stop_reason=None))),
    "bad_json": _never("that frame's data is no JSON", wire.one_frame(wire.bad_json)),
    "bad_utf8": _never("that frame's data is no UTF-8", wire.one_frame(wire.bad_utf8)),
    "event_line_missing": _unsure("that frame has only its data line", wire.one_frame(wire.no_event_line)),
}
HARMLESS = {
    "unknown_stop_reason": _unsure(
        "the stop reason is a new one", wire.edited(edits.stop_reason(stop_reason="lunch_break"))
    ),
    "unknown_event": _same("an event of a new kind", wire.edited(edits.added({"type": "weather", "sky": "blue"}))),
    "unknown_block": _same("a block of a new kind, between the others", wire.edited(edits.unknown_block)),
    "unknown_delta": _same("a delta of a new kind", wire.edited(edits.unknown_delta)),
    "crlf": _same("lines end in CR LF", wire.each_frame(wire.crlf)),
    "comments": _same("comments, ids and retry lines in between", wire.each_frame(wire.commented)),
    "pings": _same("a ping before every frame", wire.each_frame(wire.pinged)),
    "drip": _same("sixteen bytes at a time", wire.each_frame(wire.drip)),
    "torn_characters": _same(
        "every frame in two pieces, torn inside a character", wire.each_frame(wire.torn_characters)
    ),
    "trailing_junk": _same("more bytes after message_stop", wire.and_junk),
}
ARGUMENTS = {
    "arguments_cut": _spoilt("half of them", lambda raw: raw[: len(raw) // 2] or "{"),
    "arguments_garbled": _spoilt("no JSON", edits.with_more("amount: 12")),
    "arguments_followed": _spoilt("a second value behind", lambda raw: raw + " {}"),
    "arguments_doubled_key": _spoilt("a key twice", edits.doubled_key),
    "arguments_nan": _spoilt("NaN", edits.with_more('"n": NaN')),
    "arguments_huge": _spoilt("1e400", edits.with_more('"n": 1e400')),
    "arguments_lone_surrogate": _spoilt("half a surrogate pair", edits.with_more('"s": "\\ud800"')),
    "arguments_deep": _spoilt("3,000 lists in one another", edits.with_more(_DEEP), 4096),
    "arguments_list": _spoilt("a list", lambda raw: f"[{raw or '{}'}]"),
    "arguments_none": _unsure("no delta at all: a call without arguments", wire.edited(edits.arguments(lambda _: ""))),
    "arguments_torn": _same("a character at a time, all escaped", wire.edited(edits.arguments(edits.escaped, 1))),
}
ANSWERS = {
    "empty_body": Fault(Reads.NEVER, "200 and nothing", status=lambda: Status(200, body="")),
    "html_body": Fault(Reads.NEVER, "200 and a page of a proxy", status=lambda: Status(200, body=_HTML)),
    "status_408": _status(408, "timeout_error"),
    "status_409": _status(409, "conflict_error"),
    "status_413": _status(413, "request_too_large"),
    "status_429": _status(429, "rate_limit_error"),
    "status_429_seconds": _status(429, "rate_limit_error", retry_after="1"),
    "status_429_milliseconds": _status(429, "rate_limit_error", retry_after_ms="50", retry_after="9"),
    "status_429_date": Fault(Reads.NEVER, "429, retry-after is a date in 2 s", status=_dated(2)),
    "status_429_zero": _status(429, "rate_limit_error", retry_after="0"),
    "status_429_negative": _status(429, "rate_limit_error", retry_after="-5"),
    "status_429_huge": _status(429, "rate_limit_error", retry_after="300"),
    "status_429_spend_limit": _status(429, "rate_limit_error", "enforced_spend_limit_reached", retry_after="1"),
    "status_500": _status(500, "api_error"),
    "status_502": _status(502, "api_error", body=_HTML),
    "status_503": _status(503, "api_error", body=""),
    "status_504": _status(504, "timeout_error"),
    "status_529": _status(529, "overloaded_error"),
    "redirect": _status(307, "api_error", body="", location="/v1/elsewhere"),
}
FAULTS: dict[str, Fault] = {**ENDINGS, **DAMAGES, **HARMLESS, **ARGUMENTS, **ANSWERS}
"""Every fault by its name; `error` and `cut`, `abort`, `stall` are the oldest."""
