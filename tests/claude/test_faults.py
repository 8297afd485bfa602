"""Every fault of the wire at every place of a recorded reply: never a reply from an incomplete message."""

from __future__ import annotations

from typing import Any

import pytest

from bot.claude.stream import InBand, Incomplete
from bot.lab.messages_faults import FAULTS, Reads
from bot.lab.messages_reply import frames_of, packed
from bot.lab.messages_script import Call, Turn
from tests.claude.reading import message_of
from tests.claude.recorded import BLOCKS, RECORDED, USAGE
from tests.lab.sse import KNOWN, Bad, read

ASKED = {"model": "claude-sonnet-5-5", "max_tokens": 8000, "thinking": {"type": "adaptive", "display": "summarized"}}
CALLS = [Call("look", {"id": "4921", "note": "Größe 😀 " * 4}), Call("pay", {"cents": 1234})]
TURN = Turn("Ich prüfe das 👩\u200d🚒\u2028\x85", CALLS, thinking="Let me see. " * 4, redacted_thinking="hm")
FRAMES = list(frames_of(TURN, ASKED, {"input_tokens": 10}))
TRUE = read(b"".join(map(packed, FRAMES)))
STREAMED = [name for name, fault in FAULTS.items() if fault.stream]
LONGEST = 9_000
"""Steps of an endless stream that are looked at."""


def _steps(name: str, at: int) -> list[bytes]:
    stream = FAULTS[name].stream
    assert stream is not None
    return [step for _, step in zip(range(LONGEST), stream(FRAMES, at), strict=False) if isinstance(step, bytes)]


def _ours(pieces: list[bytes]) -> tuple[list[dict[str, Any]], str] | None:
    """What the client's reader makes of it, in the other reader's words; `None`: no reply."""
    try:
        message = message_of(pieces)
        blocks = message.finish()
    except (Incomplete, InBand):
        return None
    known = [one for one in blocks if one["type"] in KNOWN]
    return [{**one, "input": None} if one.get("id") in message.invalid else one for one in known], message.stop_reason


def _unsigned(found: tuple[list[dict[str, Any]], str] | None) -> Any:
    # Which of two signatures counts is the service's to say; the SDK takes the last, the other reader joins them.
    return found and ([{k: v for k, v in one.items() if k != "signature"} for one in found[0]], found[1])


@pytest.mark.parametrize("name", STREAMED)
def test_a_fault_makes_of_a_reply_what_the_table_says_wherever_it_acts(name: str) -> None:
    """The same reply, one whose spoilt call cannot run, or none."""
    reads = FAULTS[name].reads
    for at in range(len(FRAMES)):
        found = _ours(_steps(name, at))
        if reads is Reads.SAME:
            assert found == TRUE, at
        elif reads is Reads.NEVER:
            assert found is None, at
        elif reads is Reads.SPOILT:
            assert found is not None
            spoilt = [(one, true) for one, true in zip(found[0], TRUE[0], strict=True) if one != true]
            assert [one["input"] for one, _ in spoilt] == [None], at


@pytest.mark.parametrize("name", STREAMED)
def test_a_reply_is_read_only_where_a_reader_of_its_own_reads_the_same(name: str) -> None:
    """Written from the rules alone, sharing no code with the client."""
    for at in range(len(FRAMES)):
        steps = _steps(name, at)
        found = _ours(steps)
        try:
            other = read(b"".join(steps))
        except Bad:
            assert found is None, at
            continue
        assert found is None or _unsigned(found) == _unsigned(other), at


def test_a_frame_that_lost_its_event_line_is_read_all_the_same() -> None:
    """Its data says what it is; to skip it, as the SDK does, would lose a piece of the reply unseen."""
    for at in range(len(FRAMES)):
        assert _ours(_steps("event_line_missing", at)) == TRUE


@pytest.mark.parametrize("size", [1, 7, 24, 4096])
def test_the_recorded_reply_is_exactly_its_blocks(size: int) -> None:
    """However it is cut into pieces; keys in their order."""
    message = message_of(RECORDED[start : start + size] for start in range(0, len(RECORDED), size))

    blocks = message.finish()

    assert blocks == BLOCKS
    assert [list(one) for one in blocks] == [list(one) for one in BLOCKS]
    assert (message.usage, message.stop_reason, message.invalid) == (USAGE, "tool_use", {})


def test_the_recorded_reply_cut_after_any_byte_is_none() -> None:
    """Up to the very last one, which is the end of the last frame."""
    for end in range(len(RECORDED)):
        assert _ours([RECORDED[:end]]) is None, end
