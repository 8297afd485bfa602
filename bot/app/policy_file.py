"""Read `plimsoll.toml`: every fault at once, each with setting, value, place and what is allowed."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bot.app.policy_words import allowed, line_of, nearest, places, shown
from bot.core.errors import Misconfigured
from bot.core.policy import Policy

NOT_BUILT: dict[tuple[str, ...], str] = {
    ("untrusted", "reading"): 'sealed reading is not built yet; the only accepted value is "open"',
}
Loc = tuple[str | int, ...]


def load_policy(path: Path, *, must_exist: bool) -> Policy:
    """The policy in that file; defaults when the file is not there and need not be. Raises `Misconfigured`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if must_exist:
            raise Misconfigured(f"PLIMSOLL_CONFIG = {path}: there is no such file") from None
        return Policy()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"PLIMSOLL_CONFIG = {path}: it cannot be read ({error})") from None
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise Misconfigured(f"{path} is no valid TOML: {error}") from None
    try:
        return _checked(raw)
    except ValidationError as error:
        raise Misconfigured("\n".join(_faults(error, raw, text, path))) from None


def _checked(raw: dict[str, Any]) -> Policy:
    """TOML has types: "24" is no number and 1 is not true. Only strict JSON also takes a list for a tuple."""
    return Policy.model_validate_json(json.dumps(_as_json(raw)), strict=True)


def _as_json(value: Any) -> Any:
    """What no setting can be, dates and numbers without end, becomes a table: refused wherever it stands."""
    match value:
        case dict():
            return {key: _as_json(item) for key, item in value.items()}
        case list():
            return [_as_json(item) for item in value]
        case float() if not math.isfinite(value):
            return {}
        case bool() | int() | float() | str():
            return value
        case _:
            return {}


def _faults(error: ValidationError, raw: dict[str, Any], text: str, path: Path) -> list[str]:
    errors: list[Any] = [*error.errors(include_url=False), *_order_fault(error, raw)]
    schema, found = Policy.model_json_schema(), places(text)
    told: dict[str, int] = {}
    for one in errors:
        loc: Loc = one["loc"] or ("ceiling",)
        line = line_of(found, [part for part in loc if part != "[key]"])
        told[f"{path}{f':{line}' if line else ''}: {_fault(one, loc, raw, schema)}"] = line
    return sorted(told, key=lambda fault: told[fault])


def _order_fault(error: ValidationError, raw: dict[str, Any]) -> Sequence[Any]:
    """The order of the ceilings is looked at only in a file without other faults, so it is asked for by itself."""
    if any(one["loc"][:1] in ((), ("ceiling",)) for one in error.errors()):
        return ()
    try:
        _checked({"ceiling": raw.get("ceiling", {})})
    except ValidationError as other:
        return other.errors(include_url=False)
    return ()


def _fault(one: Any, loc: Loc, raw: dict[str, Any], schema: dict[str, Any]) -> str:
    setting = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc if part != "[key]")[1:]
    if one["type"] == "extra_forbidden":
        return f"unknown setting {setting}; {nearest(schema, loc)}"
    value = _value(raw, loc)
    # A table may hold what is nobody's business; its name is enough to find it.
    spelled = "" if value is None or "{" in shown(value) else f" = {shown(value)}"
    if not one["loc"]:
        spelled = "".join(f" {name} = {shown(word)}" for name, word in value.items())
    own_words = str(one["msg"]).removeprefix("Value error, ") if one["type"] == "value_error" else ""
    return f"{setting}{spelled}: {NOT_BUILT.get(tuple(map(str, loc))) or own_words or allowed(schema, loc)}"


def _value(raw: Any, loc: Loc) -> Any:
    for part in loc:
        if part == "[key]":
            return None
        raw = raw[part]
    return raw


def explain(policy: Policy, path: Path) -> list[str]:
    """Every setting with its value, and whether it is the default."""
    lines = [f"# {path}{'' if path.exists() else ' (not there: defaults)'}"]
    _walk(policy.model_dump(mode="json"), Policy().model_dump(mode="json"), "", lines)
    return lines


def _walk(values: dict[str, Any], defaults: Any, prefix: str, lines: list[str]) -> None:
    for name, value in values.items():
        default = defaults.get(name) if isinstance(defaults, dict) else None
        if isinstance(value, dict) and value:
            _walk(value, default, f"{prefix}{name}.", lines)
        elif value is None:
            lines.append(f"{prefix}{name}   # not set")
        else:
            mark = "" if value == default else "   # set"
            lines.append(f"{prefix}{name} = {shown(value)}{mark}")
