"""Frames are the same wherever the network cuts the bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.claude.sse import MOST_BYTES, Frames
from bot.claude.stream import Incomplete

LINES = st.lists(
    st.sampled_from(
        [
            "event: message_stop",
            "event:tight",
            "data: {}",
            "data:tight",
            "data:  two spaces",
            "data: Größe 😀\u2028\x85 one line",
            "data: with: colons",
            "data",
            "",
            "",
            ": a comment",
            "id: 7",
            "retry: 10",
            "dataset: no field",
        ]
    ),
    max_size=24,
)
ENDS = st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=24, max_size=24)


def _read(pieces: list[bytes]) -> list[tuple[str, str]]:
    frames = Frames()
    return [(name.decode(), data.decode()) for piece in pieces for name, data in frames.feed(piece)]


def _as_the_standard_says(lines: list[str]) -> list[tuple[str, str]]:
    """The event-stream interpretation of the HTML standard, line by line; `data` without a colon aside."""
    found, name, data = [], "", list[str]()
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                found.append((name, "\n".join(data)))
            name, data = "", []
        elif field == "data" and ":" in line:
            data.append(value)
        elif field == "event":
            name = value
    return found


@given(LINES, ENDS, st.lists(st.integers(0, 600), max_size=12))
def test_any_cut_and_any_line_end_gives_what_the_standard_says(
    lines: list[str], ends: list[str], cuts: list[int]
) -> None:
    """Also between CR and LF, and inside a character."""
    if "\r" in ends:
        # a lone CR before an empty line that ends in LF would read as one CR LF: keep one manner a stream
        ends = [ends[0]] * len(ends)
    wire = "".join(line + end for line, end in zip(lines, ends, strict=False)).encode()
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})

    pieces = [wire[start:end] for start, end in pairwise(places)]

    assert _read(pieces) == _as_the_standard_says(lines)
    assert _read([bytes([one]) for one in wire]) == _as_the_standard_says(lines)


def test_a_frame_without_its_blank_line_is_none() -> None:
    """The stream may have been cut there."""
    assert _read([b"event: a\ndata: 1\n\nevent: b\ndata: 2\n"]) == [("a", "1")]


def test_data_over_several_lines_is_one_text() -> None:
    """Joined by line feeds, as the standard says."""
    assert _read([b"data: a\ndata:\ndata: b\n\n"]) == [("", "a\n\nb")]


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    """Nothing of this service is that long."""
    frames = Frames()
    frames.feed(b"data: " + b"x" * (MOST_BYTES - 6))

    with pytest.raises(Incomplete, match="bytes"):
        frames.feed(b"x")
