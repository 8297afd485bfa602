"""What `/metrics` counts: committed events, so that it cannot disagree with the log; notes for what no log holds.

Counters begin at 0 with each process, as Prometheus expects. What is counted is what this process wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from bot.core import events as e
from bot.core.outcomes import OUTCOMES
from bot.core.state import Run, Session
from bot.core.words import ThreadId
from bot.engine.ports import Step
from bot.telemetry.metrics import Metrics

USD = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 5.0, 10.0)
SECONDS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 600.0, 1800.0)
TURNS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 64)
TOKENS = (1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 5e4, 7.5e4, 1e5, 1.5e5, 2e5, 3e5, 4e5, 8e5)
SHARE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
"""Bounds follow the caps of DESIGN section 5: finest where a limit is near."""
BY_KIND = {"model.retry": "plimsoll_model_retries_total", "model.failed": "plimsoll_model_failures_total"}
"""Notes whose `kind` is counted: the log holds replies, not the attempts before them."""


def _described() -> Metrics:
    metrics = Metrics()
    endings = [{"outcome": outcome, "stop_reason": why} for outcome, reasons in OUTCOMES.items() for why in reasons]
    verdicts = [{"verdict": word} for word in get_args(e.GateDecided.model_fields["verdict"].annotation)]
    decisions = [{"decision": word} for word in get_args(e.ApprovalDecided.model_fields["decision"].annotation)]
    kinds = [{"kind": kind} for kind in ("input", "cache_read", "cache_write", "output")]
    metrics.counter("plimsoll_runs_started_total", "Runs that began.", [{}])
    metrics.counter("plimsoll_runs_finished_total", "Runs by how they ended.", endings)
    metrics.counter("plimsoll_turns_barren_total", "Turns whose results added no new fact.", [{}])
    metrics.counter("plimsoll_calls_repeated_total", "Calls refused because nothing had changed since.", [{}])
    metrics.counter("plimsoll_gate_verdicts_total", "The gate's words on calls.", verdicts)
    metrics.counter("plimsoll_tool_results_total", "Results of calls that ran, by tool.")
    metrics.counter("plimsoll_tool_failures_total", "Calls that ran and failed, by tool.")
    metrics.counter("plimsoll_effects_unknown_total", "Calls of which nobody knows whether they took effect.", [{}])
    metrics.counter("plimsoll_approvals_asked_total", "Questions put to approvers.", [{}])
    metrics.counter("plimsoll_approvals_decided_total", "Questions closed by a person or by time.", decisions)
    metrics.counter("plimsoll_model_replies_total", "Complete replies of the model, by role.", [{"role": "agent"}])
    metrics.counter(
        "plimsoll_tokens_total", "Tokens of complete replies; the share of cache_read is the cache's.", kinds
    )
    metrics.counter(BY_KIND["model.retry"], "Attempts at a model call that were made again, by what failed.")
    metrics.counter(BY_KIND["model.failed"], "Model calls that were given up, by what failed.")
    metrics.counter("plimsoll_notes_total", "Lines noted for operators, by event.")
    metrics.distribution("plimsoll_run_cost_usd", "US dollars of a finished run.", USD)
    metrics.distribution("plimsoll_run_active_seconds", "Seconds a finished run was active, waiting left out.", SECONDS)
    metrics.distribution("plimsoll_run_turns", "Turns of a finished run.", TURNS)
    metrics.distribution("plimsoll_run_tokens", "Tokens in and out of a finished run.", TOKENS)
    metrics.distribution("plimsoll_run_cache_share", "Share of a finished run's input read from cache.", SHARE)
    return metrics


class Measures:
    """Fed by the writer after each commit."""

    def __init__(self) -> None:
        self.metrics = _described()
        self._live: dict[ThreadId, str] = {}

    def taken(self, session: Session) -> None:
        """A lease began; its run, if one is under way, is live here."""
        if session.run is not None:
            self._live[session.thread] = session.run.id

    def given_back(self, thread: ThreadId) -> None:
        """A parked run holds no worker."""
        self._live.pop(thread, None)

    def seen(self, step: Step) -> None:
        """One committed event."""
        count, event = self.metrics.count, step.event
        match event:
            case e.RunStarted():
                self._live[step.after.thread] = event.run_id
                count("plimsoll_runs_started_total")
            case e.RunFinished():
                self._live.pop(step.after.thread, None)
                self._finished(step, event)
            case e.ModelReplied():
                self._replied(event)
            case e.GateDecided():
                count("plimsoll_gate_verdicts_total", verdict=event.verdict)
            case e.ToolReturned():
                self._returned(step, event)
            case e.EffectUnknown():
                count("plimsoll_effects_unknown_total")
            case e.ApprovalRequested():
                count("plimsoll_approvals_asked_total")
            case e.ApprovalDecided():
                count("plimsoll_approvals_decided_total", decision=event.decision)
            case _:
                return

    def noted(self, event: str, fields: Mapping[str, Any]) -> None:
        """One line for operators."""
        self.metrics.count("plimsoll_notes_total", event=event)
        if event in BY_KIND:
            self.metrics.count(BY_KIND[event], kind=str(fields.get("kind", "unknown")))

    def text(self, *, approvals_waiting: int | None) -> str:
        """For a scraper. `approvals_waiting` is the store's word; `None`: it did not say."""
        gauges = {"plimsoll_runs_live": ("Runs that this process is working on; parked ones are not.", len(self._live))}
        if approvals_waiting is not None:
            what = "Open approvals in the store: the same from every process, so take the maximum, not the sum."
            gauges["plimsoll_approvals_waiting"] = (what, approvals_waiting)
        return self.metrics.text(gauges)

    def _replied(self, event: e.ModelReplied) -> None:
        count, usage = self.metrics.count, event.usage
        count("plimsoll_model_replies_total", role=event.role)
        count("plimsoll_tokens_total", usage.input_tokens, kind="input")
        count("plimsoll_tokens_total", usage.cache_read_tokens, kind="cache_read")
        count("plimsoll_tokens_total", usage.cache_write_tokens, kind="cache_write")
        count("plimsoll_tokens_total", usage.output_tokens, kind="output")

    def _returned(self, step: Step, event: e.ToolReturned) -> None:
        before, after = step.before.run, step.after.run
        call = before.call(event.call_id) if before else None
        if event.ran and call is not None:
            # Only a tool that exists can run: the model's inventions never become a label.
            self.metrics.count("plimsoll_tool_results_total", tool=call.tool)
            if not event.ok:
                self.metrics.count("plimsoll_tool_failures_total", tool=call.tool)
        elif isinstance(event.content, dict) and event.content.get("refused") == "repetition":
            self.metrics.count("plimsoll_calls_repeated_total")
        if before and after and after.barren > before.barren:
            self.metrics.count("plimsoll_turns_barren_total")

    def _finished(self, step: Step, event: e.RunFinished) -> None:
        add, usage, run = self.metrics.add, event.usage, step.before.run
        self.metrics.count("plimsoll_runs_finished_total", outcome=event.outcome, stop_reason=event.stop_reason)
        add("plimsoll_run_cost_usd", event.cost_usd)
        add("plimsoll_run_tokens", usage.total)
        if read := usage.total - usage.output_tokens:
            add("plimsoll_run_cache_share", usage.cache_read_tokens / read)
        if run is not None:
            add("plimsoll_run_turns", run.turns)
            add("plimsoll_run_active_seconds", _active_s(run, step))


def _active_s(run: Run, step: Step) -> float:
    """Up to this event: the session's own count stands at the one before."""
    if step.before.last_at is None or step.after.last_at is None:
        return run.active_s
    return run.active_s + max(0.0, (step.after.last_at - step.before.last_at).total_seconds())
