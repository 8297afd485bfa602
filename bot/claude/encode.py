"""A request as the Messages API takes it, with cache marks by rule.

1. Tools sorted by name and a constant system prompt: nothing that happens in a run changes either.
2. Marks: the system prompt (1 h), the last block of the last two user messages (5 min); never more than four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.engine.ports import ModelRequest

LONG: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}
SHORT: dict[str, Any] = {"type": "ephemeral"}


def encode(request: ModelRequest) -> dict[str, Any]:
    """Keyword arguments of `messages.create`."""
    found: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "system": [{"type": "text", "text": request.system, "cache_control": LONG}],
        "messages": marked([message.dump() for message in request.messages]),
        "stream": True,
    }
    tools = [
        {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)}
        for spec in sorted(request.tools, key=lambda one: one.name)
    ]
    return found | ({"tools": tools} if tools else {})


def marked(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with marks on the last two of the user's; the messages given stay as they are."""
    users = [place for place, message in enumerate(messages) if message["role"] == "user"][-2:]
    copied = [dict(message) for message in messages]
    for place in users:
        blocks = list(copied[place]["content"])
        blocks[-1] = {**blocks[-1], "cache_control": SHORT}
        copied[place]["content"] = blocks
    return copied
