"""A plan as data: which tools, with which arguments from where, and why; written down before anything is read.

1. It is read strictly: one doubtful step and there is no plan.
2. A call belongs to the first open step of its tool. A call without such a step, or a step whose call failed, is a
   surprise, and a surprise leads to another revision.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.core.canon import hidden_characters
from bot.core.errors import ModelMistake
from bot.core.frozen import replace
from bot.core.todo import TODO
from bot.core.verdicts import object_in

MOST_STEPS = 20
MOST_REVISIONS = 3
"""A plan that was wrong more often is no help."""
UNPLANNED, PLAN_FIRST = "not in the plan", "plan first"
"""Why a call was not made; the words of its result."""

_FORM = """\
{"steps": [{"tool": "<a tool you have>", "arguments": {"<name>": <value>}, "why": "<what it is for, in a few words>"}]}
An argument that is not known yet says where it will come from: {"from": "question"}, {"from": "step 1", "field": \
"<what of its result>"} (an earlier step of this plan), or {"from": "earlier"} (what was read before this plan)."""
ASK = f"""\
(For this question, plan before you act, and call no tool yet. Reply with one JSON object and nothing else:
{_FORM}
One step for each call, in order, at most {MOST_STEPS}; after a change, a step that reads it again; no step where \
nothing has to be looked up or done. It is shown to the people in the thread.)"""
ASK_AGAIN = f"""\
({{why}} Reply with a plan of the steps that are left, as one JSON object and nothing else:
{_FORM})"""
GO_ON = "(The plan is written down. Carry it out call by call, then answer. Any other call needs another plan first.)"
GIVE_UP = "({why} Go on without a plan: call what you need, then answer.)"


class _Draft(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    tool: str = Field(min_length=1, max_length=64)
    arguments: dict[str, Any]
    why: str = Field(min_length=1, max_length=300)


class _Drafts(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    steps: Annotated[list[_Draft], Field(max_length=MOST_STEPS)]


@dataclass(frozen=True)
class Step:
    """One call that is meant to be made."""

    tool: str
    why: str
    state: str = "open"
    """`open`, `done` or `failed`."""


@dataclass(frozen=True)
class Plan:
    """The newest plan of a run."""

    steps: tuple[Step, ...] = ()
    """Steps of earlier revisions that were carried out, then this revision's own."""
    revision: int = 0
    surprise: str = ""
    """Why it has to be revised, in words; empty while everything went as planned."""


def looks_like_one(text: str) -> bool:
    """Whether a reply was meant as a plan, be it a valid one or not: it is no answer for people."""
    return '"steps"' in text


def steps_in(text: str, tools: Iterable[str]) -> list[dict[str, Any]]:
    """The steps of a drafted plan; raises `ModelMistake` with what is wrong with it."""
    draft = object_in(text)
    if draft is None:
        raise ModelMistake("That was not one JSON object.")
    try:
        steps = _Drafts.model_validate(draft).steps
    except ValidationError as error:
        raise ModelMistake(f"That is no plan: {_first(error)}.") from None
    known = set(tools)
    if unknown := [step.tool for step in steps if known and step.tool not in known]:
        raise ModelMistake(f"The plan names a tool that is not here: {unknown[0]!r}.")
    for number, step in enumerate(steps, 1):
        _check_sources(number, step.arguments)
    found = [step.model_dump() for step in steps]
    if hidden := hidden_characters(found):
        raise ModelMistake(f"The plan holds invisible characters ({', '.join(hidden)}).")
    return found


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


def _check_sources(number: int, arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if not isinstance(value, dict) or "from" not in value or not set(value) <= {"from", "field"}:
            continue
        found = re.fullmatch(r"question|earlier|step ([1-9][0-9]?)", str(value["from"]))
        if found is None or not isinstance(value.get("field", ""), str) or (found[1] and int(found[1]) >= number):
            raise ModelMistake(f"Step {number}: {name} does not come from the question or an earlier step.")


def committed(before: Plan | None, steps: Iterable[Mapping[str, Any]], revision: int) -> Plan:
    """The plan after that revision; what was carried out before stays in sight."""
    closed = tuple(step for step in (before.steps if before else ()) if step.state != "open")
    own = tuple(Step(str(one.get("tool", "")), str(one.get("why", ""))) for one in steps)
    return Plan((*closed, *own), revision)


def after_call(plan: Plan, tool: str, *, ok: bool) -> Plan:
    """The plan once a call of that tool has run."""
    steps = list(plan.steps)
    place = next((place for place, step in enumerate(steps) if step.tool == tool and step.state == "open"), None)
    if place is None:
        return plan
    steps[place] = replace(steps[place], state="done" if ok else "failed")
    surprise = plan.surprise or ("" if ok else f"The step with {tool} failed.")
    return replace(plan, steps=tuple(steps), surprise=surprise)


def unplanned(plan: Plan, calls: Sequence[str]) -> list[int]:
    """Places of the calls, by their tools, that no open step is left for; the to-do list needs none."""
    left = Counter(step.tool for step in plan.steps if step.state == "open")
    found = []
    for place, tool in enumerate(calls):
        if left[tool] <= 0 and tool != TODO:
            found.append(place)
        left[tool] -= 1
    return found


def lines(plan: Plan, running: Iterable[str]) -> list[str]:
    """One line a step for people, with its state; `running` are tools with an open call."""
    active = Counter(running)
    shown = []
    for step in plan.steps:
        mark = {"done": "✓", "failed": "✗"}.get(step.state, "○")
        if mark == "○" and active[step.tool] > 0:
            active[step.tool] -= 1
            mark = "…"
        shown.append(f"{mark} {step.tool.replace('_', ' ')}: {' '.join(step.why.split())}")
    return shown
