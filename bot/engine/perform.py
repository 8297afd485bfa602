"""Run allowed calls, each through the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.core import caps as limits
from bot.core.authority import Authority
from bot.core.canon import clean, digest
from bot.core.labels import Readers, Trust
from bot.core.state import CallState, Session
from bot.core.tool import Tool, ToolContext, ToolResult
from bot.engine.desk import Desk
from bot.engine.writer import Writer, unless_stopped


@dataclass(frozen=True)
class Ran:
    """How one call ended."""

    call: CallState
    result: ToolResult
    ran: bool = True
    """False: it never started, so nothing happened."""
    kept: bool = False
    """The ledger has a row for it, until the result is in the log."""


NOT_KNOWN = ToolResult(
    False,
    "Started, but nobody knows whether it took effect. A person must check; do not repeat it.",
    Trust.SYSTEM,
)
"""The result of an effect that was begun by a worker that died, and that must not be begun again."""
_GONE = ToolResult(False, "This tool is no longer installed, so the call was not made.", Trust.SYSTEM)
_STOPPED = ToolResult(False, "The run was stopped before this call was made.", Trust.SYSTEM)


def idempotency_key(session: Session, call: CallState) -> str:
    """The same for every attempt at this call, and for no other call."""
    if call.key:
        return call.key
    run = session.run
    # The turn, because a model's proxy may count its calls anew when a conversation was folded.
    return digest([str(session.thread), run.id if run else "", run.turns if run else 0, call.call_id])[:40]


async def run_all(desk: Desk, writer: Writer, calls: Sequence[CallState]) -> list[Ran]:
    """Results in the model's order, whatever order they came in."""
    if desk.policy.loop.parallel and len(calls) > 1:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_run(desk, writer, call, alone=False)) for call in calls]
        except ExceptionGroup as failed:
            # A store that is away, or a fence, means the same as for a call by itself.
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]
    return [await _run(desk, writer, call, alone=len(calls) == 1) for call in calls]


async def _run(desk: Desk, writer: Writer, call: CallState, *, alone: bool) -> Ran:
    if writer.stop.is_set() and not call.started:
        return Ran(call, _STOPPED, ran=False)
    tool = desk.toolbox.get(call.tool)
    if tool is None:
        return Ran(call, _GONE, ran=False)
    key = idempotency_key(writer.session, call)
    harmless = tool.spec.authority <= Authority.EGRESS
    if harmless and alone and not call.started:
        return Ran(call, await _traced(desk, writer, tool, call, key))
    state, known = await desk.store.ledger.begin(writer.held, call.call_id, key)
    if state == "done" and known is not None:
        return Ran(call, _load(known), kept=True)
    if state == "started" and not (tool.spec.idempotent or harmless):
        return Ran(call, NOT_KNOWN, kept=True)
    result = await _traced(desk, writer, tool, call, key)
    if result.unknown:
        return Ran(call, NOT_KNOWN, kept=True)
    await desk.store.ledger.end(writer.held, call.call_id, _dump(result))
    return Ran(call, result, kept=True)


async def _traced(desk: Desk, writer: Writer, tool: Tool, call: CallState, key: str) -> ToolResult:
    about = {"tool": call.tool, "call": call.call_id, "authority": call.authority.word}
    with desk.tracer.span(f"execute_tool {call.tool}", approval=call.approval or None, **about) as span:
        result = await _attempt(desk, writer, tool, call, key)
        span.set(trust=result.trust.word, outcome="ok" if result.ok else "failed")
        if not result.ok:
            span.failed("effect_unknown" if result.unknown else "tool_error")
    return result


async def _attempt(desk: Desk, writer: Writer, tool: Tool, call: CallState, key: str) -> ToolResult:
    session = writer.session
    assert session.run is not None
    context = ToolContext(
        thread=session.thread,
        principal=session.run.principal,
        run=session.run.id,
        call_id=call.call_id,
        idempotency_key=key,
        deadline=limits.deadline(session, desk.clock.now()),
        resources=desk.toolbox.resources,
    )
    work = desk.toolbox.run(tool, call.arguments, context)
    if tool.spec.authority > Authority.EGRESS:
        # An effect on the wire is awaited even when somebody says stop: its result must be known.
        return await work
    return await unless_stopped(writer, work) or _STOPPED


def _dump(result: ToolResult) -> dict[str, Any]:
    return {
        "ok": result.ok,
        "content": clean(result.content),
        "trust": result.trust.word,
        "readers": result.readers.dump(),
        "retryable": result.retryable,
    }


def _load(known: Mapping[str, Any]) -> ToolResult:
    return ToolResult(
        bool(known["ok"]),
        known["content"],
        Trust.parse(known["trust"]),
        Readers.parse(known["readers"]),
        bool(known["retryable"]),
    )
