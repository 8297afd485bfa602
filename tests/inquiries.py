"""A scripted model that splits a question, plays each investigation by itself, and judges.

It knows where it is from the request alone, so it may be asked in any order, and again after a crash.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.core.authority import Authority
from bot.core.item import Message
from bot.core.labels import Trust
from bot.core.policy import Policy
from bot.core.tool import Tool
from bot.core.transcript import faults
from bot.engine.ports import ModelFailure, ModelRequest
from bot.lab.twins import Says
from tests.builders import CreditArgs, make_tool
from tests.world import World

QUESTIONS = ("What was ordered?", "What was written?", "What was paid?")
Turn = Says | ModelFailure


def splitting(*questions: str) -> Says:
    """The reply that names the questions."""
    return Says(json.dumps({"questions": questions or QUESTIONS}))


def looks(tool: str, order: str) -> Says:
    """A reply that looks an order up."""
    return Says(calls=[(tool, {"order_id": order})])


def branch_of(request: ModelRequest) -> int:
    """Which investigation a request belongs to, from its words; 0: the conversation itself."""
    told = re.findall(r"\(Investigation (\d+) of", _text(request.messages))
    assert len(set(told)) <= 1, "one conversation holds the briefs of two investigations"
    return int(told[0]) if told else 0


def wire(request: ModelRequest) -> list[bytes]:
    """Its messages as they are sent, piece by piece."""
    return [
        message.role.encode() + b" " + block
        for message in request.messages
        for i in message.items
        for block in i.encoded
    ]


def said_in(request: ModelRequest) -> str:
    """All words of its messages."""
    return _text(request.messages)


def _text(messages: Sequence[Message]) -> str:
    return "\n".join(str(block) for message in messages for block in message.content)


@dataclass
class Brain:
    """What is said where; the last turn of each again when it is over."""

    split: Sequence[Turn] = (splitting(),)
    branches: Mapping[int, Sequence[Turn]] = field(default_factory=dict)
    judge: Sequence[Turn] = (Says("Paid twice [1], see also [2, 3]."),)
    seen: list[tuple[int, int]] = field(default_factory=list)
    """Each time it was asked: which investigation, and how many replies it had given there."""

    def __call__(self, request: ModelRequest) -> Turn:
        """The turn of that conversation."""
        number = branch_of(request)
        words = said_in(request)
        split = not number and words.rfind("name the independent questions") > words.rfind(
            "The investigations have ended"
        )
        turns = self.split if split else self.branches[number] if number else self.judge
        mark = "name the independent" if split else "(Investigation " if number else "The investigations have ended"
        place = _replies(request.messages, mark)
        tries = self.seen.count((number, place))
        self.seen.append((number, place))
        turn = turns[min(place, len(turns) - 1)]
        if isinstance(turn, ModelFailure) and turn.kind == "lost" and tries:
            turn = turns[min(place + 1, len(turns) - 1)]
        return turn


def _replies(messages: Sequence[Message], after: str) -> int:
    """How many replies stand after the last piece that says that."""
    items = [item for message in messages for item in message.items]
    marks = [place for place, item in enumerate(items) if item.role == "user" and after in str(item.content)]
    return sum(item.role == "assistant" for item in items[marks[-1] :])


def canary(order: str) -> str:
    """What looking that order up brings, and nothing else does."""
    return f"canary-{order}"


def reading(name: str, output: Trust = Trust.INTERNAL, **options: Any) -> Tool:
    """A tool that looks an order up."""

    def answer(args: Any, context: Any) -> Any:
        return {"found": canary(args.order_id)}

    return make_tool(name, Authority.OBSERVE, output, answer=answer, **options)


def writing(effects: list[str], authority: Authority = Authority.CRITICAL) -> Tool:
    """A tool that changes something, and notes that it did."""

    def answer(args: Any, context: Any) -> Any:
        effects.append(context.call_id)
        return {"credited": True}

    return make_tool("issue_credit", authority, model=CreditArgs, idempotent=True, answer=answer)


THREE = {
    1: [looks("get_order", "1111"), Says("Ordered once; told-1.")],
    2: [looks("get_ticket", "2222"), looks("get_order", "2223"), Says("Two letters; told-2.")],
    3: [looks("get_order", "3333"), Says("Paid twice; told-3.")],
}


def policy(*, loop: Mapping[str, Any] | None = None, **tables: Any) -> Policy:
    """A policy that branches."""
    rule = {"default": {"users": ["U0CAROL", "U0DAVE"]}}
    return Policy.model_validate({"approvals": rule, "loop": {"strategy": "branch", **(loop or {})}, **tables})


def world(brain: Any, tools: Sequence[Tool] = (), given: Policy | None = None) -> World:
    """A Plimsoll with that model."""
    usual = [reading("get_order", parallel_safe=True), reading("get_ticket", Trust.UNTRUSTED), writing([])]
    return World(brain, tools or usual, given or policy())


async def asked(brain: Any, **given: Any) -> World:
    """A question, and all that follows; no request of it may be one that the service would refuse."""
    one = world(brain, **given)
    await one.says("Why was order 4921 paid twice?")
    await one.settle()
    assert one.tracer.faults == []
    assert [fault for request in one.model.requests for fault in faults(request.messages)] == []
    return one


def by_branch(one: World) -> dict[int, list[ModelRequest]]:
    """Requests by investigation; 0: the conversation itself."""
    found: dict[int, list[ModelRequest]] = {}
    for request in one.model.requests:
        found.setdefault(branch_of(request), []).append(request)
    return found


def closed_once(one: World) -> bool:
    """Every call of the log has exactly one result."""
    asked = [call["call_id"] for call in one.of("ToolRequested")]
    return Counter(asked) == Counter(call["call_id"] for call in one.of("ToolReturned"))
