"""A prompt cache that accounts as the API does: by marks, with a look-back, in tokens."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bot.lab.messages_rules import cacheable

LOOK_BACK = 20
"""Blocks before a mark in which an earlier write is found (model.md section 2.2)."""
LEAST_TOKENS = 512
LIFE_S = {"5m": 300.0, "1h": 3600.0}


def tokens_of(value: Any) -> int:
    """A deterministic estimate: a token for each four bytes of JSON, rounded up."""
    return -(-len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) // 4)


@dataclass
class PromptCache:
    """Prefixes that were written, and until when."""

    now: Callable[[], float] = time.monotonic
    _until: dict[str, float] = field(default_factory=dict)

    def account(self, request: dict[str, Any]) -> dict[str, Any]:
        """The usage of that request's input; what it writes is found by the next one."""
        blocks = list(cacheable(request))
        marks = {place: block["cache_control"] for place, block in enumerate(blocks) if block.get("cache_control")}
        if request.get("cache_control") and blocks:
            marks[len(blocks) - 1] = request["cache_control"]
        sizes, prefixes = self._prefixes(request["model"], blocks)
        read = self._read(marks, prefixes, sizes)
        written = {"5m": 0, "1h": 0}
        done = read
        for place in sorted(marks):
            life = marks[place].get("ttl", "5m")
            if sizes[place] >= LEAST_TOKENS:
                self._until[prefixes[place]] = self.now() + LIFE_S[life]
                written[life] += max(0, sizes[place] - done)
                done = max(done, sizes[place])
        whole = sizes[-1] if sizes else 0
        return {
            "input_tokens": whole - done,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }

    def _prefixes(self, model: str, blocks: list[dict[str, Any]]) -> tuple[list[int], list[str]]:
        sizes, prefixes, total = list[int](), list[str](), 0
        running = hashlib.sha256(model.encode())
        for block in blocks:
            bare = {key: value for key, value in block.items() if key != "cache_control"}
            running.update(json.dumps(bare, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            total += tokens_of(bare)
            sizes.append(total)
            prefixes.append(running.hexdigest())
        return sizes, prefixes

    def _read(self, marks: dict[int, Any], prefixes: list[str], sizes: list[int]) -> int:
        now, best = self.now(), 0
        for mark in marks:
            for place in range(mark, max(-1, mark - LOOK_BACK), -1):
                if self._until.get(prefixes[place], 0.0) > now:
                    best = max(best, sizes[place])
                    break
        return best
