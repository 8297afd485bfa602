"""Which strategy the policy asks for."""

from __future__ import annotations

from collections.abc import Callable

from bot.core.policy import LoopTable
from bot.core.strategies.plan import Plan
from bot.core.strategies.react import React
from bot.core.strategies.reflexion import Reflexion
from bot.core.strategies.router import Router
from bot.core.strategy import Strategy

PATHS: dict[str, Callable[[], Strategy]] = {"react": React, "answer": React, "plan": Plan}
"""Every way to work on a question, by the name that the policy, the router and the log know it by.

A plain answer is `react` with another opening: a question that was taken for a simple one may still need its tools.
"""


def strategy_for(loop: LoopTable) -> Strategy:
    """The strategy of `[loop]`, wrapped where it says so."""
    if loop.strategy == "router":
        chosen: Strategy = Router({name: make() for name, make in PATHS.items()}, loop.routes)
    else:
        chosen = PATHS[loop.strategy]()
    return Reflexion(chosen) if loop.reflexion else chosen
