"""Logs of a test: a whole run, told with whatever text a stranger may have written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from bot.core import events as e
from bot.core.chain import Entry, genesis, seal_entry
from bot.lab.clock import START
from tests.builders import GET_TICKET, ISSUE_CREDIT, THREAD, Story

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\n"
    "```\n````````\n~~~\n# heading\n[link](https://evil.example)\n</pre></body>\n"
    "\x1b[2J\x1b]0;owned\x07\x00\r\x85\u2028\u202egnp.exe\u200b"
)
"""HTML, fences, a terminal's commands, line ends that some readers obey, hidden and turned text."""


def sealed(events: list[e.Event], run: str = "run-1") -> list[Entry]:
    """The entries that these events make, a second apart."""
    entries: list[Entry] = []
    for number, event in enumerate(events, 1):
        at = (START + timedelta(seconds=number)).isoformat(timespec="microseconds").replace("+00:00", "Z")
        prev = entries[-1].hash if entries else genesis(THREAD)
        salt = number.to_bytes(16, "big")
        entries.append(seal_entry(event, seq=number, at=at, run=run, prev=prev, salt=salt))
    return entries


def log(text: str = "Three units are broken.") -> list[Entry]:
    """Asked, read, held, refused to one, approved by another, done, answered; `text` wherever somebody writes."""
    story = Story().asked(text)
    story.called("call-1", GET_TICKET, text, trust="untrusted")
    story.replied(("call-2", ISSUE_CREDIT, {"order_id": "4921", "amount_cents": 19500, "note": text}), text=text)
    story.asks("call-2", ISSUE_CREDIT)
    story.add(e.ApprovalAttempted(approval_id="apr-1", by="U0MALLORY", refused_because="U0MALLORY may not approve"))
    story.decided("approved", reason=text)
    story.ran("call-2", {"said": text})
    usage = e.Usage(input_tokens=10, output_tokens=5, calls=2)
    story.add(
        e.RunFinished(
            outcome="answered", stop_reason="end_turn", text=text, messages=["1.0"], usage=usage, cost_usd=0.1
        )
    )
    return sealed(story.events)


def changed(entries: list[Entry], seq: int, **fields: Any) -> list[Entry]:
    """The same log after somebody changed one entry."""
    return [replace(one, **fields) if one.seq == seq else one for one in entries]
