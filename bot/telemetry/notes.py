"""One JSON line on standard error for what an operator should know; never a secret or a message's text."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import structlog
from opentelemetry import trace


class Notes:
    """The Tracer port: spans through OpenTelemetry's API (nothing without an SDK), notes as JSON lines."""

    def __init__(self, *, stream: Any = None) -> None:
        self._log = structlog.wrap_logger(
            structlog.PrintLogger(stream or sys.stderr),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(default=str),
            ],
        )
        self._tracer = trace.get_tracer("plimsoll")
        self.counts: Counter[str] = Counter()
        """How often each note was made; `/metrics` shows them."""

    def span(self, name: str, **attributes: Any) -> AbstractContextManager[None]:
        """A span named as the GenAI conventions say."""
        return self._span(name, attributes)

    @contextlib.contextmanager
    def _span(self, name: str, attributes: dict[str, Any]) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name, attributes={key: str(value) for key, value in attributes.items()}
        ):
            yield

    def note(self, event: str, **fields: Any) -> None:
        """One line."""
        self.counts[event] += 1
        self._log.info(event, **fields)

    def fault(self, event: str, error: BaseException, **fields: Any) -> None:
        """A bug of ours, with its stack."""
        self.counts[event] += 1
        self._log.error(event, error=repr(error), stack="".join(traceback.format_exception(error)), **fields)


def quiet_libraries() -> None:
    """Libraries that log for themselves speak only of errors; what matters is noted by us."""
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    for name in ("slack_bolt", "slack_sdk", "aiohttp", "httpx2"):
        logging.getLogger(name).setLevel(logging.ERROR)
