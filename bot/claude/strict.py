"""JSON as it is read here: exactly, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bot.core.canon import canonical, clean


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


decode = json.JSONDecoder(parse_constant=_refuse).decode
"""One value of a frame."""
_decode_once = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse).decode


def joined(parts: Iterable[str]) -> str:
    """One text of its pieces; a surrogate pair that was torn between two of them is one character again."""
    text = "".join(parts)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def strict_object(raw: str) -> dict[str, Any]:
    """Exactly one JSON object: no doubled key, no NaN or infinity, no lone surrogate. Raises `ValueError`."""
    try:
        value = _decode_once(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return exact(value)


def exact(value: dict[str, Any]) -> dict[str, Any]:
    """The same; raises `ValueError` when the log could not hold it as it is."""
    try:
        # One level down, as in its block: what the log would replace must not run as something else.
        kept = clean(value, 1) == value
    except RecursionError:
        kept = False
    if not kept:
        raise ValueError("nested too deeply, or a number or character that no exact JSON can hold")
    try:
        canonical(value)
    except ValueError:
        raise ValueError("a number or character that no exact JSON can hold") from None
    return value
