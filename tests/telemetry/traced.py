"""A world whose engine is really traced: the SDK with an exporter in memory, and the metrics beside it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bot.telemetry.notes import Notes
from bot.telemetry.run_ids import RunIds
from tests.world import World


class Traced:
    """A `World` under the tracer of the product."""

    def __init__(self, turns: Sequence[Any], **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(id_generator=RunIds())
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.lines = io.StringIO()
        self.tracer = Notes(stream=self.lines, provider=provider)
        self.world = World(turns, **options)
        self.world.desk = replace(self.world.desk, tracer=self.tracer)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Ended ones, in the order they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda one: one.start_time or 0)

    def named(self, start: str) -> list[ReadableSpan]:
        """Those whose names begin so."""
        return [one for one in self.spans if one.name.startswith(start)]

    def tree(self) -> list[str]:
        """Names in order, a blank for each level."""
        parents = {one.context.span_id: one.parent.span_id if one.parent else None for one in self.spans}

        def depth(at: int | None) -> int:
            return -1 if at is None else 1 + depth(parents[at])

        return [" " * depth(one.context.span_id) + one.name for one in self.spans]

    @property
    def notes(self) -> list[dict[str, Any]]:
        """Lines for operators."""
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]

    @property
    def export(self) -> list[dict[str, Any]]:
        """The log as an auditor gets it: lines of JSON, read back."""
        return [json.loads(json.dumps(entry.dump())) for entry in self.world.log]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """As exported."""
    return dict(span.attributes or {})


async def answered(turns: list[Any], **options: Any) -> Traced:
    """One question, until nothing moves."""
    traced = Traced(turns, **options)
    await traced.world.says("What do we owe?")
    await traced.world.settle()
    return traced
