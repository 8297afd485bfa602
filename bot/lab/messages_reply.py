"""A turn as the frames of a reply; what does not fit into max_tokens is cut off, wherever that falls."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.lab.messages_models import MODELS, tokens_of_text
from bot.lab.messages_script import Turn
from bot.lab.messages_thinking import THINKING, sealed

PIECE = 24
"""Characters of one delta."""
Frame = dict[str, Any]
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Part:
    """One block in the making."""

    kind: str
    body: str = ""
    """Its text; a call's arguments as JSON."""
    name: str = ""
    """A call's tool; it is paid for before the first argument."""
    whole: bool = True

    @property
    def tokens(self) -> int:
        """What it costs."""
        return tokens_of_text(self.name) + tokens_of_text(self.body)


@dataclass(frozen=True)
class Said:
    """What of a turn is sent."""

    parts: Sequence[Part]
    stop_reason: str
    output_tokens: int
    thinking_tokens: int


def said(turn: Turn, max_tokens: int, left: int | None = None) -> Said:
    """The turn within `max_tokens` and the `left` tokens of the context window; `None`: all of it."""
    reason = turn.stop_reason or ("tool_use" if turn.calls else "end_turn")
    parts, full = list(_parts(turn)), False
    if left is not None:
        room = min(max_tokens, left)
        parts, full = _fitting(parts, room - 1)
        if full or room == 0:
            reason = "max_tokens" if room == max_tokens else "model_context_window_exceeded"
    thought = sum(part.tokens for part in parts if part.kind in THINKING)
    # Even an empty reply costs a token, as the service says of its usage; warming the cache costs none.
    return Said(parts, reason, min(max_tokens, 1 + sum(part.tokens for part in parts)), thought)


def stopped(turn: Turn, sequences: Sequence[str]) -> tuple[Turn, str | None]:
    """The turn up to the first of the request's stop sequences in its text."""
    places = [(turn.text.index(one), one) for one in sequences if one in turn.text]
    if not places:
        return turn, None
    place, one = min(places)
    return replace(turn, text=turn.text[:place], calls=(), stop_reason="stop_sequence"), one


def _parts(turn: Turn) -> Iterator[Part]:
    if turn.thinking:
        yield Part("thinking", turn.thinking)
    if turn.redacted_thinking:
        yield Part("redacted_thinking", turn.redacted_thinking)
    if turn.text:
        yield Part("text", turn.text)
    for call in turn.calls:
        yield Part("tool_use", call.raw if call.raw is not None else json.dumps(dict(call.arguments)), call.name)


def _fitting(parts: Sequence[Part], room: int) -> tuple[list[Part], bool]:
    """The parts that fit, the last one perhaps cut; whether something was left out."""
    kept = list[Part]()
    for part in parts:
        if part.tokens <= room:
            room -= part.tokens
            kept.append(part)
            continue
        spare = room - tokens_of_text(part.name)
        body = part.body.encode("utf-8", "surrogatepass")[: 4 * max(0, spare)].decode("utf-8", "ignore")
        # A redacted block is opaque: it comes whole or not at all. A call may be cut before its first argument.
        if part.kind != "redacted_thinking" and (body or (part.kind == "tool_use" and spare >= 0)):
            kept.append(replace(part, body=body, whole=False))
        return kept, True
    return kept, False


def frames_of(
    turn: Turn,
    request: Mapping[str, Any],
    usage: Mapping[str, Any],
    *,
    left: int | None = None,
    message_id: str = "",
    diagnostics: Mapping[str, Any] | None = None,
) -> Iterator[Frame]:
    """The events of a reply, in order. `left`: as `said` takes it."""
    turn, sequence = stopped(turn, request.get("stop_sequences") or ())
    what = said(turn, int(request["max_tokens"]), left)
    sequence = sequence if what.stop_reason == "stop_sequence" else None
    told = {**usage, **turn.usage}
    message = {"id": message_id or f"msg_{uuid.uuid4().hex[:20]}", "type": "message", "role": "assistant"}
    start: Frame = {**message, "model": request["model"], "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = {**told, "output_tokens": min(1, what.output_tokens)}
    if request.get("diagnostics") is not None:
        start["diagnostics"] = diagnostics
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, (first, deltas) in enumerate(_blocks(what.parts, request)):
        yield {"type": "content_block_start", "index": index, "content_block": first}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end: Frame = {"stop_reason": what.stop_reason, "stop_sequence": sequence}
    if what.stop_reason == "refusal":
        end["stop_details"] = {"type": "refusal", "category": None, "explanation": None, **turn.stop_details}
    spent = {"output_tokens": what.output_tokens, "output_tokens_details": {"thinking_tokens": what.thinking_tokens}}
    spent |= {name: value for name, value in turn.usage.items() if name in spent}
    yield {"type": "message_delta", "delta": end, "usage": spent}
    yield {"type": "message_stop"}


def _blocks(parts: Sequence[Part], request: Mapping[str, Any]) -> Iterator[tuple[Frame, list[Frame]]]:
    model, reply = request["model"], uuid.uuid4().hex[:12]
    # Thinking comes first in every turn, so a part's number is also its number among the thoughts.
    thoughts = [part for part in parts if part.kind in THINKING]
    shown = (request.get("thinking") or {}).get("display") or MODELS[model].display
    for number, part in enumerate(parts):
        match part.kind:
            case "thinking":
                text = part.body if shown == "summarized" else ""
                signature = sealed("thinking", model, reply, number, len(thoughts), text)
                # Cut short, it never gets its signature, and cannot be sent back.
                last = [{"type": "signature_delta", "signature": signature}] if part.whole else []
                deltas = [{"type": "thinking_delta", "thinking": one} for one in cut(text)]
                yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, *last]
            case "redacted_thinking":
                yield (
                    {"type": part.kind, "data": sealed(part.kind, model, reply, number, len(thoughts), "")},
                    [],
                )
            case "text":
                yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": one} for one in cut(part.body)]
            case _:
                first = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:20]}", "name": part.name, "input": {}}
                yield first, [{"type": "input_json_delta", "partial_json": one} for one in cut(part.body)]


def cut(text: str, size: int = PIECE) -> list[str]:
    """The text in pieces of so many characters."""
    return [text[place : place + size] for place in range(0, len(text), size)]


def packed(frame: Mapping[str, Any]) -> bytes:
    """One frame on the wire."""
    try:
        data = _COMPACT.encode(frame).encode()
    except UnicodeEncodeError:  # a script with half a surrogate pair: only an escape can carry it
        data = json.dumps(frame, separators=(",", ":")).encode()
    return b"event: %s\ndata: %s\n\n" % (str(frame["type"]).encode(), data)


def whole(frames: Sequence[Frame]) -> dict[str, Any]:
    """The same reply without a stream; the frames stay as they are."""
    begun = frames[0]["message"]
    message: dict[str, Any] = {**begun, "content": [], "usage": dict(begun["usage"])}
    for frame in frames:
        if frame["type"] == "content_block_start":
            message["content"].append(dict(frame["content_block"]))
        elif frame["type"] == "content_block_delta":
            _grow(message["content"][-1], frame["delta"])
        elif frame["type"] == "message_delta":
            message |= frame["delta"]
            message["usage"] |= frame["usage"]
    for block in message["content"]:
        if "raw" in block:
            block["input"] = _arguments(block.pop("raw"))
    return message


def _arguments(raw: str) -> Any:
    try:
        return json.loads(raw)
    except ValueError:  # without a stream there is no raw text to hand out: nothing of a cut call is guessed
        return {}


def _grow(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(delta["type"])
    if name is None:
        block["raw"] = block.get("raw", "") + delta["partial_json"]
    else:
        block[name] += delta[name]
