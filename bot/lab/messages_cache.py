"""A prompt cache that accounts as the API does: by marks, with a look-back, in tokens.

1. Only a mark writes, and only when the reply begins; a prefix below the model's least size is never kept.
2. A mark finds what was written at its own block or at one of the 19 before it; the longest find is what is read.
3. What is found lives on for as long as it was written for; nothing makes a short life longer.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.lab.messages_blocks import mark_of, sections, unmarked
from bot.lab.messages_models import MODELS, json_of, tokens_of_bytes
from bot.lab.messages_thinking import THINKING

LOOK_BACK = 20
"""Blocks at which a mark looks, itself the first (model.md section 2.2, performance.md finding 7)."""
LIFE_S = {"5m": 300.0, "1h": 3600.0}
_SHAPING = ("tool_choice", "thinking", "output_config")
"""Settings that are part of what the messages are read with, but not of tools and system."""


@dataclass
class Kept:
    """A prefix in the cache."""

    until: float
    life_s: float


@dataclass(frozen=True)
class Looked:
    """What a request finds, and what it will leave behind."""

    usage: dict[str, Any]
    total_tokens: int
    """The whole prompt."""
    marked_tokens: int
    """Up to the last mark that is long enough to be kept."""
    found: tuple[bytes, ...]
    written: tuple[tuple[bytes, float], ...]
    """Prefix and seconds to live."""


@dataclass
class PromptCache:
    """Prefixes that were written, and until when."""

    now: Callable[[], float] = time.monotonic
    _kept: dict[bytes, Kept] = field(default_factory=dict)

    def account(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The usage of that request's input; what it writes is found by the next one."""
        looked = self.look(request)
        self.keep(looked)
        return looked.usage

    def look(self, request: Mapping[str, Any]) -> Looked:
        """Reckon, and change nothing: a request that is refused after all leaves no trace."""
        marks = marks_of(request)
        sizes, prefixes = _prefixes(request)
        finds = [place for mark in marks if (place := self._found(mark, prefixes)) is not None]
        read = max((sizes[place] for place in finds), default=0)
        done, fresh, written = read, {"5m": 0, "1h": 0}, list[tuple[bytes, float]]()
        for place in sorted(marks):
            life = marks[place].get("ttl", "5m")
            if sizes[place] >= MODELS[request["model"]].least_cached_tokens:
                fresh[life] += max(0, sizes[place] - done)
                done = max(done, sizes[place])
                written.append((prefixes[place], LIFE_S[life]))
        total = sizes[-1] if sizes else 0
        usage = {
            "input_tokens": total - done,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sum(fresh.values()),
            "cache_creation": {
                "ephemeral_5m_input_tokens": fresh["5m"],
                "ephemeral_1h_input_tokens": fresh["1h"],
            },
        }
        return Looked(usage, total, done, tuple(prefixes[place] for place in finds), tuple(written))

    def keep(self, looked: Looked) -> None:
        """The reply has begun: what was read lives on, what was written can be found."""
        now = self.now()
        for prefix in looked.found:
            self._kept[prefix].until = now + self._kept[prefix].life_s
        for prefix, life_s in looked.written:
            if not self._lives(prefix):
                self._kept[prefix] = Kept(now + life_s, life_s)

    def _lives(self, prefix: bytes) -> bool:
        kept = self._kept.get(prefix)
        return kept is not None and kept.until > self.now()

    def _found(self, mark: int, prefixes: list[bytes]) -> int | None:
        window = range(mark, max(-1, mark - LOOK_BACK), -1)
        return next((place for place in window if self._lives(prefixes[place])), None)


def marks_of(request: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Place of a block in the prompt -> its mark; the request's own mark sits on the last block that can hold one."""
    blocks = [block for _, block in sections(request)]
    marks: dict[int, Mapping[str, Any]] = {
        place: mark for place, block in enumerate(blocks) if (mark := mark_of(block)) is not None
    }
    if automatic := request.get("cache_control"):
        able = [place for place, block in enumerate(blocks) if block.get("type") not in THINKING]
        marks |= dict.fromkeys(able[-1:], automatic)
    return marks


def _prefixes(request: Mapping[str, Any]) -> tuple[list[int], list[bytes]]:
    sizes, prefixes, total, shaped = list[int](), list[bytes](), 0, False
    running = hashlib.sha256(json_of([request["model"], request.get("speed")]))
    for where, block in sections(request):
        if not shaped and where in ("user", "assistant"):
            running.update(json_of([request.get(name) for name in _SHAPING]))
            shaped = True
        text = json_of(unmarked(block))
        running.update(b"\0" + where.encode() + b"\0" + text)
        total += tokens_of_bytes(len(text))
        sizes.append(total)
        prefixes.append(running.digest())
    return sizes, prefixes
