"""What a reply costs."""

from __future__ import annotations

import pytest

from bot.claude.prices import cost, usage_of, worst
from bot.core.events import Usage
from tests.claude.asked import MODEL


def test_money_is_what_the_price_list_says_and_an_unknown_model_has_no_price() -> None:
    """Dollars for a million tokens (model.md section 2.4)."""
    million = 1_000_000
    assert cost(MODEL, {"input_tokens": million}) == pytest.approx(2.0)
    assert cost(MODEL, {"output_tokens": million}) == pytest.approx(10.0)
    assert cost(MODEL, {"cache_read_input_tokens": million}) == pytest.approx(0.10)
    assert cost(MODEL, {"cache_creation_input_tokens": million}) == pytest.approx(2.5)
    long = {"cache_creation_input_tokens": million, "cache_creation": {"ephemeral_1h_input_tokens": million}}
    assert cost(MODEL, long) == pytest.approx(4.0)
    assert worst(MODEL, Usage(cache_write_tokens=million)) == pytest.approx(4.0)
    assert cost("claude-haiku-5-5", {"input_tokens": 100_000}) == pytest.approx(0.01)
    assert cost("claude-haiku-5-5", {"input_tokens": 200_000}) == pytest.approx(0.10)
    assert worst("gpt-oracle", Usage(input_tokens=1)) is None
    assert usage_of({"output_tokens": None, "input_tokens": 3}) == Usage(input_tokens=3, calls=1)
