"""What a result adds, computed by code, and how often the same call was made.

Facts are `path=value` of structured results and normalised lines of text. Errors, refusals, handles and
timestamps are none, and the model's own notes never are. (Three barren turns in a row end a run; the same
call a third time in an unchanged world ends it too: DESIGN section 5.)
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from bot.core.authority import Authority
from bot.core.canon import canonical
from bot.core.state import Run, Tried
from bot.core.todo import TODO

MAX_FACTS_PER_RESULT = 2_000
_TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$")
_NOT_FACTS = frozenset({"handle", "call_id", "request_id", "reference", "at", "now"})


def facts_of(tool: str, content: Any) -> frozenset[str]:
    """Short digests of the facts in a successful result of that tool."""
    return frozenset(
        hashlib.sha256(fact.encode("utf-8", "replace")).hexdigest()[:16] for fact in fact_lines(tool, content)
    )


def parsed(text: Any) -> Any:
    """What a result's text says, where it is JSON; else the text itself."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def fact_lines(tool: str, content: Any) -> list[str]:
    """The same facts as people and models read them, each once, in the order they stand."""
    found: dict[str, None] = {}
    if tool != TODO:
        _walk(tool, content, found)
    return list(found)


def _walk(path: str, value: Any, found: dict[str, None]) -> None:
    if len(found) >= MAX_FACTS_PER_RESULT:
        return
    match value:
        case dict():
            for key, item in value.items():
                if key not in _NOT_FACTS:
                    _walk(f"{path}.{key}", item, found)
        case list():
            for item in value:
                _walk(f"{path}[]", item, found)
        case str():
            for line in value.splitlines():
                normal = " ".join(line.casefold().split())
                if normal and not _TIMESTAMP.match(line.strip()):
                    found[f"{path}={normal}"] = None
        case None:
            pass
        case _:
            found[f"{path}={value!r}"] = None


def call_key(tool: str, arguments: Mapping[str, Any], branch: int = 0) -> str:
    """Equal for one tool and equal arguments: key order is nothing, 1 and 1.0 as the schema left them.

    Investigations do not see each other's results, so what one has called is new to another.
    """
    within = {"branch": branch} if branch else {}
    typed = canonical({"tool": tool, "arguments": _typed(dict(arguments)), **within})
    return hashlib.sha256(typed).hexdigest()[:32]


def _typed(value: Any) -> Any:
    # JCS writes 1 and 1.0 alike; a schema that tells them apart must not see them merged.
    match value:
        case dict():
            return {key: _typed(item) for key, item in value.items()}
        case list():
            return [_typed(item) for item in value]
        case float():
            return ["float", value]
        case _:
            return value


def version_for(run: Run, authority: Authority) -> int:
    """Within one version an identical call is a repeat: reads follow the world, state changes only people."""
    return run.world if authority < Authority.LOCAL_WRITE else run.words


def offer(run: Run, key: str, authority: Authority) -> Tried:
    """What is remembered of that key once it has been asked for again."""
    version = version_for(run, authority)
    before = run.tried.get(key)
    if before is None or before.version != version:
        return Tried(1, version)
    if before.free and not before.forgiven:
        return Tried(before.offers, version, forgiven=True)
    return Tried(before.offers + 1, version, forgiven=before.forgiven)
