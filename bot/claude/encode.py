"""A request as bytes, from pieces that were each encoded once: a longer conversation costs a longer join, no more.

1. What stays the same in a thread stands first, byte for byte: tools sorted by name, system prompt, messages.
2. Nothing is said about thinking, effort or choice of tools: a change would throw the cache away, and models differ in
   what they take. By default they leave the text of their thinking out. Nobody is shown it (progress shows tools), and
   every stored reply and every later request would be longer for it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from bot.claude.marks import LONG, life, places
from bot.core.item import THINKING, Message
from bot.core.tool import ToolSpec
from bot.engine.ports import ModelRequest

KEPT = 64
"""Pairs of system prompt and tools that are kept encoded: one for each channel with tools of its own, and role."""
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Encoder:
    """Keeps what many requests begin with."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], tuple[bytes, Sequence[ToolSpec]]] = OrderedDict()

    def body(self, request: ModelRequest) -> bytes:
        """The body of `POST /v1/messages`, streamed."""
        marked, mark = places(request), life(request)
        messages = b",".join(_message(message, marked.get(at), mark) for at, message in enumerate(request.messages))
        end = f'],"max_tokens":{request.max_output_tokens}'
        if request.previous_id:
            end += f',"diagnostics":{_json({"previous_message_id": request.previous_id})}'
        start = f'{{"model":{_json(request.model)},"stream":true,'
        return b"".join((start.encode(), self._constant(request), b'"messages":[', messages, end.encode(), b"}"))

    def _constant(self, request: ModelRequest) -> bytes:
        # By identity, which is cheap; the tools are kept beside it so that no other object can take their ids.
        key = (request.system, tuple(map(id, request.tools)))
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = (_constant(request.system, request.tools), tuple(request.tools))
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found[0]


def without_thinking(request: ModelRequest) -> ModelRequest | None:
    """The same request without the thinking of past turns; `None` when it holds none."""
    if not any(block.get("type") in THINKING for message in request.messages for block in message.content):
        return None
    bare = [replace(one, items=tuple(item.without_thinking for item in one.items)) for one in request.messages]
    return replace(request, messages=[one for one in bare if any(item.content for item in one.items)])


def _constant(system: str, specs: Sequence[ToolSpec]) -> bytes:
    tools = [
        {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)}
        for spec in sorted(specs, key=lambda one: one.name)
    ]
    found = f'"tools":{_json(tools)},' if tools else ""
    if system:
        found += f'"system":[{{"type":"text","text":{_json(system)},"cache_control":{LONG.decode()}}}],'
    return found.encode("utf-8", "replace")


def _message(message: Message, marked: frozenset[int] | None, mark: bytes) -> bytes:
    if not marked:
        return message.encoded
    blocks = [block for item in message.items for block in item.encoded]
    for at in marked:
        blocks[at] = blocks[at][:-1] + b',"cache_control":' + mark + b"}"
    start = b'{"role":"' + message.role.encode() + b'","content":['
    return start + b",".join(blocks) + b"]}"
