"""The Function library: one Lua file a Function, joined, named by version so that two can run at once."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

FUNCTIONS = (
    "enqueue",
    "lease",
    "renew",
    "append",
    "commit",
    "read_log",
    "erase",
    "release",
    "park",
    "fx_begin",
    "fx_end",
    "out_begin",
    "out_done",
    "fire_timers",
)
DRAINING = frozenset({"lease", "renew", "release", "park", "fx_end", "out_begin", "out_done", "erase"})
"""Allowed on a full store: they finish or give back what was begun; refusing them would lose results."""
READING = frozenset({"read_log"})
"""Never write: allowed on a full store and on a replica."""


@cache
def source() -> str:
    """The whole library as `FUNCTION LOAD` takes it."""
    lua = files("bot.store").joinpath("lua")
    parts = [lua.joinpath("_shared.lua").read_text()]
    parts += [lua.joinpath(f"{name}.lua").read_text() for name in FUNCTIONS]
    body = "\n".join(parts)
    version = hashlib.sha256(body.encode()).hexdigest()[:12]
    register = [_register(f"plimsoll_{version}_{name}", name) for name in FUNCTIONS]
    return f"#!lua name=plimsoll_{version}\n{body}\n" + "\n".join(register) + "\n"


def _register(public: str, name: str) -> str:
    flag = "allow-oom" if name in DRAINING else "no-writes" if name in READING else ""
    flags = f", flags = {{'{flag}'}}" if flag else ""
    return f"redis.register_function{{function_name = '{public}', callback = {name}{flags}}}"


@cache
def version() -> str:
    """Digest of the Lua source: the same code is the same library."""
    return source().split("name=plimsoll_", 1)[1].split("\n", 1)[0]


def function(name: str) -> str:
    """The server's name of a Function."""
    return f"plimsoll_{version()}_{name}"
