"""One short string of bytes decides everything that is left to chance in a run.

Drawing it costs hypothesis microseconds, whatever the run does with it; 0 means the plain thing everywhere, and a tape
that is used up gives zeros, so that a failing run shrinks to a short tape of a plain run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

LENGTH = 192
"""About as many decisions as a run of a dozen turns takes."""
TAPES = st.binary(min_size=LENGTH, max_size=LENGTH)


class Tape:
    """Reads a decision a byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        """0 to 255; 0 when the tape is used up."""
        found = self._data[self._at] if self._at < len(self._data) else 0
        self._at += 1
        return found

    def pick(self, options: Sequence[T]) -> T:
        """One of at most 256, the first one for 0."""
        return options[self.byte() % len(options)]

    def below(self, limit: int) -> int:
        """From 0 to `limit` - 1, both ends often."""
        share = self.byte()
        return max(0, limit - 1) * share // 255

    def rarely(self) -> bool:
        """Once in sixteen."""
        return self.byte() > 239
