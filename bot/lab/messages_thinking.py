"""Signatures of thinking blocks: a block counts only as the same model made it, unchanged.

A signature carries its own proof, so a stand-in that was started again still knows what it issued.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from bot.lab.messages_blocks import Refused, blocks_of

THINKING = frozenset({"thinking", "redacted_thinking"})
_SEALED = re.compile(r"^(?:sig|red)-.+-([0-9a-f]{12})\.(\d+)\.(\d+)-[0-9a-f]{32}$")
"""Model, reply, the block's number among so many of that reply, digest."""
_PROOF = {"thinking": "signature", "redacted_thinking": "data"}


def sealed(kind: str, model: str, reply: str, number: int, of: int, text: str) -> str:
    """The signature (or the redacted block's data) of a reply's thinking block; `number` counts from 0."""
    digest = hashlib.sha256(f"{kind}|{model}|{reply}|{number}|{of}|{text}".encode("utf-8", "surrogatepass"))
    return f"{'sig' if kind == 'thinking' else 'red'}-{model}-{reply}.{number}.{of}-{digest.hexdigest()[:32]}"


def check_thinking(messages: Sequence[dict[str, Any]], model: str) -> None:
    """Raises `Refused` for a block that this service did not make, that was altered, or that another model made."""
    latest = max((place for place, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        found = list[tuple[str, int, int]]()
        for number, block in enumerate(blocks_of(message)):
            if block["type"] in THINKING:
                found.append(_checked(block, f"messages.{place}.content.{number}", model))
        if place == latest and not _as_issued(found):
            raise Refused(
                f"messages.{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
                "modified. These blocks must remain as they were in the original response."
            )


def _checked(block: dict[str, Any], where: str, model: str) -> tuple[str, int, int]:
    kind = block["type"]
    proof = block[_PROOF[kind]]
    parts = _SEALED.match(proof)
    if parts:
        number, of = int(parts[2]), int(parts[3])
        text = block["thinking"] if kind == "thinking" else ""
        if proof == sealed(kind, model, parts[1], number, of, text):
            return parts[1], number, of
    raise Refused(f"{where}: Invalid `{_PROOF[kind]}` in `{kind}` block")


def _as_issued(found: Sequence[tuple[str, int, int]]) -> bool:
    """All blocks of each reply in their order, or none of it."""
    replies = list(dict.fromkeys(reply for reply, _, _ in found))
    whole = [(reply, number, of) for reply in replies for of in (_size(found, reply),) for number in range(of)]
    return list(found) == whole


def _size(found: Sequence[tuple[str, int, int]], reply: str) -> int:
    return next(of for one, _, of in found if one == reply)
