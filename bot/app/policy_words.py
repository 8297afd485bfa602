"""What the policy file may say, in words: where a setting stands, what is allowed there, which known one is nearest."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from typing import Any

Schema = Mapping[str, Any]
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"({_DOTTED})\s*=")
_LONG_TEXT = re.compile(r'"""(?:\\.|[^\\])*?"""' + r"|'''.*?'''", re.DOTALL)
_PATTERNS = {
    "^[UW]": 'a Slack user id such as "U0CAROL"',
    "^S[": 'a Slack user group id such as "S0LEADS"',
    "^[CDG]": 'a Slack channel id such as "C0SUPPORT"',
}
LONGEST = 120
"""Characters of a value that a message shows."""


def places(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, where each table and key of a TOML text stands first."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    plain = _LONG_TEXT.sub(lambda long: "\n" * long[0].count("\n"), text)
    for number, line in enumerate(plain.split("\n"), 1):
        if header := _HEADER.match(line.strip()):
            table = _keys(header[1])
            path, known = table, 0
        elif key := _KEY.match(line.strip()):
            path, known = (*table, *_keys(key[1])), len(table)
        else:
            continue
        for length in range(known + 1, len(path) + 1):
            found.setdefault(path[:length], number)
    return found


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


def line_of(found: Mapping[tuple[str, ...], int], loc: Sequence[str | int]) -> int:
    """Where a setting stands, or the nearest thing round it that stands anywhere; 0 for nothing."""
    names = tuple(str(part) for part in loc)
    return next((found[names[:length]] for length in range(len(names), 0, -1) if names[:length] in found), 0)


def shown(value: Any) -> str:
    """A value as the file spells it, or nearly; shortened where it is long."""
    text = str(value) if isinstance(value, (date, time)) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def nearest(whole: Schema, loc: Sequence[str | int]) -> str:
    """For an unknown setting: the known one that was probably meant, else all that are known there."""
    table = _at(whole, loc[:-1])
    known = sorted(_properties(whole, table))
    inside = [*map(str, loc[:-1])]
    if near := difflib.get_close_matches(str(loc[-1]), known, 1, 0.6):
        return f"did you mean {'.'.join([*inside, near[0]])}?"
    elsewhere = {path.rpartition(".")[2]: path for path in reversed(list(_every(whole, whole, "")))}
    if near := difflib.get_close_matches(str(loc[-1]), list(elsewhere), 1, 0.85):
        return f"did you mean {elsewhere[near[0]]}?"
    return f"known here: {', '.join(known)}"


def allowed(whole: Schema, loc: Sequence[str | int]) -> str:
    """What a setting may be."""
    if loc and loc[-1] == "[key]":
        table = _resolve(whole, _at(whole, loc[:-2]))
        return f"its name must be {_text(next(iter(table.get('patternProperties', {})), ''))}"
    return _words(whole, _at(whole, loc))


def _words(whole: Schema, schema: Schema) -> str:
    one = _resolve(whole, schema)
    if names := one.get("enum", [one["const"]] if "const" in one else None):
        return f"{'one of ' if len(names) > 1 else ''}{', '.join(json.dumps(name) for name in names)}"
    match one.get("type"):
        case "integer" | "number" as kind:
            return f"a {'whole ' if kind == 'integer' else ''}number{_range(one)}"
        case "boolean":
            return "true or false"
        case "array":
            return f"a list, each {_words(whole, one.get('items', {}))}"
        case "string":
            return _text(one.get("pattern", ""))
        case _:
            return "a table"


def _range(one: Schema) -> str:
    low, high, above = one.get("minimum"), one.get("maximum"), one.get("exclusiveMinimum")
    if low is not None:
        return f" of at least {low}" if high is None else f" from {low} to {high}"
    parts = [] if above is None else [f" above {above}"]
    return ",".join([*parts, *([] if high is None else [f" at most {high}"])])


def _text(pattern: str) -> str:
    return next((words for start, words in _PATTERNS.items() if pattern.startswith(start)), "a text that is not empty")


def _at(whole: Schema, loc: Sequence[str | int]) -> Schema:
    """The schema of a setting; an empty one where there is none."""
    schema = whole
    for part in loc:
        one = _resolve(whole, schema)
        if isinstance(part, int):
            schema = one.get("items", {})
        elif part in one.get("properties", {}):
            schema = one["properties"][part]
        else:
            others = [*one.get("patternProperties", {}).values(), one.get("additionalProperties", {})]
            schema = next((other for other in others if isinstance(other, Mapping)), {})
    return schema


def _resolve(whole: Schema, schema: Schema) -> Schema:
    if "anyOf" in schema:
        schema = next(one for one in schema["anyOf"] if one.get("type") != "null")
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Schema = whole["$defs"][name] if name else schema
    return found


def _properties(whole: Schema, schema: Schema) -> Mapping[str, Schema]:
    found: Mapping[str, Schema] = _resolve(whole, schema).get("properties", {})
    return found


def _every(whole: Schema, schema: Schema, prefix: str) -> Iterator[str]:
    for name, inner in _properties(whole, schema).items():
        yield f"{prefix}{name}"
        yield from _every(whole, inner, f"{prefix}{name}.")
