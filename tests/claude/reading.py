"""Bytes to a message, as the client does it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bot.claude.sse import Frames
from bot.claude.stream import Message


def message_of(pieces: Iterable[bytes]) -> Message:
    """What was read until the message was whole or the bytes were over."""
    frames, message = Frames(), Message()
    for piece in pieces:
        for name, data in frames.feed(piece):
            message.read(name, data)
            if message.whole:
                return message
    return message


def blocks_of(pieces: Iterable[bytes]) -> list[dict[str, Any]]:
    """Of a whole message. Raises `Incomplete` or `InBand`."""
    return message_of(pieces).finish()
