"""Where spans go: to a collector that the environment names, and without one nothing is even imported."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured
from bot.telemetry.export import FLUSH_S, exporting

ROOT = Path(__file__).parent.parent.parent
NOWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def test_without_a_collector_no_sdk_is_imported() -> None:
    """Nor with an empty address, as a compose file leaves it; redis-py brings the SDK's metrics where it finds them."""
    code = (
        "import sys; import bot.telemetry.notes; from bot.telemetry.export import exporting; "
        "exporting({}); exporting({'OTEL_EXPORTER_OTLP_ENDPOINT': ''}); "
        "ours = [name for name in sys.modules if name.startswith('opentelemetry.sdk')]; import bot.app.serve; "
        "heavy = ('opentelemetry.sdk.trace', 'opentelemetry.exporter'); "
        "print(ours + [name for name in sys.modules if name.startswith(heavy)])"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)

    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_a_collector_without_the_extra_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It names the variable and the extra; silently tracing nothing would be found out too late."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    with pytest.raises(Misconfigured, match=rf"^{name} is set, .* extra `telemetry`"):
        exporting({name: "http://127.0.0.1:4318"})


def test_a_dead_collector_does_not_hold_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last spans are lost; the process is not."""
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    provider, end = exporting(NOWHERE)
    assert provider is not None
    provider.get_tracer("test").start_span("one").end()

    began = time.monotonic()
    end()

    assert time.monotonic() - began < FLUSH_S + 1.0
