"""One scripted question with several stages of calls, played side by side or one after another.

How a call ends, and how long it takes, is written in its arguments, so that both ways meet the same tools.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.policy import Policy
from bot.core.tool import Tool, ToolContext, ToolError
from bot.lab.twins import Says
from tests.builders import make_tool
from tests.world import World

KINDS = {  # tool -> (class, trust of its results, whether calls of it may stand side by side)
    "look": ("observe", "internal", True),
    "read_ticket": ("observe", "untrusted", True),
    "fetch": ("egress", "extracted", True),
    "scan": ("observe", "internal", False),
    "note": ("local_write", "internal", False),
    "pay": ("critical", "internal", False),
}
ENDS = ("fine", "fine", "fine", "error", "again", "crash", "late", "cancelled")
STALL_S = 0.3
"""Of real time, for a call that stalls; no other is near it."""


class Fate(BaseModel):
    """How a call will go."""

    number: int
    waits: int = Field(0, ge=0, le=20)
    """How many times it gives way to others before it ends."""
    end: str = "fine"


@dataclass
class Call:
    """One call of a script."""

    tool: str
    waits: int
    end: str


@dataclass
class Played:
    """What came of it."""

    world: World
    began: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The log without what must differ: time, chain, salt, the pinned setting itself, references of crashes."""
        kept = [json.loads(json.dumps(one.dump())) for one in self.world.log]
        for one in kept:
            for name in ("at", "prev", "hash", "salt", "payload_digest"):
                del one[name]
            if one["type"] == "RunStarted":
                del one["payload"]["pins"]["policy"]
        return [re.sub(r"tool-[0-9a-f]{12}", "tool-REFERENCE", json.dumps(one)) for one in kept]

    @property
    def requests(self) -> list[bytes]:
        """The messages of each request, as bytes."""
        found = [b"".join(one.encoded for one in request.messages) for request in self.world.model.requests]
        return [re.sub(rb"tool-[0-9a-f]{12}", b"tool-REFERENCE", one) for one in found]


def _tools(played: list[Played]) -> list[Tool]:
    async def run(args: Fate, context: ToolContext) -> Any:
        """A tool with a fate."""
        played[0].began.append(args.number)
        for _ in range(args.waits):
            await asyncio.sleep(0)
        played[0].ended.append(args.number)
        match args.end:
            case "error" | "again":
                raise ToolError("it did not work", retryable=args.end == "again")
            case "crash":
                raise RuntimeError("scripted")
            case "cancelled":
                raise asyncio.CancelledError
            case "late":
                raise TimeoutError
            case "stall":
                await asyncio.sleep(60)
        return {"result_of": args.number}

    def of(name: str) -> Tool:
        authority, trust, safe = KINDS[name]
        spec = make_tool(
            name,
            Authority.parse(authority),
            Trust.parse(trust),
            model=Fate,
            parallel_safe=safe,
            idempotent=True,
            timeout_s=STALL_S,
        )
        return Tool(spec.spec, spec.arguments, run)

    return [of(name) for name in KINDS]


async def play(turns: Sequence[Sequence[Call]], *, parallel: bool) -> Played:
    """The turns, then an answer; nobody decides about anything."""
    rules = {"loop": {"parallel": parallel}, "caps": {"barren_turns": 50, "tokens": 10_000_000, "usd": 1000}}
    people = {"approvals": {"default": {"users": ["U0CAROL"]}}}
    number, script = 0, []
    for turn in turns:
        calls = []
        for call in turn:
            number += 1
            # A call that is made again must go as it went: its number is its fate.
            calls.append((call.tool, {"number": number, "waits": call.waits, "end": call.end}))
        script.append(Says("next", calls=calls))
    played: list[Played] = []
    world = World([*script, Says("Done.")], _tools(played), Policy.model_validate(rules | people))
    played.append(Played(world))
    await world.says("Look these up.")
    await world.settle()
    return played[0]
