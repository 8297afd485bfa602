"""Marks, prices, and what may be tried again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from bot.claude.encode import encode
from bot.claude.prices import cost, usage_of, worst
from bot.claude.retry import classify, pause_s
from bot.claude.stream import Incomplete
from bot.core.events import Usage
from bot.core.item import Item, Message
from bot.engine.ports import ModelRequest
from bot.lab.messages_rules import check
from tests.builders import GET_ORDER, ISSUE_CREDIT

MODEL = "claude-sonnet-5-5"


def _request(turns: int) -> ModelRequest:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "why?"}]}]
    for number in range(turns):
        call = {"type": "tool_use", "id": f"c{number}", "name": "get_order", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "x"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    sent = [Message(one["role"], (Item(one["role"], tuple(one["content"])),)) for one in messages]
    return ModelRequest(MODEL, "You help.", [ISSUE_CREDIT.spec, GET_ORDER.spec], sent, 100, "t")


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key != "cache_control"}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def test_requests_are_what_the_service_takes_with_at_most_three_marks() -> None:
    """System for an hour, the last two user messages; tools sorted; what was given stays as it was."""
    request = _request(3)
    before = str(request)

    sent = encode(request)
    check(sent)

    marks = [block.get("cache_control") for message in sent["messages"] for block in message["content"]]
    assert [mark for mark in marks if mark] == [{"type": "ephemeral"}] * 2
    assert marks[-1] and sent["system"][0]["cache_control"]["ttl"] == "1h"
    assert [tool["name"] for tool in sent["tools"]] == ["get_order", "issue_credit"]
    assert str(request) == before


def test_each_request_begins_with_the_last_one_apart_from_marks() -> None:
    """System, tools and messages: the cache stays warm."""
    sent = [_bare(encode(_request(turns))) for turns in range(4)]

    for earlier, later in pairwise(sent):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        assert (later["system"], later["tools"]) == (earlier["system"], earlier["tools"])


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


class Answered(Exception):
    """An error answer, as the SDK shapes it."""

    def __init__(self, status: int, kind: str = "", code: str = "", **headers: str) -> None:
        super().__init__("answered")
        self.status_code, self.type, self.error_code, self.api_message = status, kind, code, "said so"
        self.response = type(
            "Response", (), {"headers": {name.replace("_", "-"): value for name, value in headers.items()}}
        )


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (Answered(200, "overloaded_error"), True),
        (Answered(200, "api_error"), True),
        (Answered(529, "overloaded_error"), True),
        (Answered(500, "api_error"), True),
        (Answered(503), True),
        (Answered(408), True),
        (Answered(409), True),
        (Answered(429, "rate_limit_error"), True),
        (Answered(429, "rate_limit_error", "enforced_spend_limit_reached"), False),
        (Answered(429, "rate_limit_error", "contract_spend_limit_reached"), False),
        (Answered(400, "invalid_request_error"), False),
        (Answered(401, "authentication_error"), False),
        (Answered(403, "permission_error"), False),
        (Answered(404, "not_found_error"), False),
        (Answered(413, "request_too_large"), False),
        (ConnectionError("reset"), True),
        (TimeoutError(), True),
        (Incomplete("cut"), True),
    ],
    ids=str,
)
def test_what_may_pass_is_tried_again_and_nothing_else(error: Exception, again: bool) -> None:
    """By the error's type; one clear line each."""
    trouble = classify(error)

    assert trouble.again is again
    assert trouble.line and "\n" not in trouble.line


def test_the_service_s_own_wait_is_obeyed_and_garbage_is_not() -> None:
    """Seconds, milliseconds; else a growing pause."""
    assert pause_s(0, classify(Answered(429, retry_after="7"))) == 7
    assert pause_s(0, classify(Answered(429, retry_after_ms="250"))) == 0.25
    assert pause_s(0, classify(Answered(429, retry_after="Wed, 21 Oct 2026"))) <= 0.5
    assert 3 <= pause_s(3, classify(Answered(529))) <= 4
    assert pause_s(50, classify(Answered(529))) <= 8
