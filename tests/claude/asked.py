"""Requests for the client, and the same requests spelled out as the SDK takes them: slowly, and without its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.item import Item, Message, said
from bot.core.tool import ToolSpec
from bot.engine.ports import ModelRequest
from tests.builders import GET_ORDER, ISSUE_CREDIT

MODEL = "claude-sonnet-5-5"
SYSTEM = 'You help. "Größe" 😀\n' + "Be brief. " * 300
LONG, SHORT = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
Marks = Mapping[tuple[int, int], dict[str, str]]


def turn(number: int, calls: int = 1, size: int = 40) -> list[Message]:
    """A reply with calls, and their results."""
    ids = [f"toolu_{number}_{call}" for call in range(calls)]
    made = [{"type": "tool_use", "id": one, "name": "get_order", "input": {"z": "ä", "a": number}} for one in ids]
    found = [{"type": "tool_result", "tool_use_id": one, "content": f"{one}: " + "ü" * size} for one in ids]
    reply = Item("assistant", ({"type": "text", "text": "I look."}, *made), model=MODEL, ended="tool_use")
    return [Message("assistant", (reply,)), Message("user", (Item("results", tuple(found)),))]


def conversation(turns: int, calls: int = 1, size: int = 40) -> list[Message]:
    """A question and so many turns."""
    found = [Message("user", (said("user", "why? 😀"),))]
    for number in range(turns):
        found += turn(number, calls, size)
    return found


def request(
    messages: Sequence[Message] | None = None,
    *,
    tools: Sequence[ToolSpec] = (ISSUE_CREDIT.spec, GET_ORDER.spec),
    system: str = SYSTEM,
    **more: Any,
) -> ModelRequest:
    """One question of the agent unless said."""
    return ModelRequest(
        **{
            "model": MODEL,
            "system": system,
            "tools": tools,
            "messages": conversation(0) if messages is None else messages,
            "max_output_tokens": 500,
            "conversation": "t",
            **more,
        }
    )


def spelled(asked: ModelRequest, marks: Marks) -> dict[str, Any]:
    """Keyword arguments of `messages.create` that mean the same; `marks`: (message, block) -> cache_control."""
    messages = [message.dump() for message in asked.messages]
    for (at, block), mark in marks.items():
        messages[at]["content"][block]["cache_control"] = mark
    found: dict[str, Any] = {
        "model": asked.model,
        "max_tokens": asked.max_output_tokens,
        "system": [{"type": "text", "text": asked.system, "cache_control": LONG}],
        "messages": messages,
    }
    if asked.tools:
        found["tools"] = [
            {"name": one.name, "description": one.description, "input_schema": dict(one.input_schema)}
            for one in sorted(asked.tools, key=lambda one: one.name)
        ]
    if asked.previous_id:
        found["diagnostics"] = {"previous_message_id": asked.previous_id}
    return found


def within(seconds: float) -> datetime:
    """A deadline."""
    return datetime.now(UTC) + timedelta(seconds=seconds)
