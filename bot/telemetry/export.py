"""Where spans go: OTLP, when the environment names a collector. The SDK is imported only then (extra `telemetry`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib.metadata import version

from opentelemetry.trace import TracerProvider

from bot.core.errors import Misconfigured

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
FLUSH_S = 3.0
"""How long the end of the process waits for the last spans; a dead collector must not hold it."""

Exporting = tuple[TracerProvider | None, Callable[[], None]]
"""A provider, and what sends the rest and ends it (blocking, at most `FLUSH_S`)."""


def exporting(env: Mapping[str, str]) -> Exporting:
    """From the environment as OpenTelemetry names it. Raises `Misconfigured` when the extra is not installed."""
    asked = next((name for name in ENDPOINTS if env.get(name)), None)
    if asked is None:
        return None, lambda: None
    try:
        return _provider(env)
    except ImportError as error:
        raise Misconfigured(
            f"{asked} is set, and {error.name or 'the SDK'} is not installed; "
            "install plimsoll with its extra `telemetry`, or unset it"
        ) from None


def _provider(env: Mapping[str, str]) -> Exporting:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  0.4 s
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  as above
    from opentelemetry.sdk.trace import TracerProvider as Provider  # noqa: PLC0415  as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  as above

    from bot.telemetry.run_ids import RunIds  # noqa: PLC0415  as above

    named = "OTEL_SERVICE_NAME" in env or "service.name=" in env.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create(
        {"service.version": version("plimsoll")} | ({} if named else {"service.name": "plimsoll"})
    )
    # Never made global: libraries that trace themselves would add spans with contents that we do not choose.
    provider = Provider(resource=resource, id_generator=RunIds(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    def end() -> None:
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(FLUSH_S)

    return provider, end
