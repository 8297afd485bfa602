"""Read a streamed reply strictly: it is complete and exact, or it is no reply at all.

1. Every block closed, a stop reason, and `message_stop`; anything less is `Incomplete`, whatever it looks like.
2. Arguments are parsed once, when their block is closed, by a strict parser; never guessed, never repaired.
3. Blocks are kept as they came, in order; thinking with its signature untouched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.core.canon import canonical, clean

_DELTAS = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "thinking")}


class Incomplete(Exception):
    """The stream ended, or broke its own rules, before the message was whole."""


@dataclass
class _Open:
    block: dict[str, Any]
    parts: list[str] = field(default_factory=list)
    """Pieces of JSON of a call's arguments."""
    closed: bool = False


@dataclass
class Message:
    """A message in the making; `finish` gives it only when it is whole."""

    id: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    invalid: dict[str, str] = field(default_factory=dict)
    """Call id -> why its arguments cannot be read."""
    _blocks: dict[int, _Open] = field(default_factory=dict)
    _stopped: bool = False

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of the stream, as a plain dict. Raises `Incomplete` for one that makes no sense."""
        if self._stopped:
            raise Incomplete("something followed the end of the message")
        match event.get("type"):
            case "message_start":
                self._start(event["message"])
            case "content_block_start":
                self._open(int(event["index"]), dict(event["content_block"]))
            case "content_block_delta":
                self._delta(int(event["index"]), event["delta"])
            case "content_block_stop":
                self._close(int(event["index"]))
            case "message_delta":
                self.stop_reason = str(event["delta"].get("stop_reason") or "")
                self.usage |= {key: value for key, value in event.get("usage", {}).items() if value is not None}
            case "message_stop":
                self._stopped = True
            case _:
                pass  # a kind of event that this version does not know changes nothing

    @property
    def whole(self) -> bool:
        """The end of the message was seen."""
        return self._stopped

    def finish(self) -> list[dict[str, Any]]:
        """The blocks, in order. Raises `Incomplete`."""
        if not self._stopped:
            raise Incomplete("the stream ended without message_stop")
        if not self.stop_reason:
            raise Incomplete("the stream ended without a stop reason")
        if any(not one.closed for one in self._blocks.values()):
            raise Incomplete("the stream ended inside a block")
        return [self._blocks[index].block for index in sorted(self._blocks)]

    def _start(self, message: Mapping[str, Any]) -> None:
        self.id, self.model = str(message.get("id", "")), str(message.get("model", ""))
        self.usage = {key: value for key, value in (message.get("usage") or {}).items() if value is not None}

    def _open(self, index: int, block: dict[str, Any]) -> None:
        if not self.id or index in self._blocks:
            raise Incomplete(f"block {index} was opened out of turn")
        self._blocks[index] = _Open(block)

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        opened = self._blocks.get(index)
        if opened is None or opened.closed:
            raise Incomplete(f"a delta for block {index}, which is not open")
        kind = delta.get("type")
        if kind == "input_json_delta":
            opened.parts.append(str(delta["partial_json"]))
        elif kind == "signature_delta":
            opened.block["signature"] = delta["signature"]
        elif kind in _DELTAS:
            name, source = _DELTAS[str(kind)]
            opened.block[name] = str(opened.block.get(name, "")) + str(delta[source])

    def _close(self, index: int) -> None:
        opened = self._blocks.get(index)
        if opened is None or opened.closed:
            raise Incomplete(f"block {index} was closed out of turn")
        opened.closed = True
        if opened.block.get("type") == "tool_use":
            self._read_arguments(opened)

    def _read_arguments(self, opened: _Open) -> None:
        raw = "".join(opened.parts)
        try:
            opened.block["input"] = strict_object(raw) if raw.strip() else dict(opened.block.get("input") or {})
        except ValueError as error:
            self.invalid[str(opened.block.get("id"))] = f"the arguments are not valid JSON ({error})"
            opened.block["input"] = {}


def strict_object(raw: str) -> dict[str, Any]:
    """Exactly one JSON object: no doubled key, no NaN or infinity, no lone surrogate. Raises `ValueError`."""
    try:
        value = json.loads(raw, object_pairs_hook=_unique, parse_constant=_refuse)
        # One level down, as in its block: what the log would replace must not run as something else.
        kept = clean(value, 1) == value
    except RecursionError:
        kept = False
    if not kept:
        raise ValueError("nested too deeply, or a number or character that no exact JSON can hold")
    if not isinstance(value, dict):
        raise ValueError("not an object")
    try:
        canonical(value)
    except ValueError:
        raise ValueError("a number or character that no exact JSON can hold") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")
