"""A strategy proposes the next step; the limits have their say first. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bot.core import caps as limits
from bot.core.policy import CapsTable
from bot.core.state import CallState, Session


@dataclass(frozen=True)
class AskModel:
    """Ask the model what to do next."""


@dataclass(frozen=True)
class RunTools:
    """Bring these calls, one stage, before the gate and run what it allows."""

    calls: tuple[CallState, ...]


@dataclass(frozen=True)
class Wait:
    """Nothing to do before something comes in."""

    why: str


@dataclass(frozen=True)
class Finish:
    """End the run."""

    outcome: str
    stop_reason: str
    text: str = ""
    """The model's answer; empty where code says what happened."""
    detail: str = ""
    """What code adds for people."""


Action = AskModel | RunTools | Wait | Finish


class Strategy(Protocol):
    """A way to reason; pure."""

    def propose(self, session: Session) -> Action:
        """What to do next, limits apart."""
        ...


def next_action(strategy: Strategy, session: Session, caps: CapsTable, now: datetime) -> Action:
    """The strategy's proposal, unless a person or a limit ends the run first."""
    run = session.run
    if run is None:
        return Wait("nobody asked anything")
    if run.cancelled_by:
        return Finish("cancelled", "cancelled")
    proposal = strategy.propose(session)
    if isinstance(proposal, (Wait, Finish)):
        return proposal
    if limits.deadline(session, now) <= now:
        return Finish("partial", "deadline")
    if isinstance(proposal, AskModel) and (stop := limits.reached(run, caps)):
        return Finish(stop.outcome, stop.stop_reason)
    return proposal
