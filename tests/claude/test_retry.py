"""What a failure means, and when the next attempt may be made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.claude.retry import Patience, Trouble, answered, asked_wait_s, broken, told, unreachable

NOW = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "kind", "code", "headers", "meaning"),
    [
        (529, "overloaded_error", "", {}, "free"),
        (500, "api_error", "", {}, "free"),
        (503, "", "", {}, "free"),
        (408, "", "", {}, "free"),
        (409, "conflict_error", "", {}, "free"),
        (429, "rate_limit_error", "", {}, "free"),
        (529, "overloaded_error", "", {"x-should-retry": "false"}, "away"),
        (400, "invalid_request_error", "", {"x-should-retry": "true"}, "free"),
        (429, "rate_limit_error", "enforced_spend_limit_reached", {}, "final"),
        (429, "rate_limit_error", "contract_spend_limit_reached", {"x-should-retry": "true"}, "final"),
        (402, "billing_error", "linked_organization_spend_limit_reached", {}, "final"),
        (400, "invalid_request_error", "", {}, "final"),
        (403, "permission_error", "user_profile_billing_not_authorized", {}, "final"),
        (401, "authentication_error", "", {}, "final"),
        (403, "permission_error", "", {}, "final"),
        (404, "not_found_error", "", {}, "final"),
        (307, "api_error", "", {}, "final"),
        (413, "request_too_large", "", {}, "too_long"),
        (413, "", "", {"x-should-retry": "true"}, "too_long"),
    ],
)
def test_an_error_status_is_free_and_only_what_may_pass_is_tried_again(
    status: int, kind: str, code: str, headers: dict[str, str], meaning: str
) -> None:
    """What is tried again is `away` when the tries are over."""
    trouble = answered(status, kind, code, "said\nso", headers)

    assert (trouble.kind, trouble.free) == (("away", True) if meaning == "free" else (meaning, False))
    assert "said so" in trouble.line


@pytest.mark.parametrize(
    ("said", "kind", "of_thinking"),
    [
        ("prompt is too long: 1000001 tokens > 1000000 maximum", "too_long", False),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", "final", True),
        ("messages.3: `thinking` blocks in the latest assistant message cannot be modified", "final", True),
        ("input length and `max_tokens` exceed context limit: 9 + 9 > 10", "too_long", False),
        ("max_tokens: Field required", "final", False),
    ],
)
def test_the_words_of_a_400_say_what_can_be_done(said: str, kind: str, of_thinking: bool) -> None:
    """There is no code for these."""
    trouble = answered(400, "invalid_request_error", "", said, {})

    assert (trouble.kind, trouble.of_thinking, trouble.free) == (kind, of_thinking, False)


@pytest.mark.parametrize(
    ("kind", "said", "meaning"),
    [
        ("overloaded_error", "Overloaded", "lost"),
        ("rate_limit_error", "slow down", "lost"),
        ("api_error", "Internal server error", "lost"),
        ("timeout_error", "", "lost"),
        ("", "upstream died", "lost"),
        ("invalid_request_error", "Output blocked", "final"),
        ("invalid_request_error", "prompt is too long: 9 > 8", "too_long"),
        ("request_too_large", "", "too_long"),
        ("rate_limit_error", "your spend limit is reached", "final"),
    ],
)
def test_a_failure_in_the_stream_is_judged_by_its_type_and_is_never_free(kind: str, said: str, meaning: str) -> None:
    """Its status is 200, and what was written until then may be charged."""
    trouble = told(kind, "", said)

    assert (trouble.kind, trouble.free) == (meaning, False)
    assert trouble.line and "\n" not in trouble.line


def test_only_a_connection_that_was_never_made_is_free() -> None:
    """What broke afterwards may be charged."""
    assert (unreachable("refused").kind, unreachable("refused").free) == ("away", True)
    assert (broken("reset", "connection").kind, broken("reset", "connection").free) == ("lost", False)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:30 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 -0000"}, 30),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "nan"}, 0),
        ({"retry-after": "inf"}, 0),
        ({"retry-after": "Wed, 99 Oct"}, 0),
    ],
)
def test_the_wait_that_the_service_asks_for_is_read_in_all_its_forms(headers: Any, seconds: float) -> None:
    """Milliseconds first; garbage asks for nothing."""
    assert asked_wait_s(headers, NOW) == pytest.approx(seconds)


def test_pauses_grow_and_the_service_s_own_wait_only_makes_them_longer() -> None:
    """A `retry-after: 0` must not make us hammer."""
    patience = Patience()
    longer = Trouble("x", "away", "c", free=True, wait_s=60)
    for tried, least in ((1, 0.375), (2, 0.75), (3, 1.5), (50, 6.0)):
        for asked in (0.0, 0.001):
            pause = patience.pause_s(tried, Trouble("x", "away", "c", free=True, wait_s=asked))
            assert least <= pause <= min(8.0, least / 0.75)
        assert patience.pause_s(tried, longer) == 60
