"""Why the prompt cache could not be used again: two requests compared, as the service's `diagnostics` does.

It compares what was asked, not what was found: a prefix that only expired has changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.lab.messages_blocks import sections, unmarked
from bot.lab.messages_cache import Looked
from bot.lab.messages_models import json_of


@dataclass(frozen=True)
class Print:
    """What is remembered of a request."""

    model: bytes
    system: bytes
    tools: bytes
    messages: tuple[bytes, ...]
    rest: bytes
    marked_tokens: int


@dataclass
class Prints:
    """Requests by the id of the message that answered them; only those that asked for diagnostics."""

    _kept: dict[str, Print] = field(default_factory=dict)

    def diagnose(self, request: Mapping[str, Any], looked: Looked, message_id: str) -> dict[str, Any] | None:
        """The reply's `diagnostics`, and the request is remembered; `None`: not asked for, or nothing changed."""
        asked = request.get("diagnostics")
        if asked is None:
            return None
        now = _print(request, looked)
        self._kept[message_id] = now
        previous = asked.get("previous_message_id")
        if previous is None:
            return None
        before = self._kept.get(previous)
        if before is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        kind = _changed(before, now)
        if kind is None:
            return None
        if kind == "unavailable":
            return {"cache_miss_reason": {"type": kind}}
        missed = max(0, before.marked_tokens - looked.usage["cache_read_input_tokens"])
        return {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": missed}}


def _changed(before: Print, now: Print) -> str | None:
    for name in ("model", "system", "tools"):
        if getattr(before, name) != getattr(now, name):
            return f"{name}_changed"
    if now.messages[: len(before.messages)] != before.messages:
        return "messages_changed"
    return None if before.rest == now.rest else "unavailable"


def _print(request: Mapping[str, Any], looked: Looked) -> Print:
    placed = [(where, json_of(unmarked(block))) for where, block in sections(request)]

    def of(*names: str) -> tuple[bytes, ...]:
        return tuple(where.encode() + b"\0" + text for where, text in placed if where in names)

    return Print(
        model=json_of([request["model"], request.get("speed")]),
        system=b"\0".join(of("system")),
        tools=b"\0".join(of("tools")),
        messages=of("user", "assistant"),
        rest=json_of([request.get(name) for name in ("thinking", "tool_choice", "output_config")]),
        marked_tokens=looked.marked_tokens,
    )
