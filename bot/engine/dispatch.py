"""Bring one stage of calls before the gate, and run what it allows.

1. Gates, starts and results are written in that order, each in the model's order.
2. The ledger is asked right before each effect: a stale worker is fenced, a finished effect is replayed,
   an effect of unknown end is never run blindly. A single read needs none: it may always be repeated.
3. A call that needs a person stops the stage before anything of it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.core import events as e
from bot.core.actions import Finish
from bot.core.canon import clean
from bot.core.gate import NeedsApproval, Refused, Verdict, admit
from bot.core.progress import facts_of
from bot.core.session import evolve
from bot.core.state import CallState
from bot.engine.asking import ask, gate_event, prepare
from bot.engine.desk import Desk
from bot.engine.perform import NOT_KNOWN, Ran, idempotency_key, run_all
from bot.engine.writer import Writer


async def dispatch(desk: Desk, writer: Writer, calls: Sequence[CallState]) -> Finish | None:
    """One stage; a `Finish` when it hands the run over."""
    decided: list[e.Event] = []
    refused: dict[str, Refused] = {}
    session = writer.session
    for call in calls:
        if call.started:
            continue
        prepared = await prepare(desk, session, call)
        verdict: Verdict = (
            prepared if isinstance(prepared, (Refused, NeedsApproval)) else admit(prepared, session, desk.policy)
        )
        if isinstance(verdict, NeedsApproval):
            return await ask(desk, writer, call, verdict)
        decided.append(gate_event(call, verdict))
        session = evolve(session, decided[-1])
        if isinstance(verdict, Refused):
            refused[call.call_id] = verdict
    allowed = [call for call in calls if call.call_id not in refused]
    starts = [
        e.ToolStarted(call_id=call.call_id, idempotency_key=idempotency_key(writer.session, call))
        for call in allowed
        if not call.started
    ]
    await writer.write(*decided, *starts)
    ran = {one.call.call_id: one for one in await run_all(desk, writer, allowed)}
    return _write_results(writer, calls, refused, ran)


def _write_results(
    writer: Writer,
    calls: Sequence[CallState],
    refused: Mapping[str, Refused],
    ran: Mapping[str, Ran],
) -> Finish | None:
    events: list[e.Event] = []
    unknown: list[CallState] = []
    facts: set[str] = set(writer.session.run.facts) if writer.session.run else set()
    for call in calls:
        if call.call_id in refused:
            events.append(not_run(call, refused[call.call_id]))
            continue
        outcome = ran[call.call_id]
        if outcome.result is NOT_KNOWN:
            unknown.append(call)
            events.append(e.EffectUnknown(call_id=call.call_id))
        new = facts_of(call.tool, outcome.result.content) - facts if outcome.result.ok else frozenset()
        facts |= new
        events.append(_returned(call, outcome, len(new)))
    writer.stage(*events)
    writer.settled += [one.call.call_id for one in ran.values() if one.kept]
    return _unknown(unknown) if unknown else None


def _returned(call: CallState, outcome: Ran, facts_added: int) -> e.ToolReturned:
    result = outcome.result
    return e.ToolReturned(
        call_id=call.call_id,
        ok=result.ok,
        content=clean(result.content),
        trust=result.trust.word,
        readers=result.readers.dump(),
        facts_added=facts_added,
        ran=outcome.ran,
        retryable=result.retryable,
    )


def not_run(call: CallState, verdict: Refused) -> e.ToolReturned:
    """The result of a call that the gate, a person or a limit kept from running."""
    content = {"refused": verdict.code, "reason": verdict.reason}
    return e.ToolReturned(call_id=call.call_id, ok=False, content=content, trust="system", ran=False)


def _unknown(calls: Sequence[CallState]) -> Finish:
    named = "; ".join(f"{call.tool} with {dict(call.arguments)}" for call in calls)
    detail = (
        f"I was interrupted while this was being done, and I cannot know whether it happened: {named}. "
        "I did not do it again. Check it before anybody does."
    )
    return Finish("escalated", "hand_over", detail=detail)
