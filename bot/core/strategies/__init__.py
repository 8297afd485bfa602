"""Ways to reason, by the name that the policy, a router and the log know them by."""

from __future__ import annotations

from collections.abc import Callable

from bot.core.policy import LoopTable
from bot.core.strategies.branch import Branch
from bot.core.strategies.plan import Plan
from bot.core.strategies.react import React
from bot.core.strategies.reflexion import Reflexion
from bot.core.strategies.router import Router
from bot.core.strategy import Strategy


def _router(loop: LoopTable) -> Strategy:
    """Between all others; a plain answer is `react` with another opening, so that it may still look something up."""
    others = {name: make(loop) for name, make in STRATEGIES.items() if name != "router"}
    return Router({**others, "answer": React()}, loop.routes)


STRATEGIES: dict[str, Callable[[LoopTable], Strategy]] = {
    "react": lambda _: React(),
    "plan": lambda _: Plan(),
    "branch": lambda loop: Branch(loop.branches),
    "router": _router,
}


def strategy_for(loop: LoopTable) -> Strategy:
    """What that table asks for, wrapped where it says so."""
    chosen = STRATEGIES[loop.strategy](loop)
    return Reflexion(chosen) if loop.reflexion else chosen
