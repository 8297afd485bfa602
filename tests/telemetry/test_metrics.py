"""Metrics are what the log says: an oracle that reads exported lines alone comes to the same numbers."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from bot.core.authority import Authority
from bot.core.events import Usage
from bot.core.outcomes import OUTCOMES
from bot.core.tool import ToolError
from bot.engine.ports import ModelFailure
from bot.engine.worker import Worker
from bot.lab.clock import LabClock
from bot.lab.twins import Says
from bot.telemetry.metrics import RECENT, Distribution, Metrics
from tests.builders import GET_TICKET, ISSUE_CREDIT, make_tool
from tests.telemetry.scrape import Scraped, scraped
from tests.telemetry.traced import Traced

ORDER = ("get_order", {"order_id": "4921"})
TICKET = ("get_ticket", {"order_id": "4921"})
CREDIT = ("issue_credit", {"order_id": "4921", "amount_cents": 900})
BROKEN = ("get_broken", {"order_id": "4921"})


def _fails(*_: Any) -> Any:
    raise ToolError("closed", retryable=True)


TOOLS = [GET_TICKET, ISSUE_CREDIT, make_tool("get_broken", Authority.OBSERVE, answer=_fails)]
SLOW_S = 40.0


def _page(traced: Traced, approvals: int | None = None) -> Scraped:
    return scraped(traced.tracer.measures.text(approvals_waiting=approvals))


async def _three_runs() -> Traced:
    """One approved after a wait of ten minutes, one with a slow tool that repeats itself, one whose model is away."""
    cached = Usage(input_tokens=100, cache_read_tokens=800, cache_write_tokens=100, output_tokens=50, calls=1)
    turns: list[Any] = [
        Says(calls=[TICKET, BROKEN, CREDIT], usage=cached, cost_usd=0.02),
        Says("Done.", usage=cached, cost_usd=0.03),
        Says(calls=[ORDER, ("no_such_tool", {})]),
        Says(calls=[ORDER]),
        Says("It is 900."),
        ModelFailure("no", kind="away"),
    ]
    clock = LabClock()
    slow = make_tool("get_order", Authority.OBSERVE, answer=lambda *_: clock.advance(SLOW_S) or {"total_cents": 1})
    traced = Traced(turns, tools=[*TOOLS, slow], clock=clock)
    world = traced.world
    await world.says("What do we owe?", ts="1.0")
    await world.settle()
    world.clock.advance(600)
    await world.clicks_on("approve")
    await world.settle()
    for ts in ("2.0", "3.0"):
        world.clock.advance(5)
        await world.says("And now?", ts=ts)
        await world.settle()
    return traced


def _payloads(lines: list[dict[str, Any]], kind: str, run: str | None = None) -> list[dict[str, Any]]:
    return [one["payload"] for one in lines if one["type"] == kind and run in (None, one["run"])]


async def test_counters_are_what_the_exported_log_says() -> None:
    """Outcomes, verdicts, tools, tokens, approvals: each recomputed from the lines."""
    traced = await _three_runs()
    lines, page = traced.export, _page(traced)

    results = _payloads(lines, "ToolReturned")
    tool_of = {one["call_id"]: one["tool"] for one in _payloads(lines, "ToolRequested")}
    usages = [one["usage"] for one in _payloads(lines, "ModelReplied")]
    repeated = [one for one in results if not one["ran"] and one["content"].get("refused") == "repetition"]
    assert page.value("plimsoll_runs_started_total") == len(_payloads(lines, "RunStarted")) == 3
    assert page.by("plimsoll_runs_finished_total", "stop_reason") == Counter(
        one["stop_reason"] for one in _payloads(lines, "RunFinished")
    )
    assert page.by("plimsoll_gate_verdicts_total", "verdict") == Counter(
        one["verdict"] for one in _payloads(lines, "GateDecided")
    )
    assert page.by("plimsoll_tool_results_total", "tool") == Counter(
        tool_of[one["call_id"]] for one in results if one["ran"]
    )
    assert page.by("plimsoll_tool_failures_total", "tool") == {"get_broken": 1.0}
    assert page.value("plimsoll_calls_repeated_total") == len(repeated) == 1
    assert page.by("plimsoll_tokens_total", "kind") == {
        kind: sum(one[f"{kind}_tokens"] for one in usages) for kind in ("input", "cache_read", "cache_write", "output")
    }
    assert page.value("plimsoll_approvals_asked_total") == len(_payloads(lines, "ApprovalRequested")) == 1
    assert page.by("plimsoll_approvals_decided_total", "decision") == {"approved": 1.0}


async def test_a_barren_turn_is_one_whose_results_brought_nothing() -> None:
    """Counted from the results of each reply: no new fact, and nothing that was changed."""
    traced = await _three_runs()

    barren, facts = 0, None
    writes = {one["call_id"] for one in _payloads(traced.export, "ToolRequested") if one["authority"] == "critical"}
    for line in traced.export:
        payload = line["payload"]
        if line["type"] == "ToolReturned":
            changed = payload["call_id"] in writes and payload["ok"] and payload["ran"]
            facts = (facts or 0) + payload["facts_added"] + changed
        elif line["type"] in ("ModelRequested", "RunFinished"):
            barren += facts == 0
            facts = None
    assert _page(traced).value("plimsoll_turns_barren_total") == barren == 1


async def test_distributions_of_runs_are_what_the_exported_log_says() -> None:
    """Money, turns, tokens, cache share and active seconds of each finished run."""
    traced = await _three_runs()
    lines, page = traced.export, _page(traced)
    ended = [(one["run"], one["payload"]) for one in lines if one["type"] == "RunFinished"]

    usages = [payload["usage"] for _, payload in ended]
    tokens = [sum(value for name, value in one.items() if name != "calls") for one in usages]
    read = [total - one["output_tokens"] for total, one in zip(tokens, usages, strict=True)]
    expected = {
        "cost_usd": [payload["cost_usd"] for _, payload in ended],
        "tokens": tokens,
        "turns": [max(one["turn"] for one in _payloads(lines, "ModelRequested", run)) for run, _ in ended],
        "cache_share": [one["cache_read_tokens"] / sent for one, sent in zip(usages, read, strict=True) if sent],
        "active_seconds": [_active_s([one for one in lines if one["run"] == run]) for run, _ in ended],
    }
    for name, values in expected.items():
        family = f"plimsoll_run_{name}"
        assert page.value(f"{family}_count") == len(values), name
        assert page.value(f"{family}_sum") == pytest.approx(sum(values), abs=1e-3), name
        assert page.value(f"{family}_recent", quantile="0.5") == pytest.approx(_ranked(values, 0.5), abs=1e-3), name
        assert page.value(f"{family}_recent", quantile="0.99") == pytest.approx(max(values), abs=1e-3), name
    assert max(expected["cache_share"]) == 0.8 and sorted(expected["active_seconds"]) == pytest.approx(
        [0, 0, SLOW_S], abs=1e-3
    )


def _active_s(lines: list[dict[str, Any]]) -> float:
    """From first to last entry, without what lies between the question to a person and its answer."""
    at = {one["type"]: datetime.fromisoformat(one["at"]) for one in lines}
    waited = (at["ApprovalDecided"] - at["ApprovalRequested"]).total_seconds() if "ApprovalRequested" in at else 0.0
    return (at["RunFinished"] - datetime.fromisoformat(lines[0]["at"])).total_seconds() - waited


def _ranked(values: list[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


async def test_model_failures_and_notes_are_counted_by_kind() -> None:
    """The log has the ending; the note has the kind."""
    page = _page(await _three_runs())

    assert page.by("plimsoll_model_failures_total", "kind") == {"away": 1.0}
    assert page.by("plimsoll_notes_total", "event") == {"run.finished": 3.0, "model.failed": 1.0}


async def test_a_run_is_live_while_a_worker_has_it_and_not_while_people_decide() -> None:
    """Seen from within a tool, and after the lease."""
    seen: list[float] = []
    traced: Traced

    def looks(*_: Any) -> Any:
        seen.append(_page(traced).value("plimsoll_runs_live"))
        return {"total_cents": 1}

    tools = [make_tool("get_order", Authority.OBSERVE, answer=looks), GET_TICKET, ISSUE_CREDIT]
    traced = Traced([Says(calls=[ORDER, TICKET, CREDIT]), Says(calls=[ORDER]), Says("Done.")], tools=tools)
    await traced.world.says("Do it")
    await traced.world.settle()
    parked = _page(traced).value("plimsoll_runs_live")
    await traced.world.clicks_on("approve")
    await traced.world.settle()

    assert (seen, parked, _page(traced).value("plimsoll_runs_live")) == ([1.0, 1.0], 0.0, 0.0)


async def test_what_was_not_committed_is_not_counted() -> None:
    """A write that the store refused did not happen."""
    traced = Traced([Says("Nothing.")])
    await traced.world.says("What do we owe?")
    held = await traced.world.store.lease.next_ready("w1", wait_s=0, lease_s=15)
    assert held is not None
    traced.world.store.memory.actors[traced.world.thread].epoch += 1  # another worker took it over
    await Worker(traced.world.desk, "w1").handle(held)

    assert traced.world.log == []
    assert _page(traced).value("plimsoll_runs_started_total") == 0


async def test_every_ending_is_there_before_it_happens() -> None:
    """A rate over a counter that springs into being would miss its first event."""
    page = scraped(Traced([Says("x")]).tracer.measures.text(approvals_waiting=0))

    for outcome, reasons in OUTCOMES.items():
        for reason in reasons:
            assert page.value("plimsoll_runs_finished_total", outcome=outcome, stop_reason=reason) == 0
    assert page.value("plimsoll_approvals_waiting") == 0


async def test_a_gauge_that_nobody_knows_is_left_out() -> None:
    """0 would say that nobody waits."""
    page = scraped(Traced([Says("x")]).tracer.measures.text(approvals_waiting=None))

    assert "plimsoll_approvals_waiting" not in page.types


@pytest.mark.parametrize("size", [1, 2, 3, 99, 100, 101, 1000])
def test_quantiles_are_those_of_the_sorted_list(size: int) -> None:
    """The smallest value that at least that share of all values does not pass."""
    values = [random.Random(size).lognormvariate(0, 2) for _ in range(size)]
    spread = Distribution((0.1, 1, 10))
    for value in values:
        spread.add(value)

    for share, found in spread.quantiles().items():
        within = sum(value <= found for value in values)
        below = sum(value < found for value in values)
        assert within >= share * size > below


def test_buckets_hold_every_value_at_or_below_their_bound() -> None:
    """Cumulative, the open one last; only the newest values make the quantiles."""
    spread = Distribution((1, 2))
    for value in [*(0.5, 1.0, 1.5, 2.0, 7.0), *([2.0] * RECENT)]:
        spread.add(value)

    assert list(spread.cumulative()) == [("1", 2), ("2", 4 + RECENT), ("+Inf", 5 + RECENT)]
    assert set(spread.quantiles().values()) == {2.0}


def test_a_label_cannot_break_the_page() -> None:
    """Quotes, backslashes and line ends are written as the format wants them."""
    metrics = Metrics()
    metrics.counter("plimsoll_x_total", "Of a test.")
    metrics.count("plimsoll_x_total", event='a"b\\c\nd')

    assert 'plimsoll_x_total{event="a\\"b\\\\c\\nd"} 1' in metrics.text({}).splitlines()
