"""JSON that a model was asked for, read strictly: whatever is in doubt is nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bot.core.canon import clean, without_hidden

_OPENS = ("```json", "```")


def object_in(text: str | None) -> dict[str, Any] | None:
    """The JSON object that a reply is, or holds as its only fenced block; `None` for anything else.

    A key that stands twice makes it no object: two readers would not agree on what it says.
    """
    try:
        value = json.loads(_unfenced(text or ""), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return clean(value) if isinstance(value, dict) else None


def _unfenced(text: str) -> str:
    lines = text.split("\n")
    fences = [place for place, line in enumerate(lines) if line.startswith("```")]
    if len(fences) != 2 or lines[fences[0]].strip() not in _OPENS or lines[fences[1]].strip() != "```":
        return text
    return "\n".join(lines[fences[0] + 1 : fences[1]])


def words(value: Any, limit: int) -> str:
    """A text of a verdict as the log and people may have it; empty for anything but a text."""
    return without_hidden(value.strip())[:limit] if isinstance(value, str) else ""


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} stands twice")
        found[key] = value
    return found
