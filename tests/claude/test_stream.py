"""A reply is whole and exact, or it is none: every cut, and every way to be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.claude.stream import InBand, Incomplete, Message
from bot.claude.strict import strict_object
from bot.lab.messages_script import Call, Turn
from bot.lab.messages_server import frames_of, whole

REQUEST = {"model": "claude-sonnet-5-5", "max_tokens": 1000}
TURN = Turn(
    "Ich prüfe das 👩\u200d🚒.",
    [Call("get_order", {"order_id": "4921", "note": 'é\n"quoted" 😀' * 4}), Call("no_args", raw="")],
    thinking="Let me see. " * 5,
)


def _frames(turn: Turn = TURN) -> list[dict[str, Any]]:
    return list(frames_of(turn, REQUEST, {"input_tokens": 10}))


def _read(frames: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Message]:
    message = Message()
    for frame in frames:
        message.take(frame)
    return message.finish(), message


def test_a_whole_stream_gives_exactly_what_was_sent() -> None:
    """Thinking with its signature, text, arguments with accents; in order, nothing added."""
    frames = _frames()

    content, message = _read(frames)

    assert content == whole(json.loads(json.dumps(frames)))["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]
    assert content[0]["signature"].startswith("sig-")
    assert content[3]["input"] == {}
    assert (message.stop_reason, message.invalid) == ("tool_use", {})


@pytest.mark.parametrize("cut", range(len(_frames())))
def test_a_stream_that_ends_early_at_any_place_is_no_reply(cut: int) -> None:
    """Not even one that lacks nothing but the last frame."""
    with pytest.raises(Incomplete):
        _read(_frames()[:cut])


@pytest.mark.parametrize(
    "raw",
    [
        '{"amount": 12',
        '{"amount": 1e400}',
        '{"amount": NaN}',
        '{"amount": 1, "amount": 2}',
        '{"note": "\\ud800"}',
        '{"amount": 123456789012345678901234567890}',
        '{"a": ' + "[" * 70 + "]" * 70 + "}",
        '{"a": ' + "[" * 3000 + "]" * 3000 + "}",
        "[1, 2]",
        '"text"',
        "{} {}",
        "\x00",
    ],
)
def test_arguments_that_are_not_exact_json_spoil_that_one_call(raw: str) -> None:
    """It is marked, its stored input is safe, and its sibling is untouched."""
    content, message = _read(_frames(Turn("x", [Call("pay", raw=raw), Call("look", {"a": 1})])))

    assert list(message.invalid) == [content[1]["id"]]
    assert content[1]["input"] == {}
    assert content[2]["input"] == {"a": 1}


def test_a_surrogate_pair_may_be_torn_over_deltas() -> None:
    """Together it is one character."""
    assert strict_object('{"a": "\\ud83d' + '\\ude00"}') == {"a": "😀"}


def test_kinds_of_events_and_deltas_that_are_unknown_change_nothing() -> None:
    """A newer service may send more than we know."""
    frames = _frames()
    known = _read(frames)[0]
    frames.insert(3, {"type": "weather_report", "sky": "blue"})
    frames.insert(5, {"type": "content_block_delta", "index": 0, "delta": {"type": "sparkle_delta", "sparkle": 1}})

    assert _read(frames)[0] == known


PAY = Turn("", [Call("pay", {"amount_cents": 1234, "order_id": "4921", "why": "z" * 60})])
DAMAGE = st.lists(
    st.tuples(st.sampled_from(["drop", "twice", "later", "earlier"]), st.integers(0, 40)), min_size=1, max_size=4
)


def _is_argument(frame: dict[str, Any]) -> bool:
    return bool(frame.get("delta", {}).get("type") == "input_json_delta")


def _damaged(frames: list[dict[str, Any]], damage: list[tuple[str, int]], *, arguments: bool) -> list[dict[str, Any]]:
    """With frames lost, doubled, or exchanged with a neighbour; pieces of arguments only where asked for."""
    frames = list(frames)
    for what, place in damage:
        places = [at for at, frame in enumerate(frames) if arguments or not _is_argument(frame)]
        if not places:
            break
        at = places[place % len(places)]
        if what == "drop":
            del frames[at]
        elif what == "twice":
            frames.insert(at, frames[at])
        else:
            first = at if what == "later" else max(at - 1, 0)
            frames[first : first + 2] = reversed(frames[first : first + 2])
    return frames


@given(DAMAGE)
def test_a_stream_of_damaged_structure_is_refused_or_says_what_it_always_said(damage: list[tuple[str, int]]) -> None:
    """Whatever becomes of the frames that hold a message together: never other arguments."""
    whole_stream = _frames(PAY)

    try:
        content, message = _read(_damaged(whole_stream, damage, arguments=False))
    except Incomplete:
        return
    assert (content, message.invalid, message.stop_reason) == (_read(whole_stream)[0], {}, "tool_use")


@given(DAMAGE)
def test_arguments_are_exactly_what_arrived_or_none(damage: list[tuple[str, int]]) -> None:
    """Pieces of arguments carry no number: their order is the connection's to keep. None is guessed or repaired."""
    frames = _damaged(_frames(PAY), damage, arguments=True)
    arrived = "".join(frame["delta"]["partial_json"] for frame in frames if _is_argument(frame))

    try:
        content, message = _read(frames)
    except Incomplete:
        return
    [block] = content
    try:
        said = json.loads(arrived, object_pairs_hook=list) if arrived else []
    except ValueError:
        said = None
    names = [name for name, _ in said] if said is not None else []
    readable = said is not None and len(set(names)) == len(names)
    assert (block["id"] in message.invalid) is not readable
    assert block["input"] == (dict(said) if said is not None and readable else {})


def test_a_whole_stream_is_never_refused() -> None:
    """The two tests above cannot be met by refusing everything."""
    assert _read(_damaged(_frames(PAY), [], arguments=True))[0][0]["input"]["amount_cents"] == 1234


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
    "a call without a name": [BEGIN, *_block(0, {"type": "tool_use", "id": "c"}), LAST, STOP],
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
        (b"ping", b'{"type": "message_stop"}'),
        (b"message_start", b'{"type": "message_start", "n": NaN}'),
    ],
)
def test_a_frame_that_is_not_what_it_says_is_no_event(name: bytes, data: bytes) -> None:
    """Also one of a kind that nobody knows: how would one know that it matters not?"""
    with pytest.raises(Incomplete):
        Message().read(name, data)
