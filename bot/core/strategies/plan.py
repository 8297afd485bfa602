"""Plan first, then act: the plan is in the log before anything is read, and a surprise needs another one.

1. Until a plan is committed no call runs; each gets a result that says so.
2. While it is carried out only its calls run, through the ordinary gate. The model drives, turn by turn.
3. Two replies without a valid plan, or too many revisions, and the run goes on as `react`; the log says why.
"""

from __future__ import annotations

from collections.abc import Iterable

from bot.core import plans
from bot.core.actions import Action, AskModel, Finish, Note, RunTools, Wait
from bot.core.errors import ModelMistake
from bot.core.events import Event, PlanCommitted, RouteChosen, ToolReturned
from bot.core.replies import text_of
from bot.core.state import CallState, Run, Session
from bot.core.strategies.react import React

TRIES = 2
"""Replies that may be no plan, before it goes on without one."""
_REASONS = {
    plans.PLAN_FIRST: "Not made: write the plan first. Call it again once the plan is written down.",
    plans.UNPLANNED: "Not made: no step of the plan that is left is for this call.",
}


class Plan:
    """Drafting, then carrying out; whatever is special about neither is as in `react`."""

    def __init__(self) -> None:
        self._react = React()

    def propose(self, session: Session) -> Action:
        """Open the drafting, judge drafts, hold back what is not planned."""
        run = session.run
        if run is None:
            return Wait("nobody asked anything")
        if run.path in ("", "plan") and run.plan is None and not run.drafting:
            return Note((RouteChosen(path="plan", why="a plan comes first", instruction=plans.ASK),))
        proposal = self._react.propose(session)
        if run.path != "plan" or run.reply is None:
            return self._revised(run, proposal) if run.path == "plan" else proposal
        text = text_of(run.reply.content)
        match proposal:
            case Finish(outcome="answered") if run.plan is None or plans.looks_like_one(text):
                return Note((_judged(run, text),))
            case RunTools() if run.reply.stop_reason == "tool_use":
                return self._held_back(run, text) or proposal
            case _:
                return proposal

    def _revised(self, run: Run, proposal: Action) -> Action:
        """A turn has ended: what surprised in it comes before the next question."""
        if isinstance(proposal, AskModel) and run.plan and run.plan.surprise and not run.drafting:
            return Note((_another(run, run.plan.surprise),))
        return proposal

    def _held_back(self, run: Run, text: str) -> Note | None:
        """Results of the calls that may not run now, and what becomes of the plan; `None` when all may."""
        calls = run.open_calls
        if run.drafting:
            return Note((*_not_made(calls, plans.PLAN_FIRST), _judged(run, text)))
        asked = [call for call in calls if not call.invalid]
        assert run.plan is not None, "neither a plan nor a draft of one"
        places = plans.unplanned(run.plan, [call.tool for call in asked])
        held = _not_made((asked[place] for place in places), plans.UNPLANNED)
        return Note(held) if held else None


def _not_made(calls: Iterable[CallState], code: str) -> tuple[ToolReturned, ...]:
    said = {"refused": code, "reason": _REASONS[code]}
    return tuple(ToolReturned(call_id=one.call_id, ok=False, content=said, trust="system", ran=False) for one in calls)


def _judged(run: Run, text: str) -> Event:
    """What a draft becomes: a plan, another try, or the end of planning."""
    try:
        steps = plans.steps_in(text, run.tools)
    except ModelMistake as mistake:
        if run.drafting >= TRIES:
            return _without(f"No plan came of it. {mistake}")
        return _once_more(str(mistake))
    if run.plan is None:
        return PlanCommitted(steps=steps)
    if run.plan.revision >= plans.MOST_REVISIONS:
        return _without(_TOO_MANY)
    return PlanCommitted(steps=steps, revision=run.plan.revision + 1)


_TOO_MANY = f"The plan was revised {plans.MOST_REVISIONS} times already."


def _another(run: Run, why: str) -> Event:
    assert run.plan is not None
    if run.plan.revision >= plans.MOST_REVISIONS:
        return _without(f"{why} {_TOO_MANY}")
    return _once_more(why)


def _once_more(why: str) -> RouteChosen:
    return RouteChosen(path="plan", why=why, instruction=plans.ASK_AGAIN.replace("{why}", why))


def _without(why: str) -> RouteChosen:
    return RouteChosen(path="react", why=why, instruction=plans.GIVE_UP.replace("{why}", why))
