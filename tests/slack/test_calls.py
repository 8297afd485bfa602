"""What Slack's answers mean to us."""

from __future__ import annotations

import pytest

from bot.slack.calls import _seconds


@pytest.mark.parametrize(("said", "waited"), [("2", 2), ("-1", 0), ("nan", 1), ("soon", 1), (None, 1), ("inf", 3600)])
def test_whatever_stands_in_retry_after_is_a_time_to_wait(said: str | None, waited: float) -> None:
    """Bounded, and never less than nothing."""
    assert _seconds(said) == waited
