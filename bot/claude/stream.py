"""Read a streamed reply strictly: it is complete and exact, or it is no reply at all.

1. One `message_start`; blocks 0, 1, 2, ... one after the other, each closed; a stop reason; the count of what was
   written; `message_stop`. Anything less, more, or in another order is `Incomplete`, whatever it looks like.
2. Arguments are parsed once, when their block is closed, by a strict parser; never guessed, never repaired.
3. Blocks are kept as they came, in order; thinking with its signature untouched.
4. Events, blocks and deltas of kinds that this version does not know pass; a block of a new kind is kept as it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.claude.strict import decode, exact, joined, strict_object

CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_GROWS = {
    ("text", "text_delta"): "text",
    ("thinking", "thinking_delta"): "thinking",
    **{(kind, "input_json_delta"): "partial_json" for kind in CALLS},
}
"""(block, delta) -> the delta's field that its text grows by."""
_SETS = {("thinking", "signature_delta"), ("text", "citations_delta")}
_BLOCKS = frozenset({"text", "thinking", "redacted_thinking"}) | CALLS
_DELTAS = frozenset(delta for _, delta in _GROWS) | {delta for _, delta in _SETS}
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class Incomplete(Exception):
    """The stream ended, or broke its own rules, before the message was whole."""


class InBand(Exception):
    """The service says inside the stream that it failed."""

    def __init__(self, kind: str, said: str, code: str = "") -> None:
        super().__init__(said)
        self.kind, self.said, self.code = kind, said, code


@dataclass
class _Open:
    block: dict[str, Any]
    kind: str
    parts: list[str] = field(default_factory=list)


@dataclass
class Message:
    """A message in the making; `finish` gives it only when it is whole."""

    id: str = ""
    model: str = ""
    stop_reason: str = ""
    stop_category: str = ""
    """Of a refusal: what kind of thing was declined, in the service's own word."""
    usage: dict[str, Any] = field(default_factory=dict)
    cache_miss_reason: str = ""
    invalid: dict[str, str] = field(default_factory=dict)
    """Call id -> why its arguments cannot be read."""
    _blocks: list[dict[str, Any]] = field(default_factory=list)
    _now: _Open | None = None
    _ending: bool = False
    _counted: bool = False
    _stopped: bool = False

    def read(self, name: bytes, data: bytes) -> None:
        """One frame. Raises `Incomplete`, or `InBand` when it says that the service failed.

        A frame without a name goes by the type in its data, which every event of this service has: passing over it,
        as the SDK does, would lose a piece of the reply without a trace.
        """
        try:
            event = decode(data.decode("utf-8"))
        except (ValueError, RecursionError):
            if name == b"error":
                raise InBand("", data.decode("utf-8", "replace")) from None
            raise Incomplete("an event that is no JSON in UTF-8") from None
        if not isinstance(event, dict):
            raise Incomplete("an event that is no object")
        if name == b"error":
            raise _in_band(event.get("error"))
        kind = event.get("type")
        if name and kind is not None and name != str(kind).encode():
            raise Incomplete(f"an event named {name.decode('utf-8', 'replace')} that says it is {kind}")
        self.take(event)

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of the stream, as a plain dict. Raises `Incomplete` for one that makes no sense, and `InBand`."""
        if self._stopped:
            raise Incomplete("something followed the end of the message")
        match event.get("type"):
            case "content_block_delta":
                self._delta(event)
            case "content_block_start":
                self._open(event)
            case "content_block_stop":
                self._close(event)
            case "message_start":
                self._start(_mapping(event, "message"))
            case "message_delta":
                self._end(event)
            case "message_stop":
                self._stop()
            case "error":
                raise _in_band(event.get("error"))
            case _:
                pass  # a kind of event that this version does not know changes nothing

    @property
    def whole(self) -> bool:
        """The end of the message was seen."""
        return self._stopped

    def finish(self) -> list[dict[str, Any]]:
        """The blocks, in order. Raises `Incomplete`."""
        if not self._stopped:
            raise Incomplete("the stream ended without message_stop" if self.id else "the stream held no message")
        return self._blocks

    def _start(self, message: Mapping[str, Any]) -> None:
        if self.id:
            raise Incomplete("a second message began inside this one")
        if message.get("content"):
            raise Incomplete("a message that had content before its first block")
        self.id, self.model = _text(message, "id"), _text(message, "model")
        if not self.id:
            raise Incomplete("a message without an id")
        self._count(_mapping(message, "usage"))
        told = message.get("diagnostics")
        reason = told.get("cache_miss_reason") if isinstance(told, dict) else None
        self.cache_miss_reason = str(reason.get("type", "")) if isinstance(reason, dict) else ""

    def _open(self, event: Mapping[str, Any]) -> None:
        index, block = event.get("index"), dict(_mapping(event, "content_block"))
        if not self.id or self._now is not None or self._ending or index != len(self._blocks):
            raise Incomplete(f"block {index} was opened out of turn")
        kind = _text(block, "type")
        if kind in CALLS:
            _mapping(block, "input")
            if not (_text(block, "id") and _text(block, "name")):
                raise Incomplete("a call without an id or a name")
        if kind in ("text", "thinking"):
            _text(block, kind)
        self._blocks.append(block)
        self._now = _Open(block, kind)

    def _delta(self, event: Mapping[str, Any]) -> None:
        now, index = self._now, event.get("index")
        if now is None or index != len(self._blocks) - 1:
            raise Incomplete(f"a delta for block {index}, which is not open")
        delta = _mapping(event, "delta")
        kind = _text(delta, "type")
        name = _GROWS.get((now.kind, kind))
        if name is not None:
            now.parts.append(_text(delta, name))
        elif kind in _DELTAS and now.kind in _BLOCKS:
            self._set(now, kind, delta)

    def _set(self, now: _Open, kind: str, delta: Mapping[str, Any]) -> None:
        if (now.kind, kind) not in _SETS:
            raise Incomplete(f"a {kind} in a block of {now.kind}")
        if kind == "signature_delta":
            now.block["signature"] = _text(delta, "signature")
        else:
            before = now.block.get("citations")
            now.block["citations"] = [*(before if isinstance(before, list) else ()), _mapping(delta, "citation")]

    def _close(self, event: Mapping[str, Any]) -> None:
        now, index = self._now, event.get("index")
        if now is None or index != len(self._blocks) - 1:
            raise Incomplete(f"block {index} was closed out of turn")
        self._now = None
        if now.kind in CALLS:
            self._read_arguments(now.block, joined(now.parts))
        elif now.parts:
            now.block[now.kind] += joined(now.parts)

    def _read_arguments(self, block: dict[str, Any], raw: str) -> None:
        try:
            block["input"] = strict_object(raw) if raw.strip() else exact(block["input"])
        except ValueError as error:
            why = f"its arguments are not valid JSON ({error}); they may have been cut off. Send the whole call again."
            self.invalid[str(block["id"])] = why
            block["input"] = {}

    def _end(self, event: Mapping[str, Any]) -> None:
        if not self.id or self._now is not None:
            raise Incomplete("the message was about to end, but nothing was there or a block was open")
        delta = _mapping(event, "delta")
        reason, details = delta.get("stop_reason"), delta.get("stop_details")
        if isinstance(details, Mapping) and isinstance(details.get("category"), str):
            self.stop_category = details["category"]
        if reason is not None:
            if not isinstance(reason, str) or (self.stop_reason and self.stop_reason != reason):
                raise Incomplete("two stop reasons, or one that is no text")
            self.stop_reason = reason
        usage = _mapping(event, "usage")
        self._count(usage)
        self._ending, self._counted = True, self._counted or usage.get("output_tokens") is not None

    def _stop(self) -> None:
        if self._now is not None:
            raise Incomplete("the stream ended inside a block")
        if not self.stop_reason:
            raise Incomplete("the stream ended without a stop reason")
        if not self._counted:
            raise Incomplete("the stream ended without saying what was used")
        self._stopped = True

    def _count(self, usage: Mapping[str, Any]) -> None:
        for name in _COUNTS:
            count = usage.get(name)
            if count is not None and (type(count) is not int or count < 0):
                raise Incomplete(f"{name} is no count")
        self.usage |= {name: count for name, count in usage.items() if count is not None}


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    if not isinstance(found, dict):
        raise Incomplete(f"an event without its {name}")
    return found


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise Incomplete(f"an event without its {name}")
    return found


def _in_band(error: Any) -> InBand:
    told = error if isinstance(error, dict) else {}
    details = told.get("details")
    code = details.get("error_code") if isinstance(details, dict) else None
    return InBand(str(told.get("type") or ""), str(told.get("message") or ""), str(code or ""))
