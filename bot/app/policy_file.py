"""Read `plimsoll.toml`: every fault at once, each with setting, value, place and what is allowed."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.core.errors import Misconfigured
from bot.core.policy import Policy

NOT_BUILT = {
    "loop.strategy": 'only "react" is built yet',
    "loop.reflexion": "reflexion is not built yet; leave it false",
    "untrusted.reading": 'sealed reading is not built yet; the only accepted value is "open"',
}


def load_policy(path: Path, *, must_exist: bool) -> Policy:
    """The policy in that file; defaults when the file is not there and need not be. Raises `Misconfigured`."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if must_exist:
            raise Misconfigured(f"PLIMSOLL_CONFIG: there is no file {path}") from None
        return Policy()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}") from None
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{path} is no valid TOML: {error}") from None
    try:
        return Policy.model_validate(raw)
    except ValidationError as error:
        faults = [_fault(one, text, path) for one in error.errors(include_url=False)]
        raise Misconfigured("\n".join(dict.fromkeys(faults))) from None


def _fault(one: Any, text: str, path: Path) -> str:
    loc = [str(part) for part in one["loc"]]
    setting = ".".join(loc)
    where = f"{path}{_line(text, loc)}"
    if one["type"] == "extra_forbidden":
        return f"{where}: unknown setting {setting}{_nearest(loc)}"
    value = one.get("input")
    shown = f" = {value!r}" if not isinstance(value, (dict, BaseModel)) else ""
    allowed = NOT_BUILT.get(setting) or str(one["msg"]).removeprefix("Value error, ")
    return f"{where}: {setting or 'the file'}{shown}: {allowed}"


def _nearest(loc: list[str]) -> str:
    """The nearest setting that exists in that table."""
    table: Any = Policy
    for part in loc[:-1]:
        table = _table(table, part)
        if table is None:
            return ""
    known = list(table.model_fields)
    near = difflib.get_close_matches(loc[-1], known, 1, 0.5)
    return f"; did you mean {'.'.join([*loc[:-1], near[0]])}?" if near else f"; known here: {', '.join(sorted(known))}"


def _table(table: Any, part: str) -> Any:
    field = table.model_fields.get(part)
    if field is None:
        return table if issubclass(table, BaseModel) else None
    for kind in [field.annotation, *getattr(field.annotation, "__args__", ())]:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _line(text: str, loc: list[str]) -> str:
    """`:12` where the last key of a setting stands in its table, or nothing."""
    table, key = ".".join(loc[:-1]), loc[-1] if loc else ""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.split("#", 1)[0].strip()
        if bare.startswith("["):
            current = bare.strip("[] ").replace('"', "")
            if current == ".".join(loc):
                return f":{number}"
        elif current == table and bare.split("=", 1)[0].strip().strip('"') == key:
            return f":{number}"
    return ""


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
        else:
            mark = "" if value == default else "   # set"
            lines.append(f"{prefix}{name} = {value!r}{mark}")
