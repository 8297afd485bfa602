"""Ask for one reply of each investigation, side by side.

1. All worst cases are reserved in one commit before any call is made, within the soft limit: the rest of the budgets
   is the judgement's. What does not fit is not asked.
2. Replies are written in the investigations' order, whatever order they came in, and with them all their calls.
3. An investigation that gets no reply is given up with the reason; that never ends the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.core import events as e
from bot.core.actions import AskModel, Finish
from bot.core.branches import as_seen_by
from bot.core.caps import SOFT_SHARE
from bot.core.inquiry import Inquiry
from bot.core.session import evolve
from bot.core.state import Session
from bot.engine.calls import side_by_side
from bot.engine.desk import Desk
from bot.engine.ports import ModelFailure, ModelReply
from bot.engine.reason import ATTEMPTS, ask_once, ids_used_before, pause, replied_event
from bot.engine.requests import Planned, planned
from bot.engine.writer import Writer

JUDGEMENT_TURNS = 1
"""Of the run's turns, kept for what the investigations are for."""
_NO_ROOM = {
    "token_budget": "the token budget of this run left no room for it",
    "cost_budget": "the money budget of this run left no room for it",
}


@dataclass
class _Round:
    """What became of each investigation that was asked."""

    replies: dict[int, ModelReply] = field(default_factory=dict)
    given_up: dict[int, str] = field(default_factory=dict)
    """Why it gets no reply."""
    lost: dict[int, ModelFailure] = field(default_factory=dict)
    """Its newest attempt without a reply; what that used is not in the log yet."""
    models: dict[int, str] = field(default_factory=dict)
    """Who is asked instead of the usual model."""

    def take(self, number: int, outcome: ModelReply | ModelFailure, fallback: str | None, model: str) -> None:
        """What came back: a reply, or an attempt that may be made again, or the end of it."""
        if isinstance(outcome, ModelReply):
            self.replies[number] = outcome
            return
        self.lost[number] = outcome
        if outcome.kind == "away" and fallback and model != fallback:
            self.models[number] = fallback
        elif outcome.kind != "lost":
            self.given_up[number] = _one_line(outcome)

    def waiting(self, numbers: Sequence[int]) -> list[int]:
        """Those that are to be asked again."""
        return [one for one in numbers if one not in self.replies and one not in self.given_up]


async def investigate(desk: Desk, writer: Writer, numbers: Sequence[int]) -> None:
    """One round: each of them has a reply afterwards, or is given up, unless somebody said stop."""
    turn = _Round()
    for _ in range(ATTEMPTS):
        plans = await _reserve(desk, writer, turn, turn.waiting(numbers))
        outcomes = await _ask_all(desk, writer, plans)
        for number, outcome in outcomes.items():
            turn.take(number, outcome, desk.policy.model.fallback, plans[number].request.model)
        waiting = turn.waiting(numbers)
        if not waiting or writer.stop.is_set():
            break
        wait_s = max(turn.lost[one].wait_s for one in waiting)
        if (wait_s and not await pause(desk, writer, wait_s)) or writer.stop.is_set():
            break
    if not writer.stop.is_set():
        turn.given_up |= {one: _one_line(turn.lost[one]) for one in turn.waiting(numbers)}
    for failure in (turn.lost[one] for one in turn.waiting(numbers) if one in turn.lost):
        # Stopped: no event of its investigation follows, so the ending has to tell of it.
        writer.lose(failure.usage, failure.cost_usd)
    writer.stage(*_written_down(desk, writer.session, turn))


async def _reserve(desk: Desk, writer: Writer, turn: _Round, numbers: Sequence[int]) -> dict[int, Planned]:
    """Requests that fit beside each other, their reservations committed."""
    session, plans = writer.session, dict[int, Planned]()
    requested: list[e.Event] = []
    for number in numbers:
        plan = _planned(desk, writer, session, number, turn.models.get(number, desk.policy.model.name))
        if isinstance(plan, str):
            turn.given_up[number] = plan
            continue
        lost = turn.lost.pop(number, ModelFailure("nothing was tried"))
        requested.append(_requested(session, number, plan, lost))
        session, plans[number] = evolve(session, requested[-1]), plan
    if requested:
        await writer.write(*requested)
    return plans


def _planned(desk: Desk, writer: Writer, session: Session, number: int, model: str) -> Planned | str:
    """The request, or why there is none."""
    run, branch = session.run, _inquiry(session).branch(number)
    assert run is not None
    if not branch.pending and run.turns >= desk.policy.caps.turns - JUDGEMENT_TURNS:
        return "the steps of this run were used up"
    conversation = writer.conversation(model, number)
    if found := conversation.faults():
        desk.tracer.note("transcript.invalid", thread=str(session.thread), branch=number, faults=found)
        return "its conversation could not be sent to the model"
    ask = AskModel(messages=tuple(conversation.of(writer.session)))
    plan = planned(desk, writer, ask, model, seen=as_seen_by(session, branch), share=SOFT_SHARE)
    return (plan.detail or _NO_ROOM[plan.stop_reason]) if isinstance(plan, Finish) else plan


def _requested(session: Session, number: int, plan: Planned, lost: ModelFailure) -> e.ModelRequested:
    run, branch = session.run, _inquiry(session).branch(number)
    assert run is not None
    turn = branch.turn if branch.pending else run.turns + 1
    return plan.reserved(turn, branch=number, lost=lost.usage, lost_usd=lost.cost_usd)


async def _ask_all(desk: Desk, writer: Writer, plans: Mapping[int, Planned]) -> dict[int, ModelReply | ModelFailure]:
    """What came back for each, in order; nothing for those that a stop cut off."""

    async def one(plan: Planned) -> ModelReply | ModelFailure | None:
        try:
            return await ask_once(desk, writer, plan.request)
        except ModelFailure as failure:
            return failure

    async with asyncio.TaskGroup() as group:
        tasks = {number: group.create_task(one(plan)) for number, plan in plans.items()}
    return {number: outcome for number, task in tasks.items() if (outcome := task.result()) is not None}


def _written_down(desk: Desk, session: Session, turn: _Round) -> list[e.Event]:
    """Replies, what is given up, and the calls, each in the investigations' order."""
    channel, thread = session.thread.channel, str(session.thread)
    replied: dict[int, e.ModelReplied] = {}
    for number, reply in sorted(turn.replies.items()):
        event = replied_event(reply, turn=_inquiry(session).branch(number).turn, branch=number)
        if twice := ids_used_before(session, event):
            desk.tracer.note("model.repeated_id", thread=thread, ids=twice)
            turn.given_up[number] = "its reply repeated the id of an earlier call"
            turn.lost[number] = ModelFailure("", usage=reply.usage, cost_usd=reply.cost_usd)
            continue
        replied[number] = event
        session = evolve(session, event)
    steps = [_step(number, why, turn.lost.get(number)) for number, why in sorted(turn.given_up.items())]
    for number, why in sorted(turn.given_up.items()):
        desk.tracer.note("branch.given_up", thread=thread, branch=number, why=why)
    events: list[e.Event] = [*replied.values()]
    events += [e.PlanCommitted(revision=_inquiry(session).revision + 1, steps=steps)] if steps else []
    return events + side_by_side(desk, channel, replied)


def _step(number: int, why: str, lost: ModelFailure | None) -> dict[str, Any]:
    step: dict[str, Any] = {"branch": number, "ended": why}
    return step | {"lost": lost.usage.model_dump(), "lost_usd": lost.cost_usd} if lost else step


def _one_line(failure: ModelFailure) -> str:
    return " ".join(str(failure).split()).rstrip(".")


def _inquiry(session: Session) -> Inquiry:
    assert session.run is not None and session.run.inquiry is not None
    return session.run.inquiry
