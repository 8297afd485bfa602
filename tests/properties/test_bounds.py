"""Never over a bound: random scripted runs, and an oracle that reads only the raw log and the service's own books."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.properties.bounds_oracle import check
from tests.properties.sea import Sea
from tests.properties.tape import TAPES

QUICK = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
WHOLE = settings(
    max_examples=10_000,
    deadline=None,
    # Not `explain`: it plays a failing run again for minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)


def _kept(tape: bytes, *, storm: bool = False) -> None:
    with asyncio.Runner() as runner:
        check(runner.run(Sea(tape, storm=storm).play()))


@QUICK
@given(TAPES)
def test_no_run_passes_a_bound(tape: bytes) -> None:
    """Tokens, money, turns and time, whatever the model, the tools, the network and people do."""
    _kept(tape)


@QUICK
@given(TAPES)
def test_no_run_passes_a_bound_while_half_of_its_attempts_are_lost(tape: bytes) -> None:
    """Each one charged in full, whether that is said or not, some of them answered by another model."""
    _kept(tape, storm=True)


@pytest.mark.wire
@WHOLE
@given(TAPES)
def test_ten_thousand_runs_pass_no_bound(tape: bytes) -> None:
    """The same in earnest: minutes, so it is no part of `make check`."""
    _kept(tape)
