"""What the events of strategies do to a session.

What a strategy tells the model enters the transcript here, by the fold of an event: a text that only one request
showed would break the prefix of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.core import branches, plans
from bot.core import events as e
from bot.core.frozen import replace
from bot.core.item import said
from bot.core.replies import text_of
from bot.core.state import Run, Session

AGAIN = """\
(Your answer was read against the question and the results before anybody saw it, and this was objected to:

{notes}

Where that is right, correct it, with another look-up if one is needed; where it is wrong, keep what you wrote. Then \
give the whole answer again: nobody saw the first one.)"""
NO_NOTES = "The results do not support it."


def _route_chosen(session: Session, event: e.RouteChosen) -> Session:
    session = branches.route_chosen(session, event)
    run = _live(session)
    if event.path != "plan":
        run = replace(run, plan=None, drafting=0)
    elif event.instruction:
        run = replace(run, drafting=run.drafting + 1)
    session = replace(session, run=replace(run, path=event.path))
    return _tell(session, event.instruction) if event.instruction else session


def _plan_committed(session: Session, event: e.PlanCommitted) -> Session:
    run = _live(session)
    if run.inquiry:
        return branches.plan_committed(session, event)
    plan = plans.committed(run.plan, event.steps, event.revision)
    return _tell(replace(session, run=replace(run, plan=plan, drafting=0)), plans.GO_ON)


def _critiqued(session: Session, event: e.Critiqued) -> Session:
    run = replace(_live(session), critiqued=True)
    if event.ok:
        return replace(session, run=run)
    draft = text_of(run.reply.content) if run.reply else ""
    session = replace(session, run=replace(run, draft=draft))
    return _tell(session, AGAIN.format(notes=event.notes or NO_NOTES))


def _tell(session: Session, text: str) -> Session:
    """The model is told that, and has to answer: what it said before is no ending any more."""
    told = said("user", text, session.entries + 1)
    return replace(session, run=replace(_live(session), reply=None), transcript=(*session.transcript, told))


def _live(session: Session) -> Run:
    assert session.run is not None, "an event of a run outside a run"
    return session.run


STRATEGY_STEPS: dict[type[e.Event], Callable[[Session, Any], Session]] = {
    e.RouteChosen: _route_chosen,
    e.PlanCommitted: _plan_committed,
    e.Critiqued: _critiqued,
}
