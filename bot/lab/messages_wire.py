"""How a reply goes over the wire when something is wrong there: in writes, silences and broken connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bot.lab.messages_edits import Edit
from bot.lab.messages_reply import Frame, packed

LONG_S = 3600.0
"""Longer than anybody waits."""


@dataclass(frozen=True)
class Wait:
    """Silence."""

    seconds: float


class Torn:
    """The connection breaks, without an end."""


Step = bytes | Wait | Torn
"""Bytes go out in one write; when the steps are over the stream ends cleanly."""
Wire = Callable[[list[Frame], int], Iterator[Step]]


def slowly(frames: list[Frame], pause_s: float) -> Iterator[Step]:
    """Nothing is wrong; each frame takes its time."""
    for place, frame in enumerate(frames):
        if place:
            yield Wait(pause_s)
        yield packed(frame)


def _up_to(frames: list[Frame], at: int) -> Iterator[Step]:
    yield from (packed(frame) for frame in frames[:at])


def ends(*last: Step, share: float = 0.0) -> Wire:
    """Frames up to the place, so much of the next one, and then `last`."""

    def wire(frames: list[Frame], at: int) -> Iterator[Step]:
        yield from _up_to(frames, at)
        if at < len(frames):
            whole = packed(frames[at])
            if part := whole[: int(len(whole) * share)]:
                yield part
            yield from last

    return wire


def in_band(kind: str, message: str) -> Wire:
    """The service says that it failed, in the stream."""
    return ends(packed({"type": "error", "error": {"type": kind, "message": message}}))


def edited(edit: Edit) -> Wire:
    """The frames are others, and go out one by one."""

    def wire(frames: list[Frame], at: int) -> Iterator[Step]:
        yield from (packed(frame) for frame in edit(frames, at))

    return wire


def without_blank_line(frames: list[Frame], at: int) -> Iterator[Step]:
    """The frame at the place is there but for the blank line that ends it."""
    yield from _up_to(frames, at)
    if at < len(frames):
        yield packed(frames[at])[:-1]


def one_frame(change: Callable[[bytes], bytes]) -> Wire:
    """The first frame from the place on that is no ping (nobody reads those) is sent in another form."""

    def wire(frames: list[Frame], at: int) -> Iterator[Step]:
        hit = next((n for n in range(at, len(frames)) if frames[n]["type"] != "ping"), len(frames) - 1)
        for place, frame in enumerate(frames):
            yield change(packed(frame)) if place == hit else packed(frame)

    return wire


def each_frame(change: Callable[[bytes], Iterator[Step]]) -> Wire:
    """Every frame from the place on is sent in another form."""

    def wire(frames: list[Frame], at: int) -> Iterator[Step]:
        for place, frame in enumerate(frames):
            if place < at:
                yield packed(frame)
            else:
                yield from change(packed(frame))

    return wire


def endless_pings(frames: list[Frame], at: int) -> Iterator[Step]:
    """Alive, but nothing comes."""
    yield from _up_to(frames, at)
    while at < len(frames):
        yield Wait(0.05)
        yield packed({"type": "ping"})


def and_junk(frames: list[Frame], at: int) -> Iterator[Step]:
    """Everything, and then bytes that mean nothing."""
    yield from _up_to(frames, len(frames))
    yield b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0}\n\n\xff\xfe junk'


def torn_characters(frame: bytes) -> Iterator[Step]:
    """In two writes, the first of which ends inside a character where there is one of several bytes."""
    place = next((number for number, byte in enumerate(frame) if byte & 0xC0 == 0x80), len(frame) // 2)
    yield frame[:place]
    yield Wait(0.001)
    yield frame[place:]


def drip(frame: bytes) -> Iterator[Step]:
    """Sixteen bytes at a time."""
    for place in range(0, len(frame), 16):
        yield Wait(0.001)
        yield frame[place : place + 16]


def crlf(frame: bytes) -> Iterator[Step]:
    """With CR LF."""
    yield frame.replace(b"\n", b"\r\n")


def commented(frame: bytes) -> Iterator[Step]:
    """With lines in front that mean nothing to anybody."""
    yield b": keep-alive\n\n: and one more\nid: 7\nretry: 10\n" + frame


def pinged(frame: bytes) -> Iterator[Step]:
    """With a ping in front."""
    yield packed({"type": "ping"}) + frame


def no_event_line(frame: bytes) -> bytes:
    """Its data alone."""
    return frame.split(b"\n", 1)[1]


def bad_json(frame: bytes) -> bytes:
    """Without the last brace."""
    return frame[:-3] + b"\n\n"


def bad_utf8(frame: bytes) -> bytes:
    """With bytes that are no character."""
    return frame.replace(b'"type":"', b'"type":"\xc3\x28', 1)
