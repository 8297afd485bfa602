"""Values that have exactly one encoding, so that a digest means what it says.

RFC 8785 (JCS) has no encoding for integers beyond 2^53, non-finite numbers and lone surrogates. In
arguments those are the model's mistake; elsewhere `clean` replaces them, with a mark.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

import rfc8785

SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader agrees on (RFC 8785 section 3.2.2.3)."""
MAX_DEPTH = 64
"""Deepest nesting that is kept; deeper values are replaced (a reader's stack is not ours to spend)."""

_WORDS = {None: "null", True: "true", False: "false"}
_SURROGATE = re.compile("[\ud800-\udfff]")
# An emoji base (or its variation selector or skin tone) may be joined to another emoji by a ZWJ.
_EMOJI = "[\u00a9\u00ae\u203c-\u3299\ufe0f\U0001f000-\U0001faff]"
_JOINED_EMOJI = re.compile(f"(?<={_EMOJI})\u200d(?={_EMOJI})")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e01ef]"
)


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value; raises `ValueError` where it has none."""
    parts: list[str] = []
    try:
        _write(value, parts.append)
        return "".join(parts).encode()
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(f"no canonical JSON for this value: {error}") from error


def _write(value: Any, put: Callable[[str], None]) -> None:
    """What rfc8785 writes, several times faster: every entry of a log is hashed twice on its way in.

    It writes itself only where Python's own form is RFC 8785's by definition: short escapes and lower-case
    hex in texts, integers of 53 bits, ASCII keys by code point. Everything else is asked of the library.
    """
    kind = type(value)
    if kind is str:
        put(encode_basestring(value))
    elif kind is dict:
        _write_object(value, put)
    elif kind is list:
        before = "["
        for item in value:
            put(before)
            _write(item, put)
            before = ","
        put("]" if value else "[]")
    elif kind is bool or value is None:
        put(_WORDS[value])
    else:
        put(_number(value, kind))


def _write_object(value: dict[Any, Any], put: Callable[[str], None]) -> None:
    try:
        plain = "".join(value).isascii()
    except TypeError:
        plain = False
    if not plain:
        # Beyond the basic plane the order by UTF-16 is not that of code points; keys that are no texts are refused.
        put(rfc8785.dumps(value).decode())
        return
    before = "{"
    for key in sorted(value):
        put(f"{before}{encode_basestring(key)}:")
        _write(value[key], put)
        before = ","
    put("}" if value else "{}")


def _is_plain(value: float) -> bool:
    # Both print the shortest digits that read back as the same number; here neither uses an exponent, and
    # there is a fraction to print (RFC 8785 writes 2.0 as 2, and 1e-05 as 0.00001).
    return 1e-4 <= abs(value) < 1e15 and not value.is_integer()


def _number(value: Any, kind: type) -> str:
    if kind is int and -SAFE_INTEGER <= value <= SAFE_INTEGER:
        return repr(value)
    if kind is float and value == 0:
        return "0"
    return repr(value) if kind is float and _is_plain(value) else rfc8785.dumps(value).decode()


def digest(value: Any) -> str:
    """SHA-256 over the canonical JSON, in hex; raises `ValueError` as `canonical` does."""
    return hashlib.sha256(canonical(value)).hexdigest()


def hidden_characters(value: Any) -> list[str]:
    """Names of control, bidirectional, zero-width and tag characters in any string of a JSON value.

    TAB and LF are allowed, and a ZWJ inside an emoji sequence. Empty when there is nothing to object to.
    """
    found: dict[str, None] = {}
    for text in _strings(value):
        for character in _HIDDEN.findall(_JOINED_EMOJI.sub("", text)):
            found[f"U+{ord(character):04X}"] = None
    return list(found)


def without_hidden(text: str) -> str:
    """The same text without what `hidden_characters` objects to, and a mark that counts what was dropped."""
    if not _HIDDEN.search(text):
        return text
    joined = {found.start() for found in _JOINED_EMOJI.finditer(text)}
    kept = [one for place, one in enumerate(text) if place in joined or not _HIDDEN.match(one)]
    dropped = len(text) - len(kept)
    return "".join(kept) + f" [{dropped} invisible characters were dropped]" if dropped else text


def clean(value: Any, depth: int = 0) -> Any:
    """The same JSON value with whatever RFC 8785 cannot encode replaced by a visible mark."""
    if depth > MAX_DEPTH:
        return "[left out: nested too deeply]"
    match value:
        case bool() | None:
            return value
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case int():
            return value if abs(value) <= SAFE_INTEGER else f"[integer {_decimal(value)}]"
        case float():
            return value if math.isfinite(value) else f"[not a finite number: {value}]"
        case dict():
            return {_SURROGATE.sub("\ufffd", str(key)): clean(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [clean(item, depth + 1) for item in value]
        case _:
            return f"[not JSON: {type(value).__name__}]"


def _decimal(value: int) -> str:
    # CPython refuses to print integers of more than 4,300 digits.
    return str(value) if value.bit_length() <= 4096 else f"of {value.bit_length()} bits"


def _strings(value: Any) -> list[str]:
    pending, texts = [value], []
    while pending:
        item = pending.pop()
        match item:
            case str():
                texts.append(item)
            case dict():
                pending.extend((*item.keys(), *item.values()))
            case list() | tuple():
                pending.extend(item)
            case _:
                pass
    return texts
