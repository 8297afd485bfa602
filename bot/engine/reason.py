"""Ask a model once, and write down what it said and what it wants done.

1. The worst case is reserved in the log before each attempt that may be charged; a limit that it would pass ends
   the run instead.
2. Only a complete reply is logged. Its calls are requested in the model's order, in stages.
3. A side question (router, critique, summary) that gets no reply ends nothing: its strategy is told so.
"""

from __future__ import annotations

from bot.core import caps as limits
from bot.core import compaction
from bot.core import events as e
from bot.core.actions import AskModel, Finish
from bot.core.canon import clean
from bot.core.event import Role
from bot.core.replies import asked_again, text_of
from bot.core.session import evolve
from bot.core.state import Session
from bot.core.transcript import faults, messages
from bot.engine.calls import requested_calls
from bot.engine.desk import Desk
from bot.engine.ports import ModelFailure, ModelReply, ModelRequest
from bot.engine.requests import Planned, planned
from bot.engine.writer import Writer, unless_stopped

ATTEMPTS = 6
"""Charged attempts at one reply; each is reserved anew."""
LONGEST_WAIT_S = 8.0
"""Between two of them; the wait that the port asks for doubles up to here, as the SDK's own does."""


async def reason(desk: Desk, writer: Writer, ask: AskModel) -> Finish | None:
    """One reply; a `Finish` when the run cannot go on."""
    if ask.role != "agent":
        return await _aside(desk, writer, ask)
    if found := writer.conversation(desk.policy.model.name).faults():
        return await _repair(desk, writer, found)
    end = await _attempts(desk, writer, ask, desk.policy.model.name)
    if not isinstance(end, ModelFailure):
        return end
    desk.tracer.note("model.failed", thread=str(writer.held.thread), kind=end.cause, why=str(end))
    run = writer.session.run
    if end.kind == "too_long" and run and not run.window_folds and compaction.fold_seq(writer.session, 1):
        return await _aside(desk, writer, compaction.summary_call(writer.session, "window"))
    return _ended(end)


async def _aside(desk: Desk, writer: Writer, ask: AskModel) -> Finish | None:
    """A question beside the conversation, to the small model."""
    assert ask.read is not None
    end = await _attempts(desk, writer, ask, desk.policy.model.small)
    if end is None or writer.stop.is_set():
        return None
    why = str(end) if isinstance(end, ModelFailure) else end.stop_reason
    desk.tracer.note("model.aside_failed", thread=str(writer.held.thread), role=ask.role, why=why)
    writer.stage(ask.read(None))
    return None


async def _repair(desk: Desk, writer: Writer, found: list[str]) -> Finish | None:
    """A stored conversation that the service would refuse: it begins anew from its facts and questions."""
    desk.tracer.note("transcript.invalid", thread=str(writer.held.thread), faults=found)
    fold = compaction.repaired(writer.session)
    if faults(messages(evolve(writer.session, fold))):
        detail = "The stored conversation of this thread cannot be sent to the model. Write `new:` and your question."
        return Finish("failed", "internal_error", detail=detail)
    writer.stage(fold)
    return None


def _ended(failure: ModelFailure) -> Finish:
    match failure.kind:
        case "deadline":
            return Finish("partial", "deadline")
        case "too_long":
            return Finish("partial", "context_window")
        case _:
            return Finish("failed", "model_error", detail=str(failure))


async def _attempts(desk: Desk, writer: Writer, ask: AskModel, model: str) -> Finish | ModelFailure | None:
    """Until there is a reply, no room, or no hope; each attempt that may be charged is reserved before it is made."""
    lost = ModelFailure("nothing was tried")
    for attempt in range(ATTEMPTS):
        plan = planned(desk, writer, ask, model)
        if isinstance(plan, Finish):
            return plan
        await _reserve(writer, ask, plan)
        try:
            reply = await ask_once(desk, writer, plan.request)
        except ModelFailure as failure:
            writer.lose(failure.usage, failure.cost_usd)
            fallback = desk.policy.model.fallback
            if failure.kind == "away" and fallback and model != fallback and ask.role == "agent":
                desk.tracer.note("model.fallback", thread=str(writer.held.thread), model=fallback, why=str(failure))
                model, lost = fallback, failure
                continue
            if failure.kind != "lost" or attempt == ATTEMPTS - 1:
                return failure
            lost = failure
            desk.tracer.note("model.retry", thread=str(writer.held.thread), kind=failure.cause, wait_s=failure.wait_s)
            wait = max(failure.wait_s, min(failure.wait_s * 2**attempt, LONGEST_WAIT_S))
            if not await pause(desk, writer, wait):
                return ModelFailure(str(failure), kind="deadline")
            if writer.stop.is_set():
                return None
            continue
        return _note(desk, writer, ask, reply) if reply else None
    return lost


async def _reserve(writer: Writer, ask: AskModel, plan: Planned) -> None:
    run = writer.session.run
    assert run is not None
    turn = run.turns + (ask.role == "agent" and run.pending != "agent")
    await writer.write(plan.reserved(turn, lost=writer.lost, lost_usd=writer.lost_usd))
    writer.booked()


async def ask_once(desk: Desk, writer: Writer, request: ModelRequest) -> ModelReply | None:
    """The reply, or `None` when somebody said stop first: what it would have said no longer matters."""
    until = limits.deadline(writer.session, desk.clock.now())
    with desk.tracer.span(f"chat {request.model}", model=request.model, role=request.role) as span:
        reply = await unless_stopped(writer, desk.model.ask(request, until))
        if reply is None:
            span.failed("stopped")
        else:
            span.set(answered_by=reply.model, response=reply.request_id, finish_reasons=[reply.stop_reason])
            span.set(usage=reply.usage, cost_usd=reply.cost_usd, cache_miss_reason=reply.cache_miss_reason or None)
    return reply


async def pause(desk: Desk, writer: Writer, seconds: float) -> bool:
    """Wait before another attempt; False when there is no time for it."""
    now = desk.clock.now()
    if (limits.deadline(writer.session, now) - now).total_seconds() <= seconds:
        return False
    if seconds > 0:
        await unless_stopped(writer, desk.clock.sleep(seconds))
    return True


def _note(desk: Desk, writer: Writer, ask: AskModel, reply: ModelReply) -> Finish | None:
    session = writer.session
    assert session.run is not None
    replied = replied_event(reply, turn=session.run.turns, role=ask.role)
    if ask.read is not None:
        whole = reply.stop_reason in ("end_turn", "stop_sequence")
        writer.stage(replied, ask.read(text_of(replied.content) if whole else None))
        return None
    if twice := ids_used_before(session, replied):
        desk.tracer.note("model.repeated_id", thread=str(session.thread), ids=twice)
        detail = "The model's reply repeated the id of an earlier call."
        writer.lose(reply.usage, reply.cost_usd)
        return Finish("failed", "model_error", detail=detail)
    writer.stage(replied)
    after = writer.session.run
    if after is not None and not asked_again(replied, after):
        writer.stage(*requested_calls(desk, session.thread.channel, replied))
    return None


def replied_event(reply: ModelReply, *, turn: int, role: Role = "agent", branch: int = 0) -> e.ModelReplied:
    """A complete reply as the log keeps it. A call whose arguments the log cannot hold as they are never runs as
    something else, whatever the port has let through."""
    content = [clean(dict(block)) for block in reply.content]
    inexact = {
        str(kept.get("id")): "its arguments hold a number or character that no exact JSON can hold. Call again without."
        for block, kept in zip(reply.content, content, strict=True)
        if block.get("type") == "tool_use" and kept.get("input") != block.get("input")
    }
    return e.ModelReplied(
        turn=turn,
        role=role,
        branch=branch,
        content=content,
        stop_reason=reply.stop_reason,
        usage=reply.usage,
        cost_usd=reply.cost_usd,
        model=reply.model,
        request_id=reply.request_id,
        cache_miss_reason=reply.cache_miss_reason,
        stop_category=reply.stop_category,
        invalid_calls=inexact | dict(reply.invalid_calls),
    )


def ids_used_before(session: Session, reply: e.ModelReplied) -> list[str]:
    """Ids of calls in that reply that another call of the conversation or of an investigation has."""
    mine = [str(block.get("id")) for block in reply.content if block.get("type") == "tool_use"]
    if not mine:
        return []
    used = {call for item in session.transcript for call in item.calls}
    if session.run and session.run.inquiry:
        used |= session.run.inquiry.call_ids
    return [one for one in mine if one in used or mine.count(one) > 1]
