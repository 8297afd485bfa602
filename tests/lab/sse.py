"""A second reader of a stream, written from the rules alone: what a fault makes of a reply is asked of it.

It shares no code with the lab or with the client. Rules: the server-sent events standard (fields, line ends, an event
counts only with its blank line), and the order of events that the Messages API documents.
"""

from __future__ import annotations

import json
import re
from typing import Any

KNOWN = ("text", "tool_use", "thinking", "redacted_thinking")


class Bad(Exception):
    """This is no complete reply."""


def read(wire: bytes) -> tuple[list[dict[str, Any]], str]:
    """Blocks and stop reason of a complete reply; a call whose arguments are none has `input: None`. Raises `Bad`."""
    message, blocks, open_, reason = False, dict[int, dict[str, Any]](), set[int](), None
    for event in _events(wire):
        kind = event.get("type")
        if not message and kind not in ("message_start", "ping") and _matters(kind):
            raise Bad(f"{kind} before message_start")
        match kind:
            case "message_start":
                if message:
                    raise Bad("two messages")
                message = True
            case "content_block_start":
                if event["index"] in blocks:
                    raise Bad("a block twice")
                blocks[event["index"]] = {**event["content_block"], "_": ""}
                open_.add(event["index"])
            case "content_block_delta":
                if event["index"] not in open_:
                    raise Bad("a delta without its block")
                _grow(blocks[event["index"]], event["delta"])
            case "content_block_stop":
                if event["index"] not in open_:
                    raise Bad("a stop without its start")
                open_.remove(event["index"])
            case "message_delta":
                reason = event["delta"].get("stop_reason")
            case "message_stop":
                if open_ or not reason:
                    raise Bad("the end of what is not whole")
                return [_done(blocks[index]) for index in sorted(blocks) if blocks[index]["type"] in KNOWN], reason
            case "error":
                raise Bad("an error in band")
    raise Bad("no message_stop")


def _matters(kind: Any) -> bool:
    return str(kind).startswith(("message_", "content_", "error"))


def _events(wire: bytes) -> Any:
    lines = re.split(rb"\r\n|\n|\r", wire)
    lines.pop()  # whatever has no line end is not there
    data: list[bytes] = []
    for line in lines:
        if not line:
            if data:
                yield _json(b"\n".join(data))
            data = []
        elif line.startswith(b"data:"):
            data.append(line.removeprefix(b"data:").removeprefix(b" "))


def _json(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except ValueError as error:
        raise Bad("data that is no JSON") from error


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "input_json_delta":
            block["_"] += delta["partial_json"]
        case "text_delta" | "thinking_delta" | "signature_delta":
            name = delta["type"].removesuffix("_delta")
            block[name] += delta[name]


def _done(block: dict[str, Any]) -> dict[str, Any]:
    raw = block.pop("_")
    if block["type"] == "tool_use" and raw:
        block["input"] = _exact(raw)
    return block


def _exact(raw: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    try:
        value = json.loads(raw, object_pairs_hook=once)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
