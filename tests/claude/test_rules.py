"""The order that a stream keeps to, what may be new in it, and what may stand in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.claude.stream import InBand, Incomplete, Message


def _read(frames: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Message]:
    message = Message()
    for frame in frames:
        message.take(frame)
    return message.finish(), message


def _frame(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def _delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return _frame("content_block_delta", index=index, delta={"type": kind, **fields})


TEXT, CALL = {"type": "text", "text": ""}, {"type": "tool_use", "id": "c1", "name": "pay", "input": {}}
THINK = {"type": "thinking", "thinking": "", "signature": ""}
BEGIN = _frame("message_start", message={"id": "m", "model": "x", "content": [], "usage": {"input_tokens": 1}})
LAST = _frame("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
STOP = _frame("message_stop")


def _block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    begin = _frame("content_block_start", index=index, content_block=block)
    return [begin, *deltas, _frame("content_block_stop", index=index)]


HELLO = _block(0, TEXT, _delta(0, "text_delta", text="hello"))
WRONG: dict[str, list[dict[str, Any]]] = {
    "a block before the message": [*HELLO, BEGIN, LAST, STOP],
    "no message at all": [LAST, STOP],
    "a second message": [BEGIN, *HELLO, BEGIN, LAST, STOP],
    "a message without an id": [_frame("message_start", message={"model": "x", "usage": {}}), *HELLO, LAST, STOP],
    "a message that begins with content": [
        _frame("message_start", message={"id": "m", "model": "x", "content": [TEXT], "usage": {}}),
        *HELLO,
        LAST,
        STOP,
    ],
    "a block was lost": [BEGIN, *HELLO, *_block(2, TEXT), LAST, STOP],
    "the first block was lost": [BEGIN, *_block(1, TEXT), LAST, STOP],
    "a block twice": [BEGIN, *HELLO, *HELLO, LAST, STOP],
    "a block that says it is another": [BEGIN, {**HELLO[0], "index": 1}, *HELLO[1:], LAST, STOP],
    "a block that was not closed before the next": [BEGIN, *HELLO[:2], *_block(1, TEXT), LAST, STOP],
    "a block inside another": [BEGIN, HELLO[0], *_block(1, TEXT), HELLO[2], LAST, STOP],
    "a block that was never closed": [BEGIN, *HELLO[:2], LAST, STOP],
    "a block closed twice": [BEGIN, *HELLO, HELLO[2], LAST, STOP],
    "a delta behind its block": [BEGIN, *HELLO, HELLO[1], LAST, STOP],
    "a delta behind the stop reason": [BEGIN, *HELLO[:2], LAST, HELLO[1], HELLO[2], STOP],
    "a block behind the stop reason": [BEGIN, *HELLO, LAST, *_block(1, TEXT), STOP],
    "text in a call": [BEGIN, *_block(0, CALL, _delta(0, "text_delta", text="x")), LAST, STOP],
    "arguments in a text": [BEGIN, *_block(0, TEXT, _delta(0, "input_json_delta", partial_json="{}")), LAST, STOP],
    "a signature in a text": [BEGIN, *_block(0, TEXT, _delta(0, "signature_delta", signature="x")), LAST, STOP],
    "text in thinking": [BEGIN, *_block(0, THINK, _delta(0, "text_delta", text="x")), LAST, STOP],
    "a delta without its text": [BEGIN, *_block(0, TEXT, _delta(0, "text_delta")), LAST, STOP],
    "a delta whose text is a number": [BEGIN, *_block(0, TEXT, _delta(0, "text_delta", text=1)), LAST, STOP],
    "a delta that is none": [BEGIN, *_block(0, TEXT, _frame("content_block_delta", index=0)), LAST, STOP],
    "a call without a name": [BEGIN, *_block(0, {**CALL, "name": ""}), LAST, STOP],
    "a call whose arguments begin as a list": [BEGIN, *_block(0, {**CALL, "input": [1]}), LAST, STOP],
    "no stop reason": [BEGIN, *HELLO, STOP],
    "two stop reasons": [BEGIN, *HELLO, LAST, {**LAST, "delta": {"stop_reason": "tool_use"}}, STOP],
    "no count of what was written": [BEGIN, *HELLO, {**LAST, "usage": {}}, STOP],
    "a count that is none": [BEGIN, *HELLO, {**LAST, "usage": {"output_tokens": "3"}}, STOP],
    "a count below nothing": [BEGIN, *HELLO, {**LAST, "usage": {"output_tokens": -3}}, STOP],
    "more behind the end": [BEGIN, *HELLO, LAST, STOP, _frame("ping")],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_stream_that_breaks_its_own_rules_is_no_reply(name: str) -> None:
    """It is not guessed at."""
    with pytest.raises(Incomplete):
        _read(WRONG[name])


def test_the_stream_that_those_are_made_of_is_a_reply() -> None:
    """What is refused above is refused for that one thing; a stop reason may be told twice, or late."""
    late = _frame("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 2})
    for frames in ([BEGIN, *HELLO, LAST, STOP], [BEGIN, *HELLO, late, LAST, LAST, STOP]):
        content, message = _read(frames)
        assert content == [{"type": "text", "text": "hello"}]
        assert message.usage == {"input_tokens": 1, "output_tokens": 3}


def test_a_block_of_a_new_kind_is_kept_as_it_began() -> None:
    """Whatever is added to it; the next request needs it in its place."""
    hologram = {"light": "blue", "type": "hologram", "parts": [1]}
    deltas = (_delta(1, "light_delta", light="red"), _delta(1, "text_delta", text="x"))

    content, _ = _read([BEGIN, *HELLO, *_block(1, hologram, *deltas), LAST, STOP])

    assert content[1] == hologram
    assert list(content[1]) == list(hologram)


def test_sources_of_a_text_are_kept_with_it() -> None:
    """Each as it came."""
    cited = [_delta(0, "citations_delta", citation={"url": str(number)}) for number in (1, 2)]

    content, _ = _read([BEGIN, *_block(0, {**TEXT, "citations": None}, *cited, HELLO[1]), LAST, STOP])

    assert content == [{"type": "text", "text": "hello", "citations": [{"url": "1"}, {"url": "2"}]}]


def test_a_failure_told_in_the_stream_is_told_by_its_type() -> None:
    """Whatever the frame is called."""
    error = {"type": "overloaded_error", "message": "Overloaded", "details": {"error_code": "busy"}}
    data = json.dumps({"type": "error", "error": error}).encode()
    for name in (b"error", b""):
        with pytest.raises(InBand) as told:
            Message().read(name, data)
        assert (told.value.kind, told.value.said, told.value.code) == ("overloaded_error", "Overloaded", "busy")
    with pytest.raises(InBand, match="upstream died"):
        Message().read(b"error", b"upstream died")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (b"message_stop", b"{"),
        (b"message_stop", b"[]"),
        (b"", b"\xff"),
        (b"weather", b"[" * 100_000),
        (b"ping", json.dumps(BEGIN).encode()),
        (b"message_start", b'{"type": "message_start", "n": NaN}'),
    ],
)
def test_a_frame_that_is_not_what_it_says_is_no_event(name: bytes, data: bytes) -> None:
    """Also one of a kind that nobody knows: how would one know that it matters not?"""
    with pytest.raises(Incomplete):
        Message().read(name, data)


def test_arguments_that_come_with_the_call_are_held_to_the_same_rules() -> None:
    """Some gateways send a call in one piece."""
    calls = [{**CALL, "id": "good", "input": {"a": 1}}, {**CALL, "id": "bad", "input": {"a": 2**60}}]

    content, message = _read([BEGIN, *_block(0, calls[0]), *_block(1, calls[1]), LAST, STOP])

    assert [one["input"] for one in content] == [{"a": 1}, {}]
    assert list(message.invalid) == ["bad"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in items for found in _places(inner, (*path, key)))]


@given(st.integers(0, 10_000), JSON)
def test_whatever_stands_anywhere_in_a_stream_is_read_or_refused(place: int, odd: Any) -> None:
    """Never a bug of ours that ends the run otherwise."""
    frames: list[Any] = json.loads(json.dumps([BEGIN, *HELLO, *_block(1, CALL), *_block(2, THINK), LAST, STOP]))
    frames[2]["delta"] = {"type": "citations_delta", "citation": {"url": "x"}}
    frames[0]["message"]["diagnostics"] = {"cache_miss_reason": {"type": "x"}}
    places = [path for path in _places(frames) if path]
    path = places[place % len(places)]
    target = frames
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = odd

    message = Message()
    try:
        for frame in frames:
            message.read(b"", json.dumps(frame).encode())
        message.finish()
    except (Incomplete, InBand):
        return
    assert message.whole
