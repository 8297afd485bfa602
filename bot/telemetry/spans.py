"""Traces: `invoke_agent plimsoll` > `turn` > `chat MODEL` and `execute_tool NAME`.

1. Runs and turns open and close with the events that were committed; a span around code is only put round
   what is slow. So the tree is one of the log, whatever order the engine does things in.
2. A run that parks and goes on elsewhere is one trace: its id is a digest of the run's id, so every worker
   that holds the run computes the same one, with nothing stored and no parent that may have died.
3. No exception's message enters a span, only its kind: messages quote what people wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider

from bot.core import events as e
from bot.core.state import Session
from bot.engine.ports import Step
from bot.telemetry.conventions import AGENT, ERROR, named, operation

NEXT_TRACE: ContextVar[int] = ContextVar("plimsoll_next_trace", default=0)
"""The id that the trace which is begun now shall have; 0: any (see `export.RunIds`)."""
_SAYS_NOTHING_OF_A_RUN = (e.Posted, e.MessageIgnored, e.ApprovalAttempted, e.FeedbackGiven, e.PayloadErased)
_OF_A_TURN = (e.ModelRequested, e.ToolRequested, e.GateDecided, e.ToolStarted, e.ToolReturned)


def trace_of(run_id: str) -> int:
    """The trace id of a run, the same in every process."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:16], "big") or 1


class Handle:
    """The Span port on one OpenTelemetry span."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._failed = False

    def set(self, **attributes: Any) -> None:
        """By our nouns."""
        if self._span.is_recording():
            self._span.set_attributes(named(attributes))

    def failed(self, error_type: str) -> None:
        """By kind; the first word stays."""
        if self._span.is_recording() and not self._failed:
            self._failed = True
            self._span.set_attribute(ERROR, error_type)
            self._span.set_status(StatusCode.ERROR)


@dataclass
class _Lease:
    """What is known of the lease that this task works under."""

    session: Session
    seq: int
    run: Span | None = None
    run_id: str = ""
    turn: Span | None = None
    number: int = 0
    trace: str = ""


_LEASE: ContextVar[_Lease | None] = ContextVar("plimsoll_lease", default=None)


class Spans:
    """All spans of one process; without a provider (ours or a global one) they are nothing."""

    def __init__(self, provider: TracerProvider | None, guard: Callable[[], AbstractContextManager[None]]) -> None:
        """`guard`: round whatever a provider may do wrong; it notes an exception and ends it."""
        self._guard = guard
        self._tracer = trace.get_tracer("plimsoll", tracer_provider=provider)

    @property
    def trace(self) -> str:
        """Id of the trace of the newest run under this lease, 32 hex digits; empty where none is recorded."""
        lease = _LEASE.get()
        return lease.trace if lease else ""

    @contextlib.contextmanager
    def lease(self, session: Session) -> Iterator[None]:
        """Nothing is opened before something happens to a run: most leases only note a delivery."""
        lease = _Lease(session, session.entries)
        token, outside = _LEASE.set(lease), otel.attach(otel.Context())
        try:
            yield
        except BaseException as error:
            if lease.run is not None:
                Handle(lease.run).failed(_kind(error))
            raise
        finally:
            with self._guard():
                _end_run(lease, outcome="waiting" if lease.session.run and lease.session.run.waiting else None)
            otel.detach(outside)
            _LEASE.reset(token)

    @contextlib.contextmanager
    def span(self, name: str, nouns: dict[str, Any]) -> Iterator[Handle]:
        """A child of the span that is open around it, else of the turn."""
        span: Span = trace.INVALID_SPAN
        with self._guard():
            span = self._step(name, nouns)
        handle = Handle(span)
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield handle
            except BaseException as error:
                handle.failed(_kind(error))
                raise
            finally:
                with self._guard():
                    span.end()

    def seen(self, step: Step) -> None:
        """Open and close runs and turns by what was committed."""
        if (lease := _LEASE.get()) is not None:
            with self._guard():
                self._follow(lease, step)

    def _follow(self, lease: _Lease, step: Step) -> None:
        lease.session, lease.seq = step.after, step.seq
        run, event = step.after.run or step.before.run, step.event
        if run is None or isinstance(event, _SAYS_NOTHING_OF_A_RUN):
            return
        self._open_run(lease, run.id)
        if isinstance(event, _OF_A_TURN) and run.turns:
            self._open_turn(lease, run.turns)
        if isinstance(event, e.GateDecided) and lease.turn is not None:
            call = run.call(event.call_id)
            told = {"call": event.call_id, "verdict": event.verdict, "ceiling": event.ceiling}
            lease.turn.add_event("gate", named(told | {"authority": call.authority.word if call else None}))
        if isinstance(event, e.RunFinished):
            _finished(lease, step, event)

    def _step(self, name: str, nouns: dict[str, Any]) -> Span:
        lease, around = _LEASE.get(), None
        if lease is not None:
            if not trace.get_current_span().get_span_context().is_valid:
                around = self._place(lease)
            nouns = _where(lease) | nouns
        kind = SpanKind.CLIENT if name.startswith("chat") else SpanKind.INTERNAL
        return self._tracer.start_span(name, around, kind, operation(name) | named(nouns))

    def _place(self, lease: _Lease) -> otel.Context | None:
        run = lease.session.run
        if run is None:
            return None
        self._open_run(lease, run.id)
        if run.turns:
            self._open_turn(lease, run.turns)
        return trace.set_span_in_context(lease.turn or lease.run or trace.INVALID_SPAN)

    def _open_run(self, lease: _Lease, run_id: str) -> None:
        if lease.run is not None and lease.run_id == run_id:
            return
        _end_run(lease)
        token = NEXT_TRACE.set(trace_of(run_id))
        try:
            lease.run_id = run_id
            lease.run = self._open(f"invoke_agent {AGENT}", otel.Context(), lease)
        finally:
            NEXT_TRACE.reset(token)
        found = lease.run.get_span_context()
        lease.trace = trace.format_trace_id(found.trace_id) if found.is_valid else ""

    def _open_turn(self, lease: _Lease, number: int) -> None:
        if lease.turn is not None and lease.number == number:
            return
        _end_turn(lease)
        assert lease.run is not None
        lease.number = number
        lease.turn = self._open("turn", trace.set_span_in_context(lease.run), lease)

    def _open(self, name: str, around: otel.Context, lease: _Lease) -> Span:
        return self._tracer.start_span(name, around, attributes=operation(name) | named(_where(lease)))


def _where(lease: _Lease) -> dict[str, Any]:
    """Thread, run, turn and the newest entry of the log: on every span."""
    run = lease.run_id or (lease.session.run.id if lease.session.run else None)
    return {"thread": str(lease.session.thread), "run": run, "turn": lease.number or None, "seq": lease.seq}


def _finished(lease: _Lease, step: Step, event: e.RunFinished) -> None:
    assert lease.run is not None and step.before.run is not None
    root = Handle(lease.run)
    if event.outcome == "failed":
        root.failed(event.stop_reason)
    root.set(
        stop_reason=event.stop_reason,
        reference=event.reference,
        usage=event.usage,
        cost_usd=event.cost_usd,
        turns=step.before.run.turns,
    )
    _end_run(lease, outcome=event.outcome)


def _end_run(lease: _Lease, *, outcome: str | None = None) -> None:
    _end_turn(lease)
    run, lease.run, lease.run_id, lease.number = lease.run, None, "", 0
    if run is not None:
        Handle(run).set(seq=lease.seq, trust=lease.session.trust.word, outcome=outcome)
        run.end()


def _end_turn(lease: _Lease) -> None:
    turn, lease.turn = lease.turn, None
    if turn is not None:
        Handle(turn).set(trust=lease.session.trust.word)
        turn.end()


def _kind(error: BaseException) -> str:
    """A model's failure says its kind; any other exception is its class."""
    return str(getattr(error, "kind", "") or type(error).__name__)
