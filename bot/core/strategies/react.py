"""Reason, act, observe: ask, run what was asked for, ask again until there is an answer."""

from __future__ import annotations

from bot.core.actions import Action, AskModel, Finish, RunTools, Wait
from bot.core.replies import ending_for
from bot.core.state import Session


class React:
    """The default strategy."""

    def propose(self, session: Session) -> Action:
        """Open calls first, then the newest reply, else another question to the model."""
        run = session.run
        if run is None:
            return Wait("nobody asked anything")
        if run.waiting:
            return Wait("a person decides")
        if run.open_calls:
            return RunTools(run.stage)
        if run.reply is not None and (ending := ending_for(run.reply, run)):
            return Finish(*ending)
        return AskModel()
