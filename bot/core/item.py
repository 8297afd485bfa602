"""One piece of a conversation with the model, checked and encoded once in its life.

A request carries the whole conversation, so whatever is computed of a piece is kept with it: what a long
conversation costs must not grow with what was already there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from bot.core.canon import clean

THINKING = frozenset({"thinking", "redacted_thinking"})
"""Blocks that are bound to the model that wrote them, and are never edited."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class Item:
    """One piece of the transcript, in log order."""

    role: Literal["user", "assistant", "results"]
    content: tuple[Mapping[str, Any], ...]
    """Blocks as the Messages API takes them; never changed."""
    seq: int = 0
    """Which entry of the log it came from."""
    model: str = ""
    """Who wrote it, of an assistant's piece: its thinking is sent to no other model."""
    branch: int = 0
    """Which investigation it belongs to; 0: the conversation itself."""
    ended: str = ""
    """The stop reason of an assistant's piece."""

    @cached_property
    def encoded(self) -> tuple[bytes, ...]:
        """Each block as JSON, UTF-8, keys in the order they came in."""
        return tuple(_encode(block).encode("utf-8", "replace") for block in self.content)

    @cached_property
    def size(self) -> int:
        """Bytes of all its blocks."""
        return sum(map(len, self.encoded))

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """Ids of the calls it makes."""
        return tuple(str(block.get("id")) for block in self.content if block.get("type") == "tool_use")

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """Ids of the calls it has results for."""
        return tuple(str(block.get("tool_use_id")) for block in self.content if block.get("type") == "tool_result")

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """What the service would refuse in it by itself, each in a few words."""
        found = ["no content"] if not self.content else []
        for block in self.content:
            kind = block.get("type")
            if kind == "text" and not str(block.get("text", "")).strip():
                found.append("an empty text")
            if kind == "tool_result" and not block.get("content"):
                found.append("an empty result")
            if clean(block, 1) != block:
                found.append("a value that no exact JSON can hold")
        return tuple(found)

    @cached_property
    def without_thinking(self) -> Item:
        """The same for another model than its author."""
        return replace(self, content=tuple(one for one in self.content if one.get("type") not in THINKING))


@dataclass(frozen=True)
class Message:
    """One message of a request: pieces of one side that follow each other."""

    role: Literal["user", "assistant"]
    items: tuple[Item, ...]

    @property
    def content(self) -> list[Mapping[str, Any]]:
        """All blocks, in order."""
        return [block for item in self.items for block in item.content]

    @cached_property
    def encoded(self) -> bytes:
        """As the Messages API takes it, as JSON."""
        blocks = b",".join(block for item in self.items for block in item.encoded)
        return b'{"role":"' + self.role.encode() + b'","content":[' + blocks + b"]}"

    @cached_property
    def size(self) -> int:
        """Bytes of all its blocks."""
        return sum(item.size for item in self.items)

    @cached_property
    def width(self) -> int:
        """How many blocks it has."""
        return sum(len(item.content) for item in self.items)

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """Ids of the calls it makes."""
        return tuple(call for item in self.items for call in item.calls)

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """Ids of the calls it has results for."""
        return tuple(one for item in self.items for one in item.answers)

    def dump(self) -> dict[str, Any]:
        """As the Messages API takes it."""
        return {"role": self.role, "content": [dict(block) for block in self.content]}


def said(role: Literal["user", "assistant"], text: str, seq: int = 0) -> Item:
    """A piece of plain text."""
    return Item(role, ({"type": "text", "text": text},), seq)
