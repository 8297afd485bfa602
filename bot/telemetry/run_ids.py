"""Trace ids that follow from the run. Imports the SDK: only `export.py` and tests import this.

A parent that never existed would give the same trace id, and then every viewer would miss the root span and
every sampler that obeys its parent would obey one that nobody asked.
"""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from bot.telemetry.spans import NEXT_TRACE


class RunIds(RandomIdGenerator):
    """A run's trace has the run's id; as uniformly spread as random ones, for samplers that count on it."""

    def generate_trace_id(self) -> int:
        """The one asked for, else a random one."""
        return NEXT_TRACE.get() or super().generate_trace_id()
