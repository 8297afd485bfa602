"""The scripted service over real sockets, asked by the real client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anthropic
import pytest

from bot.lab.messages_script import Broken, ByRole, ByWord, Call, InOrder, Reply, Status, Turn
from bot.lab.messages_server import API_KEY, MAX_BODY, ScriptedMessages
from tests.lab.messages import HOUR, MARK, TOOL, assistant, request, text, user

pytestmark = pytest.mark.wire
LONG = "a word " * 400


class Place:
    """A service and the client on it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.api = ScriptedMessages(InOrder([Turn("hi")]), now=lambda: self.now)
        self.client: anthropic.AsyncAnthropic

    async def ask(self, *replies: Reply, **asked: Any) -> Any:
        """One message, without a stream unless the request wants one."""
        if replies:
            self.api.brain = InOrder(replies)
        return await self.client.messages.create(**{**request(max_tokens=2000), **asked})

    async def refused(self, *replies: Reply, **asked: Any) -> str:
        """The line with which the service refuses."""
        with pytest.raises(anthropic.BadRequestError) as found:
            await self.ask(*replies, **asked)
        assert found.value.type == "invalid_request_error" and found.value.request_id
        return str(found.value.api_message)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """One service for one test."""
    found = Place()
    async with found.api:
        found.client = _client(found.api)
        yield found
        await found.client.close()


def _client(api: ScriptedMessages) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key=API_KEY, base_url=api.url, max_retries=0)


def _sent_back(reply: Any) -> dict[str, Any]:
    return assistant(*[block.to_dict(mode="json") for block in reply.content])


async def test_a_turn_with_thinking_goes_round_as_the_client_read_it(place: Place) -> None:
    """Thinking, words and calls come back with their results; the same without a stream and with one."""
    turn = Turn("so", [Call("look", {"a": "ü😀"})], thinking="hm", redacted_thinking="secret")
    plain = await place.ask(turn)
    async with place.client.messages.stream(**request(max_tokens=2000)) as stream:
        streamed = await stream.get_final_message()

    for reply in (plain, streamed):
        assert [block.type for block in reply.content] == ["thinking", "redacted_thinking", "text", "tool_use"]
        result = {"type": "tool_result", "tool_use_id": reply.content[-1].id, "content": "x"}
        again = await place.ask(Turn("done"), messages=[user(), _sent_back(reply), user(result)])
        assert again.content[0].text == "done"
    assert plain.usage.output_tokens == streamed.usage.output_tokens


async def test_a_paused_turn_may_be_sent_back_last_and_nothing_else(place: Place) -> None:
    """Exactly what was returned; any other last word of the model is a prefill."""
    paused = await place.ask(Turn("wait", stop_reason="pause_turn"))
    assert paused.stop_reason == "pause_turn"

    assert (await place.ask(Turn("on"), messages=[user(), _sent_back(paused)])).content[0].text == "on"
    assert "prefill" in await place.refused(messages=[user(), assistant(text("wait!"))])
    for other, most in ((Turn("over"), 100), (Turn("cut short " * 9, stop_reason="pause_turn"), 5)):
        ended = await place.ask(other, max_tokens=most)
        assert "prefill" in await place.refused(messages=[user(), _sent_back(ended)])


async def test_no_tokens_at_all_warm_the_cache_and_ask_nobody(place: Place) -> None:
    """The script does not move on; the next request reads what was written."""
    place.api.brain = script = InOrder([Turn("first"), Turn("second")])
    marked = [text(LONG, cache_control=HOUR)]

    warmed = await place.ask(system=marked, max_tokens=0)
    then = await place.ask(system=marked)

    assert (warmed.content, warmed.stop_reason, warmed.usage.output_tokens) == ([], "max_tokens", 0)
    assert warmed.usage.cache_creation.ephemeral_1h_input_tokens == then.usage.cache_read_input_tokens > 512
    assert then.content[0].text == "first" and script.asked == 1


async def test_a_prompt_beyond_the_window_is_refused_with_both_numbers() -> None:
    """And leaves nothing in the cache; one that fits is cut where the window ends."""
    async with ScriptedMessages(InOrder([Turn("word " * 400)]), context_tokens=1000) as api, _client(api) as client:
        long = request(user(text("x" * 4000, cache_control=MARK)), max_tokens=2000)
        sized = {key: value for key, value in long.items() if key != "max_tokens"}
        counted = await client.messages.count_tokens(**sized)
        with pytest.raises(anthropic.BadRequestError) as refused:
            await client.messages.create(**long)
        fits = await client.messages.create(**request(user(text("x" * 3000)), max_tokens=2000))

    assert f"prompt is too long: {counted.input_tokens} tokens > 1000 maximum" in str(refused.value)
    assert len(api.requests) == 1
    assert fits.stop_reason == "model_context_window_exceeded"
    assert fits.usage.input_tokens + fits.usage.output_tokens == 1000


async def test_a_prompt_that_fills_the_window_to_the_last_token_is_taken() -> None:
    """One token less of window, and it is not."""
    asked = request()
    size = ScriptedMessages(InOrder([])).cache.look(asked).total_tokens
    for window, taken in ((size, True), (size - 1, False)):
        async with ScriptedMessages(InOrder([Turn("hi")]), context_tokens=window) as api, _client(api) as client:
            try:
                await client.messages.create(**asked)
            except anthropic.BadRequestError:
                assert not taken
            else:
                assert taken


DIAGNOSED = request(user(text(LONG, cache_control=MARK)), system="You help.", max_tokens=50)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "claude-opus-5-5", "system": "Other."}, "model_changed"),
        ({"speed": "fast"}, "model_changed"),
        ({"system": "Other.", "tools": []}, "system_changed"),
        ({"tools": [{**TOOL, "description": "other"}]}, "tools_changed"),
        ({"messages": [user(text("other"))]}, "messages_changed"),
        ({"output_config": {"effort": "low"}}, "unavailable"),
        ({"messages": [*DIAGNOSED["messages"], assistant(text()), user()]}, None),
        ({"messages": [user(text(LONG))]}, None),
    ],
)
async def test_diagnostics_name_the_first_thing_that_changed(place: Place, change: dict[str, Any], reason: Any) -> None:
    """A longer conversation and a moved mark are no change."""
    first = await place.ask(**{**DIAGNOSED, "diagnostics": {"previous_message_id": None}})
    then = await place.ask(**{**DIAGNOSED, **change, "diagnostics": {"previous_message_id": first.id}})

    assert first.diagnostics is None
    assert (then.diagnostics and then.diagnostics.cache_miss_reason.type) == reason
    if reason and reason != "unavailable":
        wrote = first.usage.cache_creation_input_tokens
        missed = then.diagnostics.cache_miss_reason.cache_missed_input_tokens
        assert missed == wrote - then.usage.cache_read_input_tokens > 0


async def test_diagnostics_know_only_requests_that_asked_for_them(place: Place) -> None:
    """And say so; a prefix that merely expired has not changed."""
    silent = await place.ask(**DIAGNOSED)
    asked = await place.ask(**{**DIAGNOSED, "diagnostics": {"previous_message_id": silent.id}})
    place.now = 4000.0
    later = await place.ask(**{**DIAGNOSED, "diagnostics": {"previous_message_id": asked.id}})

    assert silent.diagnostics is None
    assert asked.diagnostics.cache_miss_reason.type == "previous_message_not_found"
    assert later.diagnostics is None and later.usage.cache_read_input_tokens == 0


async def test_time_passes_before_the_first_byte_and_between_frames(place: Place) -> None:
    """As much as the turn says; what it writes is in the cache only when it begins."""
    place.api.brain = InOrder([Turn("x" * 48, latency_s=0.2, frame_latency_s=0.05)])
    begun, arrived = time.monotonic(), []
    asked = {**request(system=[text(LONG, cache_control=HOUR)]), "stream": True}
    waiting = asyncio.create_task(place.client.messages.create(**asked))
    await asyncio.wait({waiting}, timeout=0.1)
    early = place.api.cache.look(asked).usage["cache_read_input_tokens"]
    async for _ in await waiting:
        arrived.append(time.monotonic() - begun)

    assert arrived[0] >= 0.2 and arrived[-1] >= 0.2 + 0.05 * 6
    assert [one.outcome for one in place.api.asked] == ["complete"]
    assert early == 0 < place.api.cache.look(asked).usage["cache_read_input_tokens"]


async def test_a_broken_reply_without_a_stream_is_half_a_body(place: Place) -> None:
    """The client sees the connection end."""
    with pytest.raises(anthropic.APIConnectionError):
        await place.ask(Broken(Turn("x" * 400), 3, "cut"))
    with pytest.raises(anthropic.APIStatusError):
        await place.ask(Broken(Turn("x"), 0, "status_529"))


async def test_the_catalogue_names_windows_and_limits(place: Place) -> None:
    """A page at a time, or one by name."""
    page = await place.client.models.list(limit=2)
    one = await place.client.models.retrieve("claude-haiku-5-5")

    assert [len(page.data), page.has_more] == [2, True]
    assert (one.max_input_tokens, one.max_tokens, one.lifecycle) == (1_000_000, 128_000, "active")
    with pytest.raises(anthropic.NotFoundError):
        await place.client.models.retrieve("gpt-oracle")


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"x-api-key": "wrong", "anthropic-version": "2026-10-21"}, 401, "invalid x-api-key"),
        ({"x-api-key": API_KEY}, 400, "header is required"),
        ({"x-api-key": API_KEY, "anthropic-version": "2031-01-01"}, 400, "not a valid version"),
        ({"x-api-key": API_KEY, "anthropic-version": "2026-10-21"}, 413, "maximum size"),
    ],
)
async def test_a_caller_without_key_or_version_and_a_body_too_large_are_refused(
    place: Place, headers: dict[str, str], status: int, said: str
) -> None:
    """In the service's own form."""
    body = b"x" * (MAX_BODY + 1 if status == 413 else 1)
    url = f"{place.api.url}/v1/messages"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        told = await answer.json()

    assert (answer.status, told["type"]) == (status, "error")
    assert said in told["error"]["message"] and told["request_id"] == answer.headers["request-id"]


async def test_every_role_has_a_brain_of_its_own(place: Place) -> None:
    """By words of the system prompt, by the lack of tools, else the agent's."""
    place.api.brain = ByRole(
        InOrder([Turn("agent")]),
        toolless=InOrder([Turn("summary")]),
        by_system={"You route": ByWord({"refund": [Turn("router")]})},
    )
    asked = user(text("a refund please"))

    said = [
        (await place.ask(messages=[asked], **fields)).content[0].text
        for fields in (
            {"system": "You help."},
            {"system": [text("You route questions.")]},
            {"system": "You summarise.", "tools": []},
        )
    ]

    assert said == ["agent", "router", "summary"]
    place.api.brain = ByRole(InOrder([Turn("agent")]))
    assert (await place.ask(tools=[])).content[0].text == "agent"


async def test_an_error_answer_keeps_the_service_s_form(place: Place) -> None:
    """Type, code, request id."""
    with pytest.raises(anthropic.RateLimitError) as found:
        await place.ask(Status(429, "rate_limit_error", "slow down", error_code="enforced_spend_limit_reached"))

    assert (found.value.type, found.value.error_code) == ("rate_limit_error", "enforced_spend_limit_reached")
    assert place.api.asked[-1].outcome == "429"
