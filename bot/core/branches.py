"""What events do to the investigations of a run.

1. An investigation's turns stand in its own conversation alone; the main one gets only what they found.
2. Rounds go in step: all that go on are asked, then all their calls run, then all are asked again.
"""

from __future__ import annotations

from typing import Any

from bot.core import events as e
from bot.core.actions import Finish
from bot.core.frozen import replace
from bot.core.inquiry import CONCLUDED, Branch, Inquiry, Phase
from bot.core.inquiry_words import CITE, LAST_REPLY, brief, call_line, findings, uncited
from bot.core.item import Item, said
from bot.core.replies import WINDOW, text_of, usable
from bot.core.state import CallState, Run, Session

PATH = "branch"
_NEXT: dict[Phase, Phase] = {"asked": "asked", "running": "judging", "judging": "citing", "citing": "citing"}
"""What an instruction on this path leads to."""
_ENDS = {
    "max_tokens": "its reply was cut off",
    WINDOW: "its conversation no longer fits into the model",
    "refusal": "the model declined to look into it",
}


def route_chosen(session: Session, event: e.RouteChosen) -> Session:
    """A path is taken; its next instruction enters the main conversation alone."""
    run = session.run
    assert run is not None, "a path of no run"
    if event.path != PATH:
        run = replace(run, inquiry=None)
    elif event.instruction:
        before = run.inquiry
        run = replace(run, inquiry=_next(before, run) if before else Inquiry())
    if not event.instruction:
        return replace(session, run=run)
    return replace(session, run=run, transcript=tuple(_main(session)))


def plan_committed(session: Session, event: e.PlanCommitted) -> Session:
    """The investigations begin, or some are given up."""
    run = session.run
    assert run is not None, "investigations of no run"
    inquiry = replace(_inquiry(run), revision=event.revision)
    if inquiry.phase != "asked":
        for step in event.steps:
            run, inquiry = _given_up(run, inquiry, step)
        return replace(session, run=replace(run, inquiry=inquiry))
    branches = tuple(
        Branch(int(step["branch"]), str(step["question"]), int(step["rounds"]), run.asked_model, run.known_input)
        for step in event.steps
    )
    told = (_in(one.number, said("user", brief(one, len(branches)), session.entries + 1)) for one in branches)
    run = replace(run, inquiry=replace(inquiry, phase="running", branches=branches), calls=())
    return replace(session, run=run, transcript=(*session.transcript, *told))


def requested(run: Run, event: e.ModelRequested) -> Run:
    """One of them is asked; an earlier request without a reply counts at its worst."""
    inquiry = _inquiry(run)
    branch = inquiry.branch(event.branch)
    asked = replace(
        branch,
        turn=event.turn,
        pending=True,
        reserved_tokens=event.reserved_tokens,
        reserved_usd=event.reserved_usd,
        request_bytes=event.request_bytes,
        asked_model=event.model,
        known_input=branch.known_input if event.model == branch.asked_model else (0, 0),
    )
    run = replace(_lost(run, branch, event.lost, event.lost_usd), turns=max(run.turns, event.turn))
    return replace(run, inquiry=inquiry.with_branch(asked))


def replied(session: Session, event: e.ModelReplied) -> Session:
    """Its reply, into its own conversation."""
    assert session.run is not None
    inquiry = _inquiry(session.run)
    branch = inquiry.branch(event.branch)
    branch = replace(
        branch,
        pending=False,
        reserved_tokens=0,
        reserved_usd=0.0,
        reply=event,
        replies=branch.replies + 1,
        known_input=(branch.request_bytes, event.usage.total - event.usage.output_tokens),
        conclusion=text_of(event.content),
    )
    branch = replace(branch, ended=_ending(branch, event))
    run = replace(
        session.run,
        usage=session.run.usage.plus(event.usage),
        cost_usd=session.run.cost_usd + event.cost_usd,
        inquiry=inquiry.with_branch(branch),
        calls=session.run.open_calls,
        turn_facts=0,
        turn_refused_to_conclude=False,
    )
    content = usable(event.content)
    piece = Item("assistant", content, session.entries + 1, branch.asked_model, event.branch, event.stop_reason)
    return replace(session, run=run, transcript=(*session.transcript, piece) if content else session.transcript)


def looked_at(run: Run, call: CallState) -> Run:
    """A call of an investigation brought it something."""
    inquiry = _inquiry(run)
    branch = inquiry.branch(call.branch)
    line = call_line(call.tool, dict(call.arguments))
    return replace(run, inquiry=inquiry.with_branch(replace(branch, looked=(*branch.looked, line))))


def results_of(run: Run, seq: int) -> list[Item]:
    """The results of a turn for each conversation that asked for some, in the model's order."""
    found: list[Item] = []
    for number in dict.fromkeys(call.branch for call in run.calls):
        results = tuple(call.result or {} for call in run.calls if call.branch == number)
        found.append(Item("results", results, seq, branch=number))
        branch = _inquiry(run).branch(number) if number else None
        if branch and branch.replies == branch.rounds - 1:
            found.append(_in(number, said("user", LAST_REPLY, seq)))
    return found


def closed(session: Session) -> Session:
    """The main conversation alone; of investigations that a run's end cut short it gets what they found."""
    inquiry = session.run.inquiry if session.run else None
    if inquiry is None or inquiry.phase != "running":
        return session
    told = said("user", findings(inquiry), session.entries + 1)
    return replace(session, transcript=(*_main(session), told))


def instead_of(session: Session, end: Finish) -> Finish:
    """The judgement that cites nothing, where the run would end only because it could not be given again."""
    inquiry = session.run.inquiry if session.run else None
    if inquiry is None or not inquiry.uncited or end.outcome in ("answered", "cancelled"):
        return end
    if session.transcript[-1].content != said("user", CITE).content:
        return end
    return replace(end, outcome="answered", stop_reason="end_turn", text=uncited(inquiry.uncited), detail="")


def as_seen_by(session: Session, branch: Branch) -> Session:
    """The session with what is known of that investigation's last request in the place of the main one's."""
    assert session.run is not None
    run = replace(session.run, known_input=branch.known_input, asked_model=branch.asked_model, cut=0)
    return replace(session, run=run, last_reply=branch.reply.request_id if branch.reply else session.last_reply)


def _next(inquiry: Inquiry, run: Run) -> Inquiry:
    phase = _NEXT[inquiry.phase]
    answer = text_of(run.reply.content) if phase == "citing" and run.reply else ""
    return replace(inquiry, phase=phase, uncited=answer)


def _given_up(run: Run, inquiry: Inquiry, step: dict[str, Any]) -> tuple[Run, Inquiry]:
    branch = inquiry.branch(int(step["branch"]))
    run = _lost(run, branch, e.Usage.model_validate(step.get("lost", {})), float(step.get("lost_usd", 0.0)))
    ended = replace(branch, ended=str(step["ended"]), pending=False, reserved_tokens=0, reserved_usd=0.0)
    return run, inquiry.with_branch(ended)


def _lost(run: Run, branch: Branch, usage: e.Usage, usd: float) -> Run:
    """What its request without a reply is known to have used, and the rest of its reservation at the worst."""
    return replace(
        run,
        usage=run.usage.plus(usage),
        cost_usd=run.cost_usd + usd,
        lost_tokens=run.lost_tokens + max(0, branch.reserved_tokens - usage.total),
        lost_usd=run.lost_usd + max(0.0, branch.reserved_usd - usd),
    )


def _ending(branch: Branch, reply: e.ModelReplied) -> str:
    match reply.stop_reason:
        case "end_turn" | "stop_sequence":
            return CONCLUDED if branch.conclusion else "its reply was empty"
        case "pause_turn":
            why = ""
        case "tool_use" if any(block.get("type") == "tool_use" for block in reply.content):
            why = ""
        case _:
            why = _ENDS.get(reply.stop_reason, "its reply could not be used")
    return why or ("" if branch.replies < branch.rounds else "its replies were used up without a conclusion")


def _main(session: Session) -> list[Item]:
    return [item for item in session.transcript if not item.branch]


def _in(number: int, item: Item) -> Item:
    return replace(item, branch=number)


def _inquiry(run: Run) -> Inquiry:
    assert run.inquiry is not None, "an event of an investigation where there is none"
    return run.inquiry
