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
    """Import each; the configuration file's folder is on the import path. Raises `Misconfigured`."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    return [one for name in modules for one in _tools_of(name, resources)]


def _tools_of(name: str, resources: Mapping[str, Any]) -> list[Tool]:
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
    except Exception as error:  # whatever a module does at import is the operator's to see, in one line
        raise Misconfigured(
            f"[tools] modules: {name!r} cannot be imported ({type(error).__name__}: {error}); it is looked for in the "
            "folder of the configuration file and among the installed packages"
        ) from error
    if not found or not all(isinstance(one, Tool) for one in found):
        raise Misconfigured(
            f"[tools] modules: {name!r} exports no tool; decorate functions with @tool or offer build()"
        )
    return list({id(one): one for one in found}.values())
