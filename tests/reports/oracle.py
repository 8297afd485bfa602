"""What the service would take, written from its rules alone; no code of ours is asked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bot.engine.ports import ModelRequest


def bodies(requests: Iterable[ModelRequest]) -> list[list[dict[str, Any]]]:
    """The messages of each request as plain JSON."""
    return [[one.dump() for one in request.messages] for request in requests]


def faults(messages: list[dict[str, Any]]) -> list[str]:
    """Why such a conversation would get a 400; empty for one that is taken."""
    found = [] if messages and messages[0]["role"] == "user" else ["it does not begin with a person"]
    open_calls: list[str] = []
    every: list[str] = []
    for place, message in enumerate(messages):
        blocks = message["content"]
        kinds = [block["type"] for block in blocks]
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(given) != sorted(open_calls):
            found.append(f"{place}: {open_calls} answered by {given}")
        if kinds[: len(given)] != ["tool_result"] * len(given):
            found.append(f"{place}: results do not come first")
        if not blocks or any(not _says_something(block) for block in blocks):
            found.append(f"{place}: something is empty")
        if place and message["role"] == messages[place - 1]["role"]:
            found.append(f"{place}: the same side twice")
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        every += open_calls
    if len(set(every)) != len(every):
        found.append("an id stands twice")
    if open_calls:
        found.append(f"{open_calls} have no result")
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return found


def _says_something(block: dict[str, Any]) -> bool:
    said = {"text": block.get("text"), "tool_result": block.get("content")}.get(block["type"], "-")
    return bool(str(said or "").strip())


def results(messages: list[dict[str, Any]]) -> dict[str, str]:
    """Call id -> its result's text."""
    blocks = [block for message in messages for block in message["content"]]
    return {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}


def refusals(api: Any) -> list[str]:
    """What the service on the wire refused, in its own words."""
    return [one.outcome for one in api.asked if one.outcome and not one.request]
