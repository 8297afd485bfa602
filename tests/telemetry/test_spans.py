"""What a trace shows of a run: its shape, its names, its place in the log, and never a word that somebody wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from bot.core.authority import Authority
from bot.core.events import Usage
from bot.core.words import ThreadId
from bot.lab.twins import Says
from bot.telemetry.spans import trace_of
from tests.builders import THREAD, make_tool
from tests.telemetry.traced import Traced, answered, attributes

ORDER = ("get_order", {"order_id": "4921"})
TICKET = ("get_ticket", {"order_id": "4921"})
CREDIT = ("issue_credit", {"order_id": "4921", "amount_cents": 900})
USAGE = Usage(input_tokens=10, cache_read_tokens=700, cache_write_tokens=90, output_tokens=25, calls=1)


async def test_a_run_is_a_tree_of_turns_with_the_model_and_the_tools_of_each() -> None:
    """And what only notes a delivery afterwards makes no span."""
    traced = await answered([Says(calls=[ORDER, ORDER]), Says("Nothing.")])

    assert traced.tree() == [
        "invoke_agent plimsoll",
        " turn",
        "  chat claude-sonnet-5-5",
        "  execute_tool get_order",
        " turn",
        "  chat claude-sonnet-5-5",
    ]


async def test_a_model_call_says_what_the_conventions_ask_for_in_their_types() -> None:
    """Cached input counts as input."""
    traced = await answered([Says("Nothing.", usage=USAGE, cost_usd=0.25)])

    found = attributes(traced.named("chat")[0])
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": str(THREAD),
        "gen_ai.request.model": "claude-sonnet-5-5",
        "gen_ai.response.model": "claude-sonnet-5-5",
        "gen_ai.response.id": "req-1",
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": 800,
        "gen_ai.usage.cache_read.input_tokens": 700,
        "gen_ai.usage.cache_write.input_tokens": 90,
        "gen_ai.usage.output_tokens": 25,
        "plimsoll.run.id": traced.export[0]["run"],
        "plimsoll.turn": 1,
        "plimsoll.role": "agent",
        "plimsoll.cost_usd": 0.25,
        "plimsoll.log.seq": traced.world.kinds.index("ModelRequested") + 1,
    }


async def test_a_tool_call_says_which_call_it_was_and_on_what_ground_it_ran() -> None:
    """Tool, call, class, and how far its result is trusted."""
    traced = await answered([Says(calls=[ORDER]), Says("Nothing.")])

    found = attributes(traced.named("execute_tool")[0])
    assert found == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": str(THREAD),
        "gen_ai.tool.name": "get_order",
        "gen_ai.tool.call.id": traced.world.of("ToolRequested")[0]["call_id"],
        "plimsoll.run.id": traced.export[0]["run"],
        "plimsoll.turn": 1,
        "plimsoll.authority": "observe",
        "plimsoll.trust": "internal",
        "plimsoll.outcome": "ok",
        "plimsoll.log.seq": traced.world.kinds.index("ToolStarted") + 1,
    }


async def test_the_span_of_a_run_tells_its_ending_as_the_log_does() -> None:
    """Outcome, reason, reference, sums, and where in the log it stands."""
    traced = await answered([Says(calls=[ORDER], usage=USAGE), Says("Nothing.", usage=USAGE)])

    ended = traced.world.of("RunFinished")[0]
    found = attributes(traced.named("invoke_agent")[0])
    assert found["gen_ai.agent.name"] == "plimsoll" and found["gen_ai.provider.name"] == "anthropic"
    assert found["plimsoll.outcome"] == ended["outcome"] == "answered"
    assert found["plimsoll.stop_reason"] == ended["stop_reason"]
    assert found["plimsoll.reference"] == ended["reference"]
    assert found["plimsoll.log.seq"] == traced.world.kinds.index("RunFinished") + 1
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (1600, 50)
    assert found["plimsoll.turns"] == 2 and found["plimsoll.trust"] == "internal"


async def test_a_run_that_waited_for_a_person_goes_on_in_the_same_trace() -> None:
    """Two leases are two spans of one conversation and one trace, whose id any process computes from the run's."""
    traced = await answered([Says(calls=[TICKET, CREDIT]), Says("Done.")])
    parked = traced.tree()
    traced.world.desk = replace(traced.world.desk)  # another worker
    await traced.world.clicks_on("approve")
    await traced.world.settle()

    first, second = traced.named("invoke_agent")
    run = traced.export[0]["run"]
    assert parked == ["invoke_agent plimsoll", " turn", "  chat claude-sonnet-5-5", "  execute_tool get_ticket"]
    assert traced.tree()[4:] == [
        "invoke_agent plimsoll",
        " turn",
        "  execute_tool issue_credit",
        " turn",
        "  chat claude-sonnet-5-5",
    ]
    assert {one.context.trace_id for one in traced.spans} == {trace_of(run)}
    assert (first.parent, second.parent) == (None, None)
    assert attributes(first)["plimsoll.outcome"] == "waiting" and attributes(second)["plimsoll.outcome"] == "answered"
    assert [attributes(one)["plimsoll.turn"] for one in traced.named("turn")] == [1, 1, 2]
    asked = traced.world.of("ApprovalRequested")[0]["approval_id"]
    assert attributes(traced.named("execute_tool issue")[0])["plimsoll.approval"] == asked


async def test_a_confirmed_post_is_no_work_on_a_run_that_waits() -> None:
    """Nor is a word that was not for us: such a lease makes no span."""
    traced = await answered([Says(calls=[TICKET, CREDIT]), Says("Done.")])
    before = traced.tree()
    await traced.world.happens("posted", keys=[["card:x", "9.000100"]])
    await traced.world.says("By the way", author="U0BOB", ts="1.5", mentions_us=False)
    await traced.world.settle()

    assert traced.world.kinds[-2:] == ["Posted", "MessageIgnored"] and traced.tree() == before


async def test_a_span_of_somebody_else_around_the_worker_adopts_nothing() -> None:
    """A run is its own trace wherever the worker was started."""
    traced = Traced([Says(calls=[ORDER]), Says("Nothing.")])
    await traced.world.says("What do we owe?")
    with trace.use_span(TracerProvider().get_tracer("other").start_span("server")):
        await traced.world.settle()

    assert [one.parent for one in traced.named("invoke_agent")] == [None]
    assert {one.context.trace_id for one in traced.spans} == {trace_of(traced.export[0]["run"])}
    assert traced.tree()[2:4] == ["  chat claude-sonnet-5-5", "  execute_tool get_order"]


async def test_each_word_of_the_gate_stands_in_its_turn() -> None:
    """A call that was held or refused has no span of its own, and is not lost either."""
    traced = await answered([Says(calls=[ORDER]), Says(calls=[ORDER]), Says("Nothing.")])

    told = [(event.name, dict(event.attributes or {})) for one in traced.named("turn") for event in one.events]
    logged = [(one["call_id"], one["verdict"]) for one in traced.world.of("GateDecided")]
    assert [name for name, _ in told] == ["gate", "gate"]
    assert [(one["gen_ai.tool.call.id"], one["plimsoll.verdict"]) for _, one in told] == logged
    assert [one["plimsoll.verdict"] for _, one in told] == ["allowed", "refused"]


async def test_a_model_call_within_a_tool_stands_below_that_tool() -> None:
    """As when a tool has a text read by another model."""
    traced: Traced

    def reads(*_: Any) -> Any:
        with traced.tracer.span("chat small", model="small", role="quarantine"):
            return {"total_cents": 1}

    traced = Traced(
        [Says(calls=[ORDER]), Says("Nothing.")], tools=[make_tool("get_order", Authority.OBSERVE, answer=reads)]
    )
    await traced.world.says("What do we owe?")
    await traced.world.settle()

    assert traced.tree()[3:5] == ["  execute_tool get_order", "   chat small"]
    assert attributes(traced.named("chat small")[0])["gen_ai.conversation.id"] == str(THREAD)


async def test_two_runs_of_a_thread_are_two_traces_of_one_conversation() -> None:
    """Also when one lease saw both."""
    traced = Traced([Says("One."), Says("Two.")])
    await traced.world.says("First?", ts="1.0")
    await traced.world.settle()
    await traced.world.says("Second?", ts="2.0")
    await traced.world.settle()

    roots = traced.named("invoke_agent")
    assert len(roots) == 2 and roots[0].context.trace_id != roots[1].context.trace_id
    assert [attributes(one)["gen_ai.conversation.id"] for one in traced.spans] == [str(THREAD)] * 6


async def test_threads_worked_on_at_once_do_not_mix() -> None:
    """Every span has the thread and the run of its own trace."""
    other = ThreadId(THREAD.team, THREAD.channel, "1780000000.000999")
    traced = Traced([Says("Nothing.")])
    await traced.world.says("First?", ts="1.0")
    traced.world.thread = other
    await traced.world.says("Second?", ts="2.0")
    await traced.world.settle()

    by_trace: dict[int, set[tuple[Any, Any]]] = {}
    for one in traced.spans:
        found = attributes(one)
        place = (found["gen_ai.conversation.id"], found["plimsoll.run.id"])
        by_trace.setdefault(one.context.trace_id, set()).add(place)
    assert {thread for places in by_trace.values() for thread, _ in places} == {str(THREAD), str(other)}
    assert all(len(places) == 1 for places in by_trace.values())
