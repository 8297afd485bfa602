"""The real SDK over HTTP: complete replies, retries under one deadline, clear failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.claude.client import Claude
from bot.claude.encode import encode
from bot.core.item import Message, said
from bot.engine.ports import ModelFailure, ModelRequest
from bot.lab.messages_script import Broken, Call, InOrder, Status, Turn
from bot.lab.messages_server import API_KEY, ScriptedMessages
from bot.lab.twins import Silent
from tests.builders import GET_ORDER

pytestmark = pytest.mark.wire
GOOD = Turn("Grüße 😀", [Call("get_order", {"order_id": "4921", "t": 'ä"\\' * 30})], thinking="hm " * 20)


def _request(text: str = "why?") -> ModelRequest:
    messages = [Message("user", (said("user", text),))]
    return ModelRequest("claude-sonnet-5-5", "You help.", [GET_ORDER.spec], messages, 500, "t")


def _within(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


class Place:
    """A scripted service and the real client on it."""

    def __init__(self) -> None:
        self.api = ScriptedMessages(InOrder([GOOD]))

    def plays(self, *replies: Any) -> Claude:
        """The client, against that script."""
        self.api.brain = InOrder(list(replies))
        self.client = Claude(api_key=API_KEY, base_url=self.api.url)
        return self.client


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """Warm: what is timed is not the import."""
    found = Place()
    async with found.api:
        await found.plays(GOOD).warm_up()
        yield found
        await found.client.close()


async def test_our_reader_gives_what_the_sdk_s_own_helper_gives(place: Place) -> None:
    """Golden: the same content from the same stream."""
    place.api.brain = InOrder([GOOD])
    reply = await place.plays(GOOD).ask(_request(), _within(10))
    sdk = await place.client.warm_up()
    arguments = {name: value for name, value in encode(_request()).items() if name != "stream"}
    async with sdk.messages.stream(**arguments) as stream:
        helper = [block.to_dict(mode="json") for block in (await stream.get_final_message()).content]

    def bare(blocks: Any) -> Any:
        return [
            {key: value for key, value in block.items() if key not in ("id", "signature", "parsed_output")}
            for block in blocks
        ]

    assert bare(reply.content) == bare(helper)
    assert (reply.stop_reason, reply.usage.calls) == ("tool_use", 1)
    assert reply.cost_usd > 0


@pytest.mark.parametrize("how", ["cut", "abort", "error"])
@pytest.mark.parametrize("after", [0, 1, 3, 8, 14])
async def test_a_broken_stream_is_tried_again_and_its_cost_is_counted(place: Place, how: str, after: int) -> None:
    """Whatever broke it, wherever; the caller sees one whole reply."""
    reply = await place.plays(Broken(GOOD, after, how), GOOD).ask(_request(), _within(20))

    assert reply.content[1]["text"] == GOOD.text
    assert len(place.api.asked) == 2
    assert reply.usage.calls == (1 if after == 0 else 2)


async def test_two_overloads_and_then_a_reply(place: Place) -> None:
    """Waited out."""
    overloaded = Status(529, "overloaded_error")
    reply = await place.plays(overloaded, overloaded, GOOD).ask(_request(), _within(20))

    assert reply.stop_reason == "tool_use"
    assert len(place.api.asked) == 3


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status(401, "authentication_error", "invalid x-api-key"), "refused the API key (401)"),
        (Status(404, "not_found_error", "model: x"), "does not know that model"),
        (Status(400, "invalid_request_error", "prompt is too long"), "prompt is too long"),
        (Status(429, "rate_limit_error", "limit", error_code="enforced_spend_limit_reached"), "limits the rate"),
    ],
)
async def test_what_cannot_pass_is_said_at_once(place: Place, status: Status, said: str) -> None:
    """One request, one clear line."""
    with pytest.raises(ModelFailure, match=said.replace("(", r"\(").replace(")", r"\)")):
        await place.plays(status).ask(_request(), _within(20))

    assert len(place.api.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Status(429, "rate_limit_error", headers={"retry-after": "300"}),
        Status(529, "overloaded_error", headers={"retry-after": "300"}),
    ],
)
async def test_a_wait_beyond_the_deadline_ends_at_once(place: Place, reply: Status) -> None:
    """As the deadline it is: not after it."""
    begun = time.monotonic()
    with pytest.raises(ModelFailure) as failed:
        await place.plays(reply).ask(_request(), _within(2))

    assert failed.value.kind == "deadline"
    assert time.monotonic() - begun < 1.5


@pytest.mark.parametrize("reply", [Broken(GOOD, 2, "stall"), Turn("late", latency_s=60)])
async def test_a_silent_service_is_left_at_the_deadline(place: Place, reply: Any) -> None:
    """Whatever timeouts the SDK has of its own."""
    begun = time.monotonic()
    with pytest.raises(ModelFailure) as failed:
        await place.plays(reply).ask(_request(), _within(0.7))

    assert failed.value.kind == "deadline"
    assert time.monotonic() - begun < 2


async def test_a_service_that_is_not_there_is_one_line() -> None:
    """After a few tries."""
    client = Claude(api_key=API_KEY, base_url="http://127.0.0.1:9")
    with pytest.raises(ModelFailure) as failed:
        await client.ask(_request(), _within(3))
    await client.close()

    assert "\n" not in str(failed.value) and str(failed.value)


async def test_a_cancelled_question_lets_go_at_once(place: Place) -> None:
    """Somebody said stop."""
    asking = asyncio.create_task(place.plays(Turn("late", latency_s=60)).ask(_request(), _within(60)))
    await asyncio.wait({asking}, timeout=0.3)
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, 1)


async def test_many_ask_at_once(place: Place) -> None:
    """Forty conversations, one client."""
    client = place.plays(GOOD)

    replies = await asyncio.gather(*(client.ask(_request(f"q{number}"), _within(30)) for number in range(40)))

    assert {reply.stop_reason for reply in replies} == {"tool_use"}


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (Status(529, "overloaded_error"), "overloaded_error"),
        (Status(500, "invented_tomorrow"), "http_500"),
        (Broken(GOOD, 3, "cut"), "incomplete"),
        (Broken(GOOD, 3, "abort"), "connection"),
    ],
)
async def test_each_attempt_that_is_made_again_is_noted_with_its_kind(place: Place, first: Any, kind: str) -> None:
    """A word of a small set, so that it can be counted; a service's new words make no new metrics."""
    tracer = Silent()
    place.api.brain = InOrder([first, GOOD])
    client = Claude(api_key=API_KEY, base_url=place.api.url, tracer=tracer)

    await client.ask(_request(), _within(20))
    await client.close()

    assert [(name, fields["kind"], fields["thread"]) for name, fields in tracer.notes] == [("model.retry", kind, "t")]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status(429, "rate_limit_error", "limit", error_code="enforced_spend_limit_reached"), "spend_limit"),
        (Status(401, "authentication_error", "invalid x-api-key"), "http_401"),
    ],
)
async def test_a_failure_says_of_what_kind_it_was(place: Place, status: Status, kind: str) -> None:
    """For counting, beside the line for people."""
    with pytest.raises(ModelFailure) as caught:
        await place.plays(status).ask(_request(), _within(20))

    assert caught.value.kind == kind
