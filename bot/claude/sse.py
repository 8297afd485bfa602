"""Server-sent events from bytes, wherever the network cut them.

1. A frame exists once its blank line came; what stands behind the last blank line is no frame.
2. Lines end in LF, CR LF or CR; comments, ids and other fields mean nothing here.
3. Bytes are joined before anything is decoded, so a cut inside a character harms nothing.
"""

from __future__ import annotations

from bot.claude.stream import Incomplete

MOST_BYTES = 32 * 2**20
"""A line that is longer is no frame of this service, whose largest requests are as long."""


class Frames:
    """Fed with pieces of a response's body, gives the frames that are whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = b""
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        """Name (empty: the frame had none) and data of each frame that this piece completes. Raises `Incomplete`."""
        if self._after_cr or b"\r" in piece:
            piece = self._with_plain_ends(piece)
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MOST_BYTES:
            raise Incomplete(f"a line of more than {MOST_BYTES} bytes")
        found: list[tuple[bytes, bytes]] = []
        for line in lines:
            if line[:5] == b"data:":
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line[:6] == b"event:":
                self._name = line[7:] if line[6:7] == b" " else line[6:]
            elif not line:
                if self._data:
                    found.append((self._name, self._data[0] if len(self._data) == 1 else b"\n".join(self._data)))
                    self._data = []
                self._name = b""
        return found

    def _with_plain_ends(self, piece: bytes) -> bytes:
        if not piece:
            return piece
        if self._after_cr and piece[:1] == b"\n":
            piece = piece[1:]
            if not piece:
                self._after_cr = False
                return piece
        # A CR at the end of a piece ends its line at once; the LF that may follow belongs to it.
        self._after_cr = piece[-1:] == b"\r"
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
