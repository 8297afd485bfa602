"""The benchmark itself: both sides do the work that the table says they do."""

from __future__ import annotations

import pytest

from tests.bench.cpu import growth, per_session
from tests.bench.table import Bar
from tests.bench.wire import Plan

pytestmark = pytest.mark.wire


async def test_both_sides_finish_the_same_sessions_and_cost_something() -> None:
    """`per_session` itself counts at the server that each made every call and no other."""
    found = await per_session(Plan(3), sessions=1, blocks=1)

    assert 0 < found.floor < 1
    assert 0 < found.ours < 1


def test_growth_is_the_slope_over_half_the_turns() -> None:
    """A cost that was made of a fixed part and a part for each turn held comes apart into the two."""
    fixed, slope = growth([(turns, 1.5 + 0.04 * turns / 2) for turns in (10, 25, 50, 100)])

    assert fixed == pytest.approx(1.5)
    assert slope == pytest.approx(0.04)


def test_a_bar_is_met_up_to_itself_and_missed_by_what_is_above() -> None:
    """Nothing is rounded in our favour."""
    assert Bar(0.9, " x").over(0.9) == ""
    assert Bar(0.9, " x").over(1.0) == "0.10 x"
