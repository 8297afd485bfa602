"""What failed spans say, what no span ever says, and how an operator gets from a reference to trace and log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.tool import ToolError
from bot.engine.ports import ModelFailure
from bot.lab.twins import Says
from tests.builders import GET_ORDER, THREAD, make_tool
from tests.telemetry.traced import Traced, answered, attributes

ORDER = ("get_order", {"order_id": "4921"})
CANARY = "kestrel-7731"


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (ModelFailure("no", kind="away"), "away"),
        (ModelFailure("late", kind="deadline"), "deadline"),
        (ModelFailure("odd"), "final"),
    ],
)
async def test_a_model_call_that_failed_says_of_what_kind(failure: ModelFailure, kind: str) -> None:
    """The kind alone: a message may quote anything."""
    traced = await answered([failure])

    chat = traced.named("chat")[0]
    assert attributes(chat)["error.type"] == kind
    assert chat.status.status_code is StatusCode.ERROR and chat.status.description is None
    assert attributes(traced.named("invoke_agent")[0]).get("error.type") == (
        "model_error" if failure.kind != "deadline" else None
    )


async def test_a_tool_that_failed_is_an_error_of_its_span_alone() -> None:
    """The run went on and answered."""

    def fails(*_: Any) -> Any:
        raise ToolError("the desk is closed")

    traced = await answered(
        [Says(calls=[ORDER]), Says("Nothing.")], tools=[make_tool("get_order", Authority.OBSERVE, answer=fails)]
    )

    assert {one.name: attributes(one).get("error.type") for one in traced.spans} == {
        "invoke_agent plimsoll": None,
        "turn": None,
        "chat claude-sonnet-5-5": None,
        "execute_tool get_order": "tool_error",
    }


async def test_nothing_that_anybody_wrote_enters_a_span() -> None:
    """Question, history, arguments, results, a crash, an answer, a failed model call: none of it leaves the house."""

    def crashes(*_: Any) -> Any:
        raise RuntimeError(CANARY)

    tools = [
        GET_ORDER,
        make_tool("get_ticket", Authority.OBSERVE, Trust.UNTRUSTED, answer={"note": CANARY}),
        make_tool("get_crash", Authority.OBSERVE, answer=crashes),
    ]
    calls = [
        ("get_ticket", {"order_id": "4921"}),
        ("get_crash", {"order_id": "4921"}),
        ("get_order", {"order_id": CANARY}),
        (f"no_such_{CANARY}", {"a": CANARY}),
    ]
    traced = Traced([Says(CANARY, calls=calls), Says(CANARY), ModelFailure(CANARY)], tools=tools)
    traced.world.surface.earlier = [{"ts": "0.5", "author": "U0BOB", "text": CANARY, "bot": False}]
    await traced.world.says(CANARY, ts="1.0", thread_reply=True)
    await traced.world.settle()
    await traced.world.says(CANARY, ts="2.0")
    await traced.world.settle()

    assert [one["outcome"] for one in traced.world.of("RunFinished")] == ["answered", "failed"]
    assert sum(CANARY in str(line) for line in traced.export) > 8, "the canary was not planted"
    assert len(traced.spans) >= 9
    assert [one.name for one in traced.spans if CANARY in one.to_json()] == []


async def test_the_note_of_an_ending_leads_from_its_reference_to_trace_and_log() -> None:
    """What an operator greps for: reference, thread, seq, trace."""
    traced = await answered([ModelFailure("no")])

    note = next(one for one in traced.notes if one["event"] == "run.finished")
    entry = traced.export[note["seq"] - 1]
    assert entry["type"] == "RunFinished" and entry["payload"]["reference"] == note["reference"]
    assert (note["thread"], note["run"]) == (str(THREAD), entry["run"])
    assert note["trace"] == format(traced.named("invoke_agent")[0].context.trace_id, "032x")


async def test_a_run_ends_the_same_with_and_without_a_trace() -> None:
    """The log of a traced run is the log of an untraced one."""
    traced = await answered([Says(calls=[ORDER]), Says("Nothing.")])
    plain = Traced([Says(calls=[ORDER]), Says("Nothing.")]).world
    plain.desk = replace(plain.desk, tracer=plain.tracer)
    await plain.says("What do we owe?")
    await plain.settle()

    assert [entry.dump() for entry in traced.world.log] == [entry.dump() for entry in plain.log]
