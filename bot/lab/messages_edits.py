"""Changes to the frames of a reply, each at a place: what a proxy, a bug or a newer service might make of it.

A change that needs a frame of one kind takes the first at or after the place asked for, else the last before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from bot.lab.messages_reply import Frame, cut

Edit = Callable[[list[Frame], int], list[Frame]]
NOWHERE = 99
"""An index that no block has."""
START, DELTA, STOP = "content_block_start", "content_block_delta", "content_block_stop"


def place_of(frames: Sequence[Frame], at: int, fits: Callable[[Frame], bool], what: str) -> int:
    """Where the frame is that a change acts on. Raises `ValueError` when the reply has none."""
    places = [place for place, frame in enumerate(frames) if fits(frame)]
    if not places:
        raise ValueError(f"this reply has no {what}: script one that has, or choose another fault")
    return next((place for place in places if place >= at), places[-1])


def _of(kind: str) -> Callable[[Frame], bool]:
    return lambda frame: frame["type"] == kind


def lost(kind: str) -> Edit:
    """A frame of that kind never arrives."""

    def edit(frames: list[Frame], at: int) -> list[Frame]:
        place = place_of(frames, at, _of(kind), kind)
        return [*frames[:place], *frames[place + 1 :]]

    return edit


def doubled(kind: str) -> Edit:
    """A frame of that kind arrives twice."""

    def edit(frames: list[Frame], at: int) -> list[Frame]:
        place = place_of(frames, at, _of(kind), kind)
        return [*frames[: place + 1], *frames[place:]]

    return edit


def added(frame: Frame, *, least: int = 0, before_end: int = 0) -> Edit:
    """One more frame, never before the place `least`, and never among the last `before_end`."""

    def edit(frames: list[Frame], at: int) -> list[Frame]:
        place = max(least, min(at, len(frames) - before_end))
        return [*frames[:place], frame, *frames[place:]]

    return edit


def set_on(kind: str, change: Callable[[Frame], Frame]) -> Edit:
    """A frame of that kind is another than was meant."""

    def edit(frames: list[Frame], at: int) -> list[Frame]:
        place = place_of(frames, at, _of(kind), kind)
        return [*frames[:place], change(frames[place]), *frames[place + 1 :]]

    return edit


def stop_reason(**new: Any) -> Edit:
    """The last word is another one; without an argument there is none."""
    return set_on(
        "message_delta",
        lambda frame: {**frame, "delta": {**{k: v for k, v in frame["delta"].items() if k != "stop_reason"}, **new}},
    )


def second_start(frames: list[Frame], at: int) -> list[Frame]:
    """Another message begins inside this one."""
    place = max(1, min(at, len(frames) - 1))
    return [*frames[:place], frames[0], *frames[place:]]


def swapped(kind: str) -> Edit:
    """Two neighbours change places, the first of that kind; for deltas, the second too."""

    def edit(frames: list[Frame], at: int) -> list[Frame]:
        pairs = [
            place
            for place in range(len(frames) - 1)
            if frames[place]["type"] == kind and (kind != DELTA or frames[place + 1]["type"] == DELTA)
        ]
        if not pairs:
            raise ValueError(f"this reply has no {kind} with a neighbour: script a longer one")
        place = next((one for one in pairs if one >= at), pairs[-1])
        return [*frames[:place], frames[place + 1], frames[place], *frames[place + 2 :]]

    return edit


def delta_after_stop(frames: list[Frame], at: int) -> list[Frame]:
    """More of a block that was closed."""
    place = place_of(frames, at, _of(STOP), STOP)
    late = {"type": DELTA, "index": frames[place]["index"], "delta": {"type": "text_delta", "text": "more"}}
    return [*frames[: place + 1], late, *frames[place + 1 :]]


def unknown_block(frames: list[Frame], at: int) -> list[Frame]:
    """A block of a kind that nobody knows yet, between the others; those behind it move up."""
    before = [frame["index"] for frame in frames[:at] if frame["type"] == STOP]
    index = max(before, default=-1) + 1
    place = max((p + 1 for p in range(min(at, len(frames))) if frames[p]["type"] == STOP), default=1)
    block = {"type": "hologram", "light": "blue"}
    fresh = [
        {"type": START, "index": index, "content_block": block},
        {"type": DELTA, "index": index, "delta": {"type": "light_delta", "light": "red"}},
        {"type": STOP, "index": index},
    ]
    later = [{**frame, "index": frame["index"] + 1} if "index" in frame else frame for frame in frames[place:]]
    return [*frames[:place], *fresh, *later]


def unknown_delta(frames: list[Frame], at: int) -> list[Frame]:
    """More of a block, in a kind that nobody knows yet."""
    place = place_of(frames, at, _of(START), "block")
    fresh = {"type": DELTA, "index": frames[place]["index"], "delta": {"type": "sparkle_delta", "sparkle": 1}}
    return [*frames[: place + 1], fresh, *frames[place + 1 :]]


def arguments(change: Callable[[str], str], size: int = 24) -> Edit:
    """A call's arguments are other text than was scripted, in pieces of so many characters."""

    def edit(frames: list[Frame], at: int) -> list[Frame]:
        place = place_of(frames, at, _is_call, "tool_use block")
        index = frames[place]["index"]
        mine = [frame for frame in frames if frame["type"] == DELTA and frame["index"] == index]
        raw = change("".join(frame["delta"]["partial_json"] for frame in mine))
        fresh: list[Frame] = [
            {"type": DELTA, "index": index, "delta": {"type": "input_json_delta", "partial_json": one}}
            for one in cut(raw, size)
        ]
        rest = [frame for frame in frames if frame not in mine]
        return [*rest[: place + 1], *fresh, *rest[place + 1 :]]

    return edit


def _is_call(frame: Frame) -> bool:
    return bool(frame["type"] == START and frame["content_block"]["type"] == "tool_use")


def with_more(text: str) -> Callable[[str], str]:
    """The arguments with one more member, written as given."""

    def change(raw: str) -> str:
        inner = raw.strip().removeprefix("{").removesuffix("}").strip()
        return "{" + (f"{inner}, " if inner else "") + text + "}"

    return change


def doubled_key(raw: str) -> str:
    """The first member stands twice, the second time with another value."""
    name = next(iter(json.loads(raw or "{}")), "key")
    return with_more(f"{json.dumps(name)}: 1, {json.dumps(name)}: 2")(raw)


def escaped(raw: str) -> str:
    """The same value with every character outside ASCII as an escape: two of them for an emoji."""
    return json.dumps(json.loads(raw or "{}"))
