"""Ask the model once, and write down what it said and what it wants done.

1. The worst case is reserved in the log before the call; a limit that it would pass ends the run instead.
2. Only a complete reply is logged. Its calls are requested in the model's order, in stages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bot.core import caps as limits
from bot.core import events as e
from bot.core.canon import clean
from bot.core.errors import ModelMistake
from bot.core.state import Session
from bot.core.strategy import Finish
from bot.core.tool import ToolSpec
from bot.core.transcript import faults, messages
from bot.core.view import progress
from bot.engine.desk import Desk
from bot.engine.ports import ModelFailure, ModelReply, ModelRequest
from bot.engine.writer import Writer, unless_stopped


async def reason(desk: Desk, writer: Writer) -> Finish | None:
    """One turn's model call; a `Finish` when the run cannot go on."""
    session = writer.session
    request = _request(desk, session)
    if found := faults(request.messages):
        desk.tracer.note("transcript.invalid", thread=str(session.thread), faults=found)
        return Finish("failed", "internal_error", detail="The stored conversation cannot be sent to the model.")
    size = len(json.dumps([_sent(one) for one in request.tools]) + request.system) + _bytes(request.messages)
    room = _room(desk, session, request.model, size)
    if isinstance(room, Finish):
        return room
    assert session.run is not None
    await writer.write(
        e.ModelRequested(
            turn=session.run.turns + 1,
            reserved_tokens=room.tokens,
            reserved_usd=room.usd,
            model=request.model,
            request_bytes=size,
        ),
        effects=[progress(session, "working")],
    )
    try:
        with desk.tracer.span(f"chat {request.model}", model=request.model, role="agent") as span:
            reply = await _ask(desk, writer, _limited(request, room.max_output_tokens))
            if reply:
                span.set(**_told(reply))
            else:
                span.failed("stopped")
    except ModelFailure as failure:
        desk.tracer.note("model.failed", thread=str(session.thread), kind=failure.kind, why=str(failure))
        return (
            Finish("partial", "deadline") if failure.deadline else Finish("failed", "model_error", detail=str(failure))
        )
    return await _note(desk, writer, reply) if reply else None


async def _ask(desk: Desk, writer: Writer, request: ModelRequest) -> ModelReply | None:
    """The reply, or `None` when somebody said stop first: what it would have said no longer matters."""
    until = limits.deadline(writer.session, desk.clock.now())
    return await unless_stopped(writer, desk.model.ask(request, until))


def _told(reply: ModelReply) -> dict[str, Any]:
    """What a trace may know of a reply."""
    return {
        "answered_by": reply.model,
        "finish_reasons": (reply.stop_reason,),
        "usage": reply.usage,
        "cost_usd": reply.cost_usd,
        "response": reply.request_id,
    }


def _request(desk: Desk, session: Session) -> ModelRequest:
    return ModelRequest(
        model=desk.policy.model.name,
        system=desk.prompt,
        tools=desk.toolbox.specs(session.thread.channel),
        messages=messages(session),
        max_output_tokens=desk.policy.model.max_output_tokens,
        conversation=str(session.thread),
    )


def _limited(request: ModelRequest, max_output: int) -> ModelRequest:
    return ModelRequest(
        request.model, request.system, request.tools, request.messages, max_output, request.conversation
    )


def _sent(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)}


def _bytes(conversation: Sequence[Any]) -> int:
    return len(json.dumps(list(conversation), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _room(desk: Desk, session: Session, model: str, size: int) -> limits.Room | Finish:
    run = session.run
    assert run is not None

    def usd_of(input_tokens: int, output_tokens: int) -> float:
        usage = e.Usage(cache_write_tokens=input_tokens, output_tokens=output_tokens)
        return desk.model.price(model, usage) or 0.0

    if desk.model.price(model, e.Usage(input_tokens=1)) is None:
        return Finish(
            "failed",
            "model_error",
            detail=f"No price is known for the model {model}, so no budget could hold.",
        )
    room = limits.room_for(
        run,
        desk.policy.caps,
        worst_input=limits.input_at_most(run, size),
        max_output=desk.policy.model.max_output_tokens,
        usd_of=usd_of,
    )
    return Finish(room.outcome, room.stop_reason) if isinstance(room, limits.Stop) else room


async def _note(desk: Desk, writer: Writer, reply: ModelReply) -> Finish | None:
    run = writer.session.run
    assert run is not None
    content = [clean(dict(block)) for block in reply.content]
    replied = e.ModelReplied(
        turn=run.turns,
        content=content,
        stop_reason=reply.stop_reason,
        usage=reply.usage,
        cost_usd=reply.cost_usd,
        model=reply.model,
        request_id=reply.request_id,
        invalid_calls=dict(reply.invalid_calls),
    )
    if twice := _ids_used_before(writer.session, content):
        desk.tracer.note("model.repeated_id", thread=str(writer.session.thread), ids=twice)
        return Finish("failed", "model_error", detail="The model's reply repeated the id of an earlier call.")
    await writer.write(replied, *requests(desk, writer.session.thread.channel, replied))
    return None


def _ids_used_before(session: Session, content: list[dict[str, Any]]) -> list[str]:
    mine = [str(block.get("id")) for block in content if block.get("type") == "tool_use"]
    used = {
        block.get("id")
        for item in session.transcript
        if item.role == "assistant"
        for block in item.content
        if block.get("type") == "tool_use"
    }
    return [one for one in mine if one in used or mine.count(one) > 1]


def requests(desk: Desk, channel: str, reply: e.ModelReplied) -> list[e.ToolRequested]:
    """The calls of a reply, validated, each with the stage it runs in.

    Consecutive parallel-safe calls share a stage; any other call has its own (DESIGN section 4.1).
    """
    offered = {spec.name for spec in desk.toolbox.specs(channel)}
    found: list[e.ToolRequested] = []
    stage, shared = -1, False
    for block in reply.content:
        if block.get("type") != "tool_use":
            continue
        call = _requested(desk, block, reply, offered)
        tool = desk.toolbox.get(call.tool) if not call.invalid else None
        safe = bool(tool and tool.spec.parallel_safe)
        stage += not (safe and shared)
        shared = safe
        found.append(call.model_copy(update={"stage": stage}))
    return found


def _requested(desk: Desk, block: dict[str, Any], reply: e.ModelReplied, offered: set[str]) -> e.ToolRequested:
    name, call_id, raw = str(block.get("name")), str(block.get("id")), block.get("input")
    tool = desk.toolbox.get(name) if name in offered else None
    authority = tool.spec.authority.word if tool else "critical"
    arguments = raw if isinstance(raw, dict) else {}
    invalid = ""
    try:
        if reply.stop_reason != "tool_use":
            raise ModelMistake("This reply was cut off, so none of its calls was made.")
        if call_id in reply.invalid_calls:
            raise ModelMistake(f"{name} was not run: {reply.invalid_calls[call_id]}")
        if tool is None:
            raise ModelMistake(f"There is no tool {name!r} here. Use one of: {', '.join(sorted(offered))}.")
        arguments = tool.validate(arguments)
    except ModelMistake as mistake:
        invalid = str(mistake)
    return e.ToolRequested(
        call_id=call_id,
        tool=name,
        arguments=arguments,
        authority=authority,
        invalid=invalid,
    )
