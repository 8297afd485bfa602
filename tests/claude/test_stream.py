"""A reply is whole and exact, or it is none: every cut, and every way to be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.claude.stream import Incomplete, Message
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
