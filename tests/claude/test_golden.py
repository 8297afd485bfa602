"""What the SDK itself would have sent, and what its own helper would have read: the same, on the same service."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aiohttp import web

from bot.claude.client import Claude
from bot.lab.messages_faults import FAULTS, Reads
from bot.lab.messages_script import Broken, Call, InOrder, Turn
from bot.lab.messages_server import API_KEY
from tests.claude.asked import LONG, SHORT, conversation, request, spelled, within
from tests.claude.conftest import Place
from tests.claude.odd import STREAM, loopback
from tests.claude.recorded import BLOCKS, RECORDED

pytestmark = pytest.mark.wire
GOOD = Turn("Grüße 😀", [Call("get_order", {"order_id": "4921", "t": 'ä"\\' * 30}), Call("now")], thinking="hm " * 20)
SAME = [name for name, fault in FAULTS.items() if fault.reads is Reads.SAME and name not in ("trailing_junk",)]
"""The SDK's helper reads on behind the end of a message, and trips there."""
CASES = {
    "a first question": (request(), {(0, 0): SHORT}),
    "a long one": (request(conversation(4, calls=3), previous_id="msg_0"), {(6, 2): SHORT, (8, 2): SHORT}),
    "one that may wait": (request(conversation(2), wait_likely=True), {(2, 0): LONG, (4, 0): LONG}),
    "one beside it": (request(tools=(), system="Choose.", role="router"), {}),
}


@pytest.mark.parametrize("name", CASES)
async def test_the_service_is_sent_what_the_sdk_would_have_sent(place: Place, name: str) -> None:
    """The same JSON; the service accepts it."""
    asked, marks = CASES[name]
    await place.plays(GOOD).ask(asked, within(10))
    sdk = (await place.client.warm_up()).client
    async with await sdk.messages.create(**spelled(asked, marks), stream=True) as stream:
        async for _ in stream:
            pass

    ours, theirs = (json.loads(one.body) for one in place.api.asked)
    assert ours == theirs


async def test_headers_are_the_sdk_s_own() -> None:
    """Version, authentication, agent; nothing is missing and nothing is added."""
    seen: list[dict[str, str]] = []

    async def note(asked: web.Request) -> web.Response:
        seen.append({name.lower(): value for name, value in asked.headers.items()})
        return web.Response(body=RECORDED, headers=STREAM)

    async with loopback(note) as url:
        client = Claude(api_key=API_KEY, base_url=url)
        reply = await client.ask(request(), within(10))
        sdk = (await client.warm_up()).client
        async with await sdk.messages.create(**spelled(request(), {(0, 0): SHORT}), stream=True) as stream:
            async for _ in stream:
                pass
        await client.close()

    assert reply.content == BLOCKS
    lengths = [int(one.pop("content-length")) for one in seen]
    assert seen[0] == seen[1] and seen[0]["authorization"] == f"Bearer {API_KEY}"
    assert seen[0]["anthropic-version"] == "2026-10-21"
    assert lengths[0] > 100


def _bare(blocks: Any) -> Any:
    kept = [{k: v for k, v in one.items() if k not in ("id", "signature", "parsed_output")} for one in blocks]
    return [one for one in kept if one["type"] != "hologram"]


@pytest.mark.parametrize("name", ["", *SAME])
async def test_our_reader_gives_what_the_sdk_s_own_helper_gives(place: Place, name: str) -> None:
    """The same blocks, stop reason and usage, also where a fault is harmless."""
    said = Broken(GOOD, 5, name) if name else GOOD
    reply = await place.plays(said).ask(request(), within(10))
    place.api.brain = InOrder([said])
    sdk = (await place.client.warm_up()).client
    async with sdk.messages.stream(**spelled(request(), {(0, 0): SHORT})) as stream:
        helper = await stream.get_final_message()

    assert _bare(reply.content) == _bare([block.to_dict(mode="json") for block in helper.content])
    assert (reply.stop_reason, reply.usage.output_tokens) == (helper.stop_reason, helper.usage.output_tokens)
    assert [re.sub("_.*", "", str(one["id"])) for one in reply.content if "id" in one] == ["toolu", "toolu"]
    assert reply.model == helper.model and reply.request_id.startswith("msg_")


async def test_where_the_helper_guesses_we_refuse(place: Place) -> None:
    """A stream that ends in the middle of an amount: the helper gives a call with half of it."""
    pay = Turn("", [Call("get_order", {"amount": 12345678901234})])
    place.api.brain = InOrder([Broken(pay, 4, "cut")])
    sdk = (await place.client.warm_up()).client
    async with sdk.messages.stream(**spelled(request(), {(0, 0): SHORT})) as stream:
        helper = await stream.get_final_message()
    guessed = helper.content[0].to_dict()["input"]

    assert guessed and guessed != pay.calls[0].arguments
    with pytest.raises(Exception, match="broke off"):
        await place.plays(Broken(pay, 4, "cut")).ask(request(), within(10))


async def test_the_service_says_why_its_cache_could_not_be_used(place: Place) -> None:
    """Asked with the id of the last reply; what it says comes back with this one."""
    client = place.plays(Turn("a"))
    first = await client.ask(request(conversation(1), previous_id="msg_unknown"), within(10))
    kept = await client.ask(request(conversation(2), previous_id=first.request_id), within(10))
    other = request(conversation(3), previous_id=kept.request_id, system="Another. " * 400)
    changed = await client.ask(other, within(10))

    reasons = [one.cache_miss_reason for one in (first, kept, changed)]
    assert reasons == ["previous_message_not_found", "", "system_changed"]
