"""One JSON line on standard error for what an operator should know; never a secret or a message's text."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import structlog
from opentelemetry.trace import TracerProvider

from bot.core.state import Session
from bot.engine.ports import Step
from bot.telemetry.measures import Measures
from bot.telemetry.spans import Handle, Spans


class Notes:
    """The Tracer port: spans through OpenTelemetry's API (nothing without an SDK), notes as JSON lines."""

    def __init__(self, *, stream: Any = None, provider: TracerProvider | None = None) -> None:
        """`provider`: where spans go; without one to a global one, and without that nowhere."""
        self._log = structlog.wrap_logger(
            structlog.PrintLogger(stream or sys.stderr),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(default=str),
            ],
        )
        self._spans = Spans(provider, self._guard)
        self.measures = Measures()
        """What `/metrics` shows."""

    @contextlib.contextmanager
    def lease(self, session: Session) -> Iterator[None]:
        """A lease of that thread."""
        self.measures.taken(session)
        try:
            with self._spans.lease(session):
                yield
        finally:
            self.measures.given_back(session.thread)

    def span(self, name: str, **attributes: Any) -> AbstractContextManager[Handle]:
        """A span named as the GenAI conventions say."""
        return self._spans.span(name, attributes)

    def seen(self, steps: Sequence[Step]) -> None:
        """What was committed moves spans and metrics."""
        for step in steps:
            with self._guard():
                self.measures.seen(step)
            self._spans.seen(step)

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except Exception as fault:  # noqa: BLE001  telemetry that breaks must not end anybody's run
            self.fault("telemetry.fault", fault)

    def note(self, event: str, **fields: Any) -> None:
        """One line; within a traced run it names the trace."""
        self.measures.noted(event, fields)
        self._log.info(event, **fields, **self._trace())

    def fault(self, event: str, error: BaseException, **fields: Any) -> None:
        """A bug of ours, with its stack."""
        self.measures.noted(event, fields)
        stack = "".join(traceback.format_exception(error))
        self._log.error(event, error=repr(error), stack=stack, **fields, **self._trace())

    def _trace(self) -> dict[str, str]:
        return {"trace": self._spans.trace} if self._spans.trace else {}


def quiet_libraries() -> None:
    """Libraries that log for themselves speak only of errors; what matters is noted by us."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    for name in ("slack_bolt", "slack_sdk", "aiohttp", "httpx2"):
        logging.getLogger(name).setLevel(logging.ERROR)
