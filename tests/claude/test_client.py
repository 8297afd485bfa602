"""One question over HTTP: complete replies, free retries, at most one paid attempt, one deadline, clear failures."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from bot.claude.client import Claude
from bot.core.events import Usage
from bot.core.item import Item, Message
from bot.engine.ports import ModelFailure
from bot.lab.messages_faults import FAULTS, Reads
from bot.lab.messages_script import Broken, Call, Status, Turn
from bot.lab.messages_server import API_KEY
from bot.lab.twins import Silent
from tests.claude.asked import conversation, request, within
from tests.claude.conftest import QUICK, Place

pytestmark = pytest.mark.wire
CALLS = [Call("get_order", {"order_id": "4921", "t": 'ä"\\' * 30}), Call("get_order", {"order_id": "4922"})]
GOOD = Turn("Grüße 😀", CALLS, thinking="hm " * 20)
SILENT = {"stall", "stall_in_frame", "endless_pings"}
STREAMED = [name for name, fault in FAULTS.items() if fault.stream and name not in SILENT]
FINAL_IN_BAND = {"error_invalid_request"}


async def _failure(client: Claude, seconds: float = 20.0, **more: Any) -> ModelFailure:
    with pytest.raises(ModelFailure) as failed:
        await client.ask(request(**more), within(seconds))
    assert str(failed.value) and "\n" not in str(failed.value)
    return failed.value


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("at", [1, 6, 14, 99])
async def test_over_sockets_an_incomplete_message_is_lost_and_asked_once(place: Place, name: str, at: int) -> None:
    """Who pays decides about another attempt; what is complete is what was scripted."""
    client, reads = place.plays(Broken(GOOD, at, name)), FAULTS[name].reads
    try:
        reply = await client.ask(request(), within(20))
    except ModelFailure as failure:
        assert not reads.may_complete or reads is Reads.UNSURE
        assert failure.kind == ("final" if name in FINAL_IN_BAND else "lost")
        assert failure.usage.calls == (1 if failure.usage.total else 0)
        assert failure.kind != "lost" or failure.wait_s > 0
    else:
        assert reads.may_complete or at == 99
        known = [block for block in reply.content if block["type"] != "hologram"]
        ran = [block["input"] for block in known if block.get("id") and block["id"] not in reply.invalid_calls]
        assert reads is Reads.UNSURE or len(reply.invalid_calls) == (1 if reads is Reads.SPOILT else 0)
        if reads is Reads.SAME:
            assert ran == [dict(call.arguments) for call in CALLS]
    assert len(place.api.asked) == 1


async def test_what_a_lost_attempt_had_told_of_its_cost_is_told_with_it(place: Place) -> None:
    """And is no part of a later reply's."""
    client = place.plays(Broken(GOOD, 6, "abort"), GOOD)
    lost = await _failure(client)
    reply = await client.ask(request(), within(10))

    told = place.api.asked[0].usage
    assert lost.usage.cache_write_tokens == told["cache_creation_input_tokens"] > 0
    assert lost.usage.input_tokens == told["input_tokens"] and lost.usage.calls == 1
    assert lost.cost_usd > 0
    assert (reply.usage.calls, reply.usage.cache_write_tokens) == (1, 0)


async def test_an_attempt_that_told_nothing_is_lost_with_nothing_known(place: Place) -> None:
    """The caller's reservation stands for it."""
    for name in ("empty_body", "html_body"):
        lost = await _failure(place.plays(Broken(GOOD, 0, name)))
        assert (lost.kind, lost.usage, lost.cost_usd) == ("lost", Usage(), 0.0)
    assert "text/html" in str(lost)


@pytest.mark.parametrize(
    "name", ["status_529", "status_500", "status_503", "status_429_zero", "status_429_milliseconds"]
)
async def test_an_error_status_costs_nothing_and_is_tried_again(place: Place, name: str) -> None:
    """Until a reply comes; it has the usage of its own attempt alone."""
    broken = Broken(GOOD, 0, name)
    reply = await place.plays(broken, broken, GOOD).ask(request(), within(20))

    assert (reply.stop_reason, reply.usage.calls, len(place.api.asked)) == ("tool_use", 1, 3)


async def test_when_the_free_tries_are_over_the_service_is_away(place: Place) -> None:
    """Another model may answer."""
    failure = await _failure(place.plays(Status(529, "overloaded_error")))

    assert (failure.kind, failure.usage, len(place.api.asked)) == ("away", Usage(), QUICK.attempts)
    assert "is overloaded (529)" in str(failure)


async def test_a_service_that_is_not_there_is_away() -> None:
    """After a few tries; nothing was ever sent."""
    client = Claude(api_key=API_KEY, base_url="http://127.0.0.1:9", patience=QUICK)
    failure = await _failure(client)
    await client.close()

    assert (failure.kind, failure.usage) == ("away", Usage())
    assert "could not be reached" in str(failure)


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (Status(401, "authentication_error", "invalid x-api-key"), "final", "refused the API key (401)"),
        (Status(404, "not_found_error", "model: x"), "final", "does not know that model"),
        (Status(400, "invalid_request_error", "prompt is too long: 9 > 8"), "too_long", "prompt is too long"),
        (Status(413, "request_too_large", "too large"), "too_long", "too large"),
        (Status(429, "rate_limit_error", "x", error_code="enforced_spend_limit_reached"), "final", "limits the rate"),
        (Status(307, "api_error", "gone", {"location": "/v1/elsewhere"}), "final", "has moved"),
    ],
)
async def test_what_cannot_pass_is_said_at_once(place: Place, status: Status, kind: str, said: str) -> None:
    """One request, one clear line."""
    failure = await _failure(place.plays(status))

    assert (failure.kind, len(place.api.asked)) == (kind, 1)
    assert said in str(failure)


async def test_a_refusal_is_a_reply_and_is_never_sent_again(place: Place) -> None:
    """Also one without a word; what was declined is said."""
    declined = Turn("", stop_reason="refusal", stop_details={"category": "cyber"})
    reply = await place.plays(declined).ask(request(), within(10))

    assert reply.stop_category == "cyber"
    assert (reply.stop_reason, list(reply.content), len(place.api.asked)) == ("refusal", [], 1)


async def test_thinking_that_is_not_accepted_is_left_out_once(place: Place) -> None:
    """The refused request was free; a thread with a spoilt signature goes on."""
    spoilt = {"type": "thinking", "thinking": "", "signature": "sig-of-somebody"}
    asked, results = conversation(1)[:2], conversation(1)[2]
    reply = Message("assistant", (Item("assistant", (spoilt, *asked[1].content)),))

    answer = await place.plays(GOOD).ask(request([asked[0], reply, results]), within(10))

    assert answer.stop_reason == "tool_use"
    assert [bool(one.request) for one in place.api.asked] == [False, True]
    refusal = Status(400, "invalid_request_error", "Invalid `signature` in `thinking` block")
    assert (await _failure(place.plays(refusal))).kind == "final"
    assert len(place.api.asked) == 3


@pytest.mark.parametrize("name", ["status_429_huge", "status_429_date"])
async def test_a_wait_beyond_the_deadline_ends_at_once(place: Place, name: str) -> None:
    """As the deadline it is: not after it."""
    begun = time.monotonic()
    failure = await _failure(place.plays(Broken(GOOD, 0, name)), 0.9)

    assert (failure.kind, len(place.api.asked)) == ("deadline", 1)
    assert time.monotonic() - begun < 0.5


@pytest.mark.parametrize("reply", [*(Broken(GOOD, 6, name) for name in sorted(SILENT)), Turn("late", latency_s=60)])
async def test_a_silent_service_is_left_at_the_deadline(place: Place, reply: Any) -> None:
    """Pings keep a dead stream alive, and do not move the deadline; what was told of its cost is told."""
    begun = time.monotonic()
    failure = await _failure(place.plays(reply), 0.5)

    assert failure.kind == "deadline"
    assert (failure.usage.total > 0) is isinstance(reply, Broken)
    assert time.monotonic() - begun < 0.8


async def test_a_deadline_that_has_passed_sends_nothing(place: Place) -> None:
    """Not even over a connection that is open."""
    await place.plays(GOOD).ask(request(), within(10))

    assert (await _failure(place.client, -1.0)).kind == "deadline"
    assert len(place.api.asked) == 1


async def test_our_own_mistakes_are_loud(place: Place) -> None:
    """They are never taken for trouble of the network, and never tried again."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        broken: Any = float("nan")
        await place.client.ask(request(previous_id=broken), within(10))
    wrong: Any = [{"role": "user", "content": []}]
    with pytest.raises(AttributeError):
        await place.client.ask(request(wrong), within(10))
    assert place.api.asked == []


async def test_a_cancelled_question_lets_go_at_once(place: Place) -> None:
    """Somebody said stop."""
    asking = asyncio.create_task(place.plays(Turn("late", latency_s=60)).ask(request(), within(60)))
    await asyncio.wait({asking}, timeout=0.3)
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, 1)


async def test_each_attempt_that_is_made_again_is_noted_with_its_cause(place: Place) -> None:
    """A word of a small set, so that it can be counted; a service's new words make no new metrics."""
    tracer = Silent()
    place.plays(Status(529, "overloaded_error"), Status(500, "invented_tomorrow"), GOOD)
    client = Claude(api_key=API_KEY, base_url=place.api.url, tracer=tracer, patience=QUICK)

    await client.ask(request(), within(20))
    await client.close()

    noted = [(name, fields["kind"], fields["thread"]) for name, fields in tracer.notes]
    assert noted == [("model.retry", "overloaded_error", "t"), ("model.retry", "http_500", "t")]


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        (Status(429, "rate_limit_error", "limit", error_code="enforced_spend_limit_reached"), "spend_limit"),
        (Status(401, "authentication_error", "invalid x-api-key"), "http_401"),
        (Broken(GOOD, 3, "cut"), "incomplete"),
        (Broken(GOOD, 3, "abort"), "connection"),
        (Broken(GOOD, 3, "error"), "overloaded_error"),
        (Broken(GOOD, 3, "error_invalid_request"), "in_band"),
    ],
)
async def test_a_failure_says_what_failed(place: Place, first: Any, cause: str) -> None:
    """For counting, beside what can be done and the line for people."""
    assert (await _failure(place.plays(first))).cause == cause
