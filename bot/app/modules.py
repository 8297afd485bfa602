"""Tool modules by name: each exports tools, or `build(resources) -> list[Tool]`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bot.core.errors import Misconfigured, OurFault
from bot.core.tool import Tool


def load_tools(modules: Iterable[str], folder: Path, resources: Mapping[str, Any]) -> list[Tool]:
    """Import each; the configuration file's folder is on the import path.

    Raises `Misconfigured` with every module that cannot be used. The folder comes last on the path: a file there
    that happens to be called like a library must not take its place.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
    found: list[Tool] = []
    faults: list[str] = []
    for name in dict.fromkeys(modules):
        try:
            found += _tools_of(name, place, resources)
        except Misconfigured as fault:
            faults.append(str(fault))
    if faults:
        raise Misconfigured("\n".join(faults))
    return found


def _tools_of(name: str, place: str, resources: Mapping[str, Any]) -> list[Tool]:
    try:
        module = importlib.import_module(name)
        build = getattr(module, "build", None)
        found = (
            list(build(resources))
            if callable(build)
            else [one for one in vars(module).values() if isinstance(one, Tool)]
        )
    except OurFault as fault:
        raise Misconfigured(f"[tools] modules: {name!r}: {fault}") from fault
    except (Exception, SystemExit) as error:  # whatever a module does at import is the operator's, in one line
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise Misconfigured(
            f"[tools] modules: {name!r} cannot be imported ({why}); it is looked for among the installed packages and "
            f"in the folder of the configuration file, {place}"
        ) from error
    if not found or not all(isinstance(one, Tool) for one in found):
        raise Misconfigured(
            f"[tools] modules: {name!r} exports no tool; decorate functions with @tool or offer build()"
        )
    return list({id(one): one for one in found}.values())
