"""Requests of the Messages API, made by hand, for the tests of its stand-in."""

from __future__ import annotations

from typing import Any

MODEL = "claude-sonnet-5-5"
TOOL = {"name": "look", "description": "d", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def text(words: str = "hi", **fields: Any) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": words, **fields}


def user(*blocks: Any) -> dict[str, Any]:
    """What a person says, or tools."""
    return {"role": "user", "content": list(blocks or [text()])}


def assistant(*blocks: Any) -> dict[str, Any]:
    """What the model said."""
    return {"role": "assistant", "content": list(blocks)}


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    """A request that is taken unless something in it is wrong."""
    found = {"model": MODEL, "max_tokens": 100, "messages": list(messages or [user()]), "tools": [TOOL]}
    return found | fields
