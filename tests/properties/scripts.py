"""Random models, tools and policies for the properties of the loop, all of them played from one tape."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.policy import Policy
from bot.core.tool import Tool, ToolContext, ToolError
from bot.engine.ports import ModelRequest
from bot.lab.clock import LabClock
from tests.builders import make_tool
from tests.properties.service import STOPS, thinking
from tests.properties.tape import Tape

KINDS = {  # tool -> (class, trust of what it returns, whether calls of it may stand side by side)
    "look": ("observe", "internal", True),
    "peek": ("observe", "internal", True),
    "scan": ("observe", "internal", False),
    "read_ticket": ("observe", "untrusted", True),
    "fetch": ("egress", "untrusted", True),
    "note": ("local_write", "internal", False),
    "send": ("send", "internal", False),
    "pay": ("critical", "internal", False),
}
NAMES = ("look", "peek", "look", "scan", "note", "read_ticket", "fetch", "send", "pay", "no_such_tool")
BAD = ({}, {"key": 7}, {"key": "TOO LOUD"}, {"key": "a", "extra": 1})
KEYS = ("a", "a", "a", "b", "b", "c", "d")


class Args(BaseModel):
    """What every scripted tool takes."""

    key: str = Field(pattern=r"^[a-z]{1,3}$")
    n: int | float | str = 0


PLAIN = {
    name: make_tool(
        name,
        Authority.parse(authority),
        Trust.parse(trust),
        model=Args,
        parallel_safe=safe,
        idempotent=name == "pay",
    )
    for name, (authority, trust, safe) in KINDS.items()
}
"""Made once: a schema costs more than a run."""
Effect = tuple[str, str, datetime]
"""Call id, tool, when its code began."""


def tools(tape: Tape, clock: LabClock, done: list[Effect], meanwhile: Callable[[], Any]) -> list[Tool]:
    """Every class of tool; each call takes its time and its manner of ending from the tape."""

    def of(name: str) -> Tool:
        async def run(args: Args, context: ToolContext) -> Any:
            """A tool of a random run."""
            done.append((context.call_id, name, clock.now()))
            await asyncio.sleep(0)  # its siblings begin before time moves
            await meanwhile()
            if took := tape.pick((*(0,) * 24, 0.3, 1, 1, 5, 20, 60, 200, 400)):
                clock.advance(took)
                for _ in range(4):
                    await asyncio.sleep(0)  # the watch looks for a stop
            return _end(tape, name, args, len(done))

        plain = PLAIN[name]
        return Tool(plain.spec, plain.arguments, run)

    return [of(name) for name in KINDS]


def _end(tape: Tape, name: str, args: Args, number: int) -> Any:
    match tape.pick((*("same", "new") * 4, "lines", "lines", "none", "error", "error", "again", "crash", "cancelled")):
        case "same":
            return {"tool": name, "key": args.key, "n": args.n}
        case "new":
            return {"tool": name, "rows": [{"number": number}, {"number": number + 1}], "at": "2026-12-01T09:00:00Z"}
        case "lines":
            return f"Order {args.key}\n  order   {args.key}\n\n2026-12-01T09:00:00Z\nline {number % 3}"
        case "none":
            return None
        case "error":
            raise ToolError("that cannot be done; try another key")
        case "again":
            raise ToolError("busy; try again", retryable=True)
        case "crash":
            raise RuntimeError("scripted")
        case _:
            raise asyncio.CancelledError


def reply(tape: Tape, request: ModelRequest, reply_id: str) -> tuple[list[dict[str, Any]], str]:
    """Content and stop reason; a tape that is used up gives an answer."""
    shape = tape.byte()
    if request.role != "agent":
        return [{"type": "text", "text": _aside(tape, request.role)}], "end_turn"
    if shape >= 32 and (wanted := _as_wanted(tape, _last_words(request))):
        return [{"type": "text", "text": wanted}], "end_turn"
    if shape < 16:
        return [{"type": "text", "text": "Done."}], "end_turn"
    content: list[dict[str, Any]] = []
    if shape % 8 == 1:
        content.append(thinking(request.model, reply_id, "hm"))
    if shape % 4 == 2:
        content.append({"type": "text", "text": tape.pick(("I look.", " ", "", "Half of an ans"))})
    if shape < 226:
        content += _calls(tape, request, reply_id, 1 + tape.byte() % 4)
        return content, "tool_use"
    if tape.byte() & 1:
        content += _calls(tape, request, reply_id, 1)
    return content, tape.pick((*STOPS, *STOPS[2:4], "something_new"))


def _aside(tape: Tape, role: str) -> str:
    match role:
        case "router":
            return tape.pick(('{"path": "react"}', '{"path": "plan"}', '{"path": "branch"}', '{"path": "answer"}', "?"))
        case "critique":
            return tape.pick(('{"ok": true}', '{"ok": false, "notes": "no"}', "I like it"))
        case _:
            return "What was done so far."


def _last_words(request: ModelRequest) -> str:
    last = [block for block in request.messages[-1].content if block.get("type") == "text"]
    return str(last[-1]["text"]) if last else ""


def _as_wanted(tape: Tape, asked: str) -> str:
    """What the plan and the branch strategies ask for, where they do."""
    if '{"steps"' in asked:
        names = [tape.pick(NAMES[:9]) for _ in range(1 + tape.byte() % 5)]
        return json.dumps({"steps": [{"tool": one, "arguments": {"key": "a"}, "why": "to know"} for one in names]})
    if '{"questions"' in asked:
        return json.dumps({"questions": [f"What of {key}?" for key in "abcd"[: 2 + tape.byte() % 2]]})
    return ""


def _calls(tape: Tape, request: ModelRequest, reply_id: str, count: int) -> list[dict[str, Any]]:
    made = []
    for place in range(count):
        name, key = tape.pick(NAMES), tape.pick((*KEYS, *BAD)) if tape.rarely() else tape.pick(KEYS)
        call_id = f"toolu_{reply_id}_{place}"
        if tape.byte() == 255 and request.messages[-1].answers:
            call_id = request.messages[-1].answers[0]
        arguments = {"key": key} if isinstance(key, str) else key
        made.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
    return made


def policy(tape: Tape) -> Policy:
    """Small caps and large ones, in every combination."""
    caps = {
        "turns": tape.pick((24, 24, 6, 5, 4, 3, 2, 1)),
        "tokens": tape.pick(
            (*(400_000,) * 6, 60_000, 60_000, 40_000, 30_000, 20_000, 15_000, 12_000, 9_000, 6_000, 300)
        ),
        "usd": tape.pick((*(1.5,) * 8, 0.6, 0.4, 0.25, 0.15, 0.1, 0.06, 0.03, 0.001)),
        "deadline_s": tape.pick((*(300,) * 5, 60, 10, 3)),
        "barren_turns": tape.pick((3, 3, 3, 2)),
    }
    model = {"max_output_tokens": tape.pick((1024, 300, 64, 8192))}
    if tape.byte() & 1:
        model |= {"fallback": "claude-opus-5-5"}
    loop = {
        "strategy": tape.pick(("react", "react", "plan", "branch", "router")),
        "reflexion": tape.pick((False, False, True)),
        "parallel": bool(tape.byte() & 1),
        "compact_at_tokens": tape.pick((60_000, 4_000, 1_500)),
    }
    approvals = {"default": {"users": ["U0CAROL", "U0DAVE"]}, "asks_per_run": tape.pick((3, 3, 3, 1, 0))}
    return Policy.model_validate({"caps": caps, "model": model, "loop": loop, "approvals": approvals})
