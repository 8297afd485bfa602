"""A strategy proposes the next step; a person and the limits have their say first. No I/O, no clock."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from bot.core import caps as limits
from bot.core import compaction
from bot.core.actions import Action, AskBranches, AskModel, Finish, Note, RunTools, Wait
from bot.core.policy import CapsTable
from bot.core.replies import WINDOW, text_of
from bot.core.state import Run, Session

__all__ = ["Action", "AskBranches", "AskModel", "Finish", "Note", "RunTools", "Strategy", "Wait", "next_action"]


class Strategy(Protocol):
    """A way to reason; pure."""

    def propose(self, session: Session) -> Action:
        """What to do next, limits apart."""
        ...


def next_action(
    strategy: Strategy, session: Session, caps: CapsTable, now: datetime, *, fold_at_tokens: int = 0
) -> Action:
    """The strategy's proposal, unless a person or a limit ends the run first, or the conversation must be folded.

    `fold_at_tokens`: how large a request may grow before old turns are folded; 0: as large as the model takes.
    """
    run = session.run
    if run is None:
        return Wait("nobody asked anything")
    if run.cancelled_by:
        return Finish("cancelled", "cancelled")
    proposal = strategy.propose(session)
    if isinstance(proposal, (Wait, Finish, Note)):
        return proposal
    if limits.deadline(session, now) <= now:
        if isinstance(proposal, AskModel) and proposal.read:
            # No time for a side question: an answer that waits for its critique is not lost by that.
            return Note((proposal.read(None),))
        return Finish("partial", "deadline")
    if isinstance(proposal, AskBranches):
        stop = limits.reached(run, caps)
        return Finish(stop.outcome, stop.stop_reason) if stop else proposal
    if isinstance(proposal, AskModel) and proposal.role == "agent":
        return _before_asking(proposal, session, run, caps, fold_at_tokens)
    return proposal


def _before_asking(proposal: AskModel, session: Session, run: Run, caps: CapsTable, fold_at_tokens: int) -> Action:
    if stop := limits.reached(run, caps):
        return Finish(stop.outcome, stop.stop_reason)
    if run.reply and run.reply.stop_reason == WINDOW and not run.window_folds:
        if compaction.fold_seq(session, 1):
            return compaction.summary_call(session, "window")
        return Finish("partial", "context_window", text_of(run.reply.content))
    if fold_at_tokens and compaction.due(session, fold_at_tokens):
        return compaction.summary_call(session, "threshold")
    return proposal
