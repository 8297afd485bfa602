"""A model service that plays from a tape and keeps books of its own: what it was sent, when, and what it charged.

It charges as a real one could: the same bytes always cost the same, a byte never more than a token, and no reply is
longer than the request allows. Lost attempts are charged too, whether or not the caller is told.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zlib import crc32

from bot.claude.encode import Encoder
from bot.core.events import Usage
from bot.engine.ports import FailureKind, ModelFailure, ModelReply, ModelRequest
from bot.lab.clock import LabClock
from bot.lab.messages_rules import check, parsed
from bot.lab.messages_thinking import sealed
from bot.lab.messages_turns import content_key
from tests.properties.tape import Tape

NOTHING = Usage()
PRICES = {"claude-sonnet-5-5": (3e-6, 15e-6), "claude-haiku-5-5": (1e-6, 5e-6), "claude-opus-5-5": (5e-6, 25e-6)}
"""Dollars for a token in and out; reads cost a tenth of the first, writes twice as much at most."""
STOPS = (
    "tool_use",
    "end_turn",
    "max_tokens",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "stop_sequence",
)
FRAMING = 48
"""At most so many tokens that no byte of a request shows (the product allows for 64)."""


@dataclass
class Asked:
    """One attempt, as the service's books have it."""

    run: int
    """How many runs had begun in the log."""
    epoch: int
    """How often the log had begun a conversation anew."""
    role: str
    model: str
    at: datetime
    most: int
    """The longest reply that the request allowed, in tokens."""
    blocks: list[str]
    """The conversation as sent, block by block, without cache marks."""
    size: int = 0
    charged: Usage = NOTHING
    usd: float = 0.0
    told: Usage = NOTHING
    """What the caller was told that it used."""
    told_usd: float = 0.0
    ended: str = "cut off"
    """A stop reason, a kind of failure, or cut off by the caller."""
    calls: int = 0


def _price(model: str, usage: Usage, write: float = 2.0) -> float:
    per_in, per_out = PRICES[model]
    read = usage.cache_read_tokens * 0.1
    return per_in * (usage.input_tokens + read + write * usage.cache_write_tokens) + per_out * usage.output_tokens


def _bare(block: dict[str, Any]) -> str:
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


@dataclass
class Service:
    """The Model port."""

    tape: Tape
    clock: LabClock
    write_reply: Callable[[Tape, ModelRequest, str], tuple[list[dict[str, Any]], str]]
    """Content and stop reason of a reply with that id."""
    progress: Callable[[], tuple[int, int]]
    """How many runs and epochs the stored log has begun."""
    meanwhile: Callable[[], Awaitable[None]]
    """What people do while it writes."""
    calm: bool = False
    """Nothing fails and nothing takes time."""
    storm: bool = False
    """Half of the attempts are lost or go to the fallback, and everything costs as much as it may."""
    asked: list[Asked] = field(default_factory=list)
    paused: set[str] = field(default_factory=set)
    encoder: Encoder = field(default_factory=Encoder)

    def __post_init__(self) -> None:
        self.greedy = bool(self.tape.byte() & 1)
        """Each reply is as long as it may be, and everything is written to the cache at the highest price."""
        self.dense = self.tape.pick(((), ("claude-sonnet-5-5",), ("claude-opus-5-5",), tuple(PRICES)))
        """Models to whom each byte is a token."""
        self.trouble = self.tape.pick((0, 16, 16, 80))
        """Of 256 attempts fail."""
        if self.storm:
            self.greedy, self.trouble = True, 128

    def price(self, model: str, usage: Usage) -> float | None:
        """At the dearest."""
        return _price(model, usage) if model in PRICES else None

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """A reply or a failure, as the tape says; the books are written before anything else happens."""
        sent = parsed(self.encoder.body(request))
        check(sent, self.paused)
        run, epoch = self.progress()
        blocks = [f"{one['role']} {_bare(block)}" for one in sent["messages"] for block in one["content"]]
        found = Asked(run, epoch, request.role, request.model, self.clock.now(), sent["max_tokens"], blocks)
        self.asked.append(found)
        reply_id = f"req-{len(self.asked)}"
        content, stop = self.write_reply(self.tape, request, reply_id)
        self._charge(found, sent)
        failure = self._failure(found)
        if not await self._time_passes(deadline):
            failure = self._failed(found, "deadline")
        if failure is not None:
            found.ended, found.told, found.told_usd = failure.kind, failure.usage, failure.cost_usd
            raise failure
        found.ended, found.told, found.told_usd = stop, found.charged, found.usd
        found.calls = sum(block["type"] == "tool_use" for block in content)
        if stop == "pause_turn":
            self.paused.add(content_key(content))
        return ModelReply(content, stop, found.charged, found.usd, request.model, reply_id)

    def _charge(self, found: Asked, sent: dict[str, Any]) -> None:
        words = [*found.blocks, *(_bare(one) for one in (*sent.get("tools", ()), *sent.get("system", ())))]
        found.size = sum(len(one.encode()) for one in words)
        count = sum(self._tokens(one, found.model) for one in words) + crc32(found.model.encode()) % FRAMING
        read = 0 if self.greedy else self.tape.below(count + 1)
        written = count if self.greedy else self.tape.below(count - read + 1)
        found.charged = Usage(
            input_tokens=count - read - written,
            cache_read_tokens=read,
            cache_write_tokens=written,
            output_tokens=found.most if self.greedy else 1 + self.tape.below(found.most),
            calls=1,
        )
        found.usd = _price(found.model, found.charged, 2.0 if self.greedy else self.tape.pick((2.0, 1.25)))

    def _tokens(self, block: str, model: str) -> int:
        # The role before a block and its quotes are framing: a real service counts fewer tokens than those bytes.
        size = max(1, len(block.encode()) - len("assistant "))
        if model in self.dense:
            return size
        return max(1, size * (1 + crc32(block.encode(), crc32(model.encode())) % 8) // 8)

    def _failure(self, found: Asked) -> ModelFailure | None:
        if self.calm or self.tape.byte() < 256 - self.trouble:
            return None
        kinds: tuple[FailureKind, ...] = ("lost", "lost", "away")
        kind = self.tape.pick(kinds if self.storm else (*kinds, *kinds, "too_long", "final", "deadline"))
        return self._failed(found, kind, self.tape.pick((0.0, 0.0, 0.0, 0.25, 7.0, 500.0)) if kind == "lost" else 0.0)

    def _failed(self, found: Asked, kind: FailureKind, wait_s: float = 0.0) -> ModelFailure:
        told, usd = (found.charged, found.usd) if self.tape.byte() & 1 else (NOTHING, 0.0)
        if kind == "away":
            found.charged = told = NOTHING
            found.usd = usd = 0.0
        return ModelFailure(f"scripted: {kind}", kind=kind, usage=told, cost_usd=usd, wait_s=wait_s)

    async def _time_passes(self, deadline: datetime) -> bool:
        """False when time ran out."""
        await asyncio.sleep(0)  # attempts that are made side by side all begin before time moves
        await self.meanwhile()
        took = self.tape.pick((*(0,) * 24, 0.2, 1, 1, 4, 20, 60, 200, 400)) if not self.calm else 0
        left = (deadline - self.clock.now()).total_seconds()
        self.clock.advance(max(0.0, min(took, left)))
        for _ in range(4 if took else 0):
            await asyncio.sleep(0)  # who slept until now wakes up, and may cut this off
        return took < left


def thinking(model: str, reply_id: str, text: str) -> dict[str, Any]:
    """A block that the service will know again."""
    message = f"{crc32(reply_id.encode()):012x}"
    return {"type": "thinking", "thinking": text, "signature": sealed("thinking", model, message, 0, 1, text)}
