"""Pieces of a conversation: what is computed of one is never taken for another's."""

from __future__ import annotations

from bot.core.item import Item


def test_a_piece_without_its_thinking_is_computed_anew() -> None:
    """Bytes are kept with a piece; those of the whole one would send thinking to a model that did not write it."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    piece = Item("assistant", (thought, {"type": "text", "text": "so"}))
    whole = (piece.encoded, piece.size, piece.faults, piece.calls)

    bare = piece.without_thinking

    assert bare.encoded == (b'{"type":"text","text":"so"}',)
    assert bare.size == len(bare.encoded[0])
    assert whole == (piece.encoded, piece.size, piece.faults, piece.calls)
