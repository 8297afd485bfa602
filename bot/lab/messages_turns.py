"""The order of a conversation: whose turn it is, and that every call has exactly one result, at once."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import Any

from bot.lab.messages_blocks import Refused, blocks_of, check_block, unmarked
from bot.lab.messages_models import MODELS
from bot.lab.messages_thinking import check_thinking

MAX_MESSAGES = 100_000


def content_key(blocks: Sequence[dict[str, Any]]) -> str:
    """The content, so that it can be compared with what was returned; the order of keys says nothing."""
    return json.dumps([unmarked(block) for block in blocks], sort_keys=True)


def check_messages(request: dict[str, Any], paused: Container[str]) -> None:
    """Raises `Refused`. `paused`: keys of contents that were returned with `pause_turn` and may be sent back last."""
    messages = request["messages"]
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: at least one message is required")
    if len(messages) > MAX_MESSAGES:
        raise Refused(f"messages: List should have at most {MAX_MESSAGES} items")
    for place, message in enumerate(messages):
        _message(message, place)
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    resumed = messages[-1]["role"] == "assistant" and content_key(blocks_of(messages[-1])) in paused
    if messages[-1]["role"] == "assistant" and not resumed and not MODELS[request["model"]].steerable:
        raise Refused(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    _calls(request, resumed=resumed)
    check_thinking(messages, request["model"])


def _message(message: Any, place: int) -> None:
    if not isinstance(message, dict):
        raise Refused(f"messages.{place}: Input should be a valid dictionary")
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise Refused(f"messages.{place}.role: Input should be 'user' or 'assistant'")
    if extra := message.keys() - {"role", "content"}:
        raise Refused(f"messages.{place}.{min(extra)}: Extra inputs are not permitted")
    if not isinstance(content, str | list):
        raise Refused(f"messages.{place}.content: Input should be a valid list")
    if not content:
        raise Refused(f"messages.{place}: all messages must have non-empty content")
    for number, block in enumerate([{"type": "text", "text": content}] if isinstance(content, str) else content):
        check_block(block, f"messages.{place}.content.{number}", role)


def _calls(request: dict[str, Any], *, resumed: bool) -> None:
    open_calls: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(request["messages"]):
        blocks = blocks_of(message)
        _results(blocks, place, open_calls)
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(open_calls)) != len(open_calls) or seen & set(open_calls):
            raise Refused(f"messages.{place}: `tool_use` ids must be unique")
        seen |= set(open_calls)
    if seen and not request.get("tools"):
        raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools")
    if open_calls and not resumed:
        last = len(request["messages"]) - 1
        raise Refused(f"messages.{last}: `tool_use` ids were found without `tool_result` blocks")


def _results(blocks: list[dict[str, Any]], place: int, open_calls: list[str]) -> None:
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if missing := [one for one in open_calls if one not in answered]:
        raise Refused(
            f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}"
        )
    if orphans := [one for one in answered if one not in open_calls]:
        raise Refused(f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {orphans[0]}")
    if len(set(answered)) != len(answered):
        raise Refused(f"messages.{place}: each tool_use must have a single result")
    if any(block["type"] != "tool_result" for block in blocks[: len(answered)]):
        raise Refused(f"messages.{place}: `tool_result` blocks must come first in the message")
