"""Content blocks as the Messages API takes them: which fields, of which type, in whose message.

A table, not code, says what a block may hold; a block that is not in it is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_Types = tuple[type, ...]
_TEXT, _LIST, _DICT, _BOOL = (str,), (list,), (dict,), (bool,)
_NONE = type(None)
_NAMES = {str: "string", list: "list", dict: "dictionary", bool: "boolean"}
_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
_CALL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,200}$")


class Refused(Exception):
    """An error answer of the service."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True)
class Kind:
    """What a block of one type holds."""

    needs: Mapping[str, _Types]
    may: Mapping[str, _Types] = field(default_factory=dict)
    role: str = ""
    """Whose messages may hold it; empty: anyone's."""


_MARK: dict[str, _Types] = {"cache_control": (dict, _NONE)}
KINDS = {
    "text": Kind({"text": _TEXT}, {**_MARK, "citations": (list, _NONE)}),
    "image": Kind({"source": _DICT}, {**_MARK, "transformations": (dict, _NONE)}, "user"),
    "document": Kind(
        {"source": _DICT},
        {**_MARK, "citations": (dict, _NONE), "context": (str, _NONE), "title": (str, _NONE)},
        "user",
    ),
    "search_result": Kind({"content": _LIST, "source": _TEXT, "title": _TEXT}, {**_MARK, "citations": _DICT}, "user"),
    "tool_result": Kind(
        {"tool_use_id": _TEXT},
        {**_MARK, "content": (str, list), "is_error": _BOOL, "toolset_name": (str, _NONE)},
        "user",
    ),
    "tool_use": Kind(
        {"id": _TEXT, "name": _TEXT, "input": _DICT},
        {**_MARK, "caller": _DICT, "toolset_name": (str, _NONE)},
        "assistant",
    ),
    "thinking": Kind({"thinking": _TEXT, "signature": _TEXT}, role="assistant"),
    "redacted_thinking": Kind({"data": _TEXT}, role="assistant"),
}
INSIDE_RESULTS = frozenset({"text", "image", "document", "search_result", "tool_reference"})
_REFERENCE = Kind({"tool_name": _TEXT}, _MARK)
_SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "image": {"base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",)},
    "document": {
        "base64": ("media_type", "data"),
        "url": ("url",),
        "file": ("file_id",),
        "text": ("media_type", "data"),
        "content": (),
    },
}
_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def blocks_of(message: Any) -> list[dict[str, Any]]:
    """A message's content as blocks."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, dict)]


def sections(request: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every block with where it stands, in the order that the prompt cache reads them: tools, system, messages."""
    yield from (("tools", tool) for tool in request.get("tools") or [])
    system = request.get("system") or []
    yield from (
        ("system", block) for block in ([{"type": "text", "text": system}] if isinstance(system, str) else system)
    )
    for message in request["messages"]:
        yield from ((str(message["role"]), block) for block in blocks_of(message))


def cacheable(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks of `sections` alone."""
    yield from (block for _, block in sections(request))


def mark_of(block: Mapping[str, Any]) -> Any:
    """A block's cache mark, or `None`; one inside a tool's result counts for the result."""
    found: Any = block.get("cache_control")
    content = block.get("content")
    for inner in content if not found and isinstance(content, list) else []:
        found = (isinstance(inner, dict) and inner.get("cache_control")) or found
    return found or None


def unmarked(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block as the prompt holds it: marks are no part of it."""
    content = block.get("content")
    if "cache_control" not in block and not isinstance(content, list):
        return dict(block)
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(content, list):
        bare["content"] = [unmarked(one) if isinstance(one, dict) else one for one in content]
    return bare


def check_block(block: Any, where: str, role: str) -> None:
    """Raises `Refused` unless that block may stand in a message of that role."""
    if not isinstance(block, dict):
        raise Refused(f"{where}: Input should be a valid dictionary")
    name = block.get("type")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Refused(f"{where}.type: Input tag '{name}' found using 'type' does not match any of the expected tags")
    if kind.role not in ("", role):
        raise Refused(f"{where}: `{name}` blocks can only be in `{kind.role}` messages")
    _fields(block, kind, f"{where}.{name}")
    match name:
        case "text":
            _text(block, f"{where}.text", role)
        case "tool_use":
            _call(block, f"{where}.tool_use")
        case "tool_result":
            _result(block, f"{where}.tool_result")
        case "image" | "document":
            _source(block, f"{where}.{name}.source", name)


def _fields(block: Mapping[str, Any], kind: Kind, where: str) -> None:
    for name, value in block.items():
        types = kind.needs.get(name) or kind.may.get(name)
        if name != "type" and types is None:
            raise Refused(f"{where}.{name}: Extra inputs are not permitted")
        if types and not isinstance(value, types):
            raise Refused(f"{where}.{name}: Input should be a valid {_NAMES[types[0]]}")
    for name in kind.needs:
        if name not in block:
            raise Refused(f"{where}.{name}: Field required")


def _text(block: Mapping[str, Any], where: str, role: str) -> None:
    if not block["text"] and block.get("cache_control"):
        raise Refused(f"{where}: cache_control cannot be set for empty text blocks")
    if not block["text"]:
        raise Refused(f"{where}: text content blocks must be non-empty")
    if not block["text"].strip():
        raise Refused(f"{where}: text content blocks must contain non-whitespace text")
    if block.get("citations") and role == "user":
        raise Refused(f"{where}.citations: citations are not permitted in `user` messages")


def _call(block: Mapping[str, Any], where: str) -> None:
    if not _ID.match(block["id"]):
        raise Refused(f"{where}.id: String should match pattern '{_ID.pattern}'")
    if not _CALL_NAME.match(block["name"]):
        raise Refused(f"{where}.name: String should match pattern '{_CALL_NAME.pattern}'")


def _result(block: Mapping[str, Any], where: str) -> None:
    content = block.get("content")
    if not content and block.get("is_error"):
        raise Refused(f"{where}: content cannot be empty if `is_error` is true")
    if content == "":
        # Not everyone saw the service refuse it; nobody may rely on it (model.md section 3, report 32).
        raise Refused(f"{where}.content: text content blocks must be non-empty")
    for number, inner in enumerate(content if isinstance(content, list) else []):
        name = inner.get("type") if isinstance(inner, dict) else None
        if name not in INSIDE_RESULTS:
            raise Refused(f"{where}.content.{number}.type: Input tag '{name}' is not expected in a tool_result")
        if name == "tool_reference":
            _fields(inner, _REFERENCE, f"{where}.content.{number}.tool_reference")
        else:
            check_block(inner, f"{where}.content.{number}", "user")


def _source(block: Mapping[str, Any], where: str, name: str) -> None:
    source = block["source"]
    known = _SOURCES[name]
    if source.get("type") not in known:
        raise Refused(f"{where}.type: Input tag '{source.get('type')}' does not match any of the expected tags")
    for part in known[source["type"]]:
        if not isinstance(source.get(part), str):
            raise Refused(f"{where}.{source['type']}.{part}: Field required")
    if source["type"] != "base64":
        return
    allowed = _PICTURES if name == "image" else frozenset({"application/pdf"})
    if source["media_type"] not in allowed:
        raise Refused(f"{where}.base64.media_type: Input should be one of {', '.join(sorted(allowed))}")
    try:
        base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError):
        raise Refused(f"{where}.base64.data: invalid base64 data") from None
