"""Independent questions, looked into side by side by reading only; then one judgement that cites them.

Where the model names no such questions the run goes on as `react`, and the log says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.core.actions import Action, AskBranches, Finish, Note, RunTools, Wait
from bot.core.branches import PATH
from bot.core.errors import ModelMistake
from bot.core.events import PlanCommitted, RouteChosen
from bot.core.frozen import replace
from bot.core.inquiry import CONCLUDED, Inquiry
from bot.core.inquiry_words import CITE, asking, cites, judging, questions_in, uncited
from bot.core.replies import ENDS, text_of
from bot.core.state import Run, Session
from bot.core.strategies.react import React

ROUNDS = 6
"""Replies of one investigation, its conclusion included."""
DIRECTLY = "(There is nothing to look into side by side. Go on with what was asked: use your tools, then answer.)"
_REACT = React()


@dataclass(frozen=True)
class Branch:
    """Splits a question into at most that many investigations."""

    most: int = 3

    def propose(self, session: Session) -> Action:
        """Questions first, then rounds of investigations, then the judgement; `react` where there are none."""
        run = session.run
        if run is None:
            return Wait("nobody asked anything")
        match run.inquiry:
            case None if run.turns:
                return _REACT.propose(session)
            case None:
                return Note((RouteChosen(path=PATH, why=f"at most {self.most}", instruction=asking(self.most)),))
            case Inquiry(phase="asked"):
                return self._split(session, run)
            case Inquiry(phase="running") as inquiry:
                return _investigate(run, inquiry)
            case inquiry:
                return _judge(session, inquiry)

    def _split(self, session: Session, run: Run) -> Action:
        if run.reply is None or not (run.open_calls or run.reply.stop_reason in ENDS):
            return _REACT.propose(session)
        try:
            if run.open_calls:
                raise ModelMistake("tools were called instead")
            questions = questions_in(text_of(run.reply.content), self.most)
        except ModelMistake as mistake:
            # A call must be answered before anything else is said.
            told = "" if run.open_calls else DIRECTLY
            return Note((RouteChosen(path="react", why=f"no investigations: {mistake}", instruction=told),))
        steps = [{"branch": place, "question": one, "rounds": ROUNDS} for place, one in enumerate(questions, 1)]
        return Note((PlanCommitted(steps=steps),))


def _investigate(run: Run, inquiry: Inquiry) -> Action:
    if run.open_calls:
        return RunTools(run.stage)
    if inquiry.unfinished:
        return AskBranches(inquiry.unfinished)
    concluded = sum(one.ended == CONCLUDED for one in inquiry.branches)
    why = f"{concluded} of {len(inquiry.branches)} investigations concluded"
    return Note((RouteChosen(path=PATH, why=why, instruction=judging(inquiry)),))


def _judge(session: Session, inquiry: Inquiry) -> Action:
    action = _REACT.propose(session)
    if not isinstance(action, Finish) or action.outcome != "answered" or cites(action.text, inquiry):
        return action
    if inquiry.phase == "judging":
        return Note((RouteChosen(path=PATH, why="the judgement cites no investigation", instruction=CITE),))
    return replace(action, text=uncited(action.text))
