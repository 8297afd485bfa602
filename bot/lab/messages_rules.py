"""What the Messages API refuses, in its own manner (model.md section 2). Each check gives a message or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

KNOWN_MODELS = frozenset(
    {"claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-5-5", "claude-fable-5-2", "claude-opus-5", "claude-sonnet-5"}
)
NO_PREFILL = frozenset({"claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-5-5"})
FIELDS = frozenset(
    {"model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control"}
    | {"diagnostics", "stop_sequences", "service_tier", "speed", "metadata", "container", "stream"}
)
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
MAX_OUTPUT = 128_000
MAX_MARKS = 4
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


class Refused(Exception):
    """An error answer of the service."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def check(request: Any) -> None:
    """Raises `Refused` for the first thing that is wrong."""
    if not isinstance(request, dict):
        raise Refused("request body is not an object")
    for name in request:
        if name in SAMPLING:
            raise Refused(f"{name}: sampling parameters are not supported by this API version")
        if name not in FIELDS:
            raise Refused(f"{name}: Extra inputs are not permitted")
    for name in ("model", "messages", "max_tokens"):
        if name not in request:
            raise Refused(f"{name}: Field required")
    if request["model"] not in KNOWN_MODELS:
        raise Refused(f"model: {request['model']}", 404, "not_found_error")
    if not isinstance(request["max_tokens"], int) or not 0 <= request["max_tokens"] <= MAX_OUTPUT:
        raise Refused(f"max_tokens: must be between 0 and {MAX_OUTPUT}")
    _tools(request)
    _choice(request)
    _marks(request)
    _messages(request)


def _tools(request: dict[str, Any]) -> None:
    names = [str(tool.get("name")) for tool in request.get("tools") or []]
    for place, tool in enumerate(request.get("tools") or []):
        if not _TOOL_NAME.match(names[place]):
            raise Refused(f"tools.{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        if not isinstance(tool.get("input_schema"), dict) or tool["input_schema"].get("type") != "object":
            raise Refused(f"tools.{place}.input_schema.type: Field required")
    if len(set(names)) != len(names):
        raise Refused("tools: Tool names must be unique.")


def _choice(request: dict[str, Any]) -> None:
    forced = (request.get("tool_choice") or {}).get("type") in ("any", "tool")
    if forced and request["model"] in NO_PREFILL:
        raise Refused(f"tool_choice: forcing tool use is not supported by {request['model']}")
    if (request.get("thinking") or {}).get("type") in ("disabled", "enabled") and request["model"] in NO_PREFILL:
        raise Refused(f"thinking.type: not supported by {request['model']}")


def _marks(request: dict[str, Any]) -> None:
    marks = [block["cache_control"] for block in cacheable(request) if block.get("cache_control")]
    marks += [request["cache_control"]] if request.get("cache_control") else []
    if len(marks) > MAX_MARKS:
        raise Refused(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(marks)}.")
    lives = [mark.get("ttl", "5m") for mark in marks]
    if any(life not in ("5m", "1h") for life in lives):
        raise Refused("cache_control.ttl: Input should be '5m' or '1h'")
    if "1h" in lives[lives.index("5m") :] if "5m" in lives else False:
        raise Refused("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")


def cacheable(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Blocks in the order that the prompt cache reads them: tools, system, messages."""
    yield from request.get("tools") or []
    system = request.get("system") or []
    yield from [{"type": "text", "text": system}] if isinstance(system, str) else system
    for message in request["messages"]:
        yield from blocks_of(message)


def blocks_of(message: Any) -> list[dict[str, Any]]:
    """A message's content as blocks."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, dict)]


def _messages(request: dict[str, Any]) -> None:
    messages = request["messages"]
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: at least one message is required")
    if messages[0].get("role") != "user":
        raise Refused('messages: first message must use the "user" role')
    if messages[-1].get("role") == "assistant" and request["model"] in NO_PREFILL:
        raise Refused(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    open_calls: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant"):
            raise Refused(f"messages.{place}.role: Input should be 'user' or 'assistant'")
        blocks = blocks_of(message)
        if not blocks:
            raise Refused(f"messages.{place}: all messages must have non-empty content")
        _blocks(blocks, place)
        _results(blocks, place, open_calls)
        open_calls = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        if len(set(open_calls)) != len(open_calls) or seen & set(open_calls):
            raise Refused(f"messages.{place}: `tool_use` ids must be unique")
        seen |= set(open_calls)
        if open_calls and not request.get("tools"):
            raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools")
    if open_calls:
        raise Refused(f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks")


def _blocks(blocks: list[dict[str, Any]], place: int) -> None:
    for number, block in enumerate(blocks):
        where = f"messages.{place}.content.{number}"
        kind = block.get("type")
        if kind == "text" and not str(block.get("text", "")).strip():
            raise Refused(f"{where}.text: text content blocks must contain non-whitespace text")
        if kind == "tool_use" and not (isinstance(block.get("input"), dict) and block.get("id") and block.get("name")):
            raise Refused(f"{where}.tool_use: id, name and input are required")
        if kind not in ("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"):
            raise Refused(f"{where}.type: Input tag '{kind}' is not expected")


def _results(blocks: list[dict[str, Any]], place: int, open_calls: list[str]) -> None:
    answered = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
    if missing := [one for one in open_calls if one not in answered]:
        raise Refused(
            f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}"
        )
    if orphans := [one for one in answered if one not in open_calls]:
        raise Refused(f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {orphans[0]}")
    if len(set(answered)) != len(answered):
        raise Refused(f"messages.{place}: each tool_use must have a single result")
    kinds = [block.get("type") for block in blocks]
    if answered and "tool_result" in kinds[kinds.index("text") :] if "text" in kinds else False:
        raise Refused(f"messages.{place}: `tool_result` blocks must come first in the message")
