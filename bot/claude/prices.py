"""What a call costs, in US dollars; a model without a price costs `None`, and callers fail closed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from genai_prices import Usage as Counted
from genai_prices import calc_price

from bot.core.events import Usage

LONG_WRITE = 2.0
"""A cache write for one hour costs this much of plain input (model.md section 2.4); five minutes 1.25."""
SHORT_WRITE = 1.25


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The API's counts as ours."""
    return Usage(
        input_tokens=int(raw.get("input_tokens") or 0),
        cache_read_tokens=int(raw.get("cache_read_input_tokens") or 0),
        cache_write_tokens=int(raw.get("cache_creation_input_tokens") or 0),
        output_tokens=int(raw.get("output_tokens") or 0),
        calls=1,
    )


def cost(model: str, raw: Mapping[str, Any]) -> float | None:
    """Dollars for the API's counts; which cache writes are long is taken from its own breakdown."""
    usage = usage_of(raw)
    price = _price(model, usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    breakdown = raw.get("cache_creation") or {}
    longer = int(breakdown.get("ephemeral_1h_input_tokens") or 0) if isinstance(breakdown, dict) else 0
    if price is None or not longer:
        return price
    return price + longer * (LONG_WRITE - SHORT_WRITE) * _per_input(model, _whole_input(usage))


def worst(model: str, usage: Usage) -> float | None:
    """Dollars when every cache write is a long one."""
    price = _price(model, usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    if price is None:
        return None
    extra = usage.cache_write_tokens * (LONG_WRITE - SHORT_WRITE)
    return price + extra * _per_input(model, _whole_input(usage))


def _whole_input(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _per_input(model: str, whole: int) -> float:
    # Some models cost more above a size of prompt, so the price of one token depends on all of them.
    whole = max(1, whole)
    return (_price(model, whole, 0, 0, 0) or 0.0) / whole


@lru_cache(maxsize=4096)
def _price(model: str, plain: int, read: int, written: int, output: int) -> float | None:
    counted = Counted(
        input_tokens=plain + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
    )
    try:
        return float(calc_price(counted, model_ref=model, provider_id="anthropic").total_price)
    except LookupError:
        return None
