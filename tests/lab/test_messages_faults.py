"""Every fault of the table does what the table says, wherever in a reply it acts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import anthropic
import pytest

from bot.lab.messages_edits import arguments, doubled_key, lost, place_of, swapped
from bot.lab.messages_faults import ANSWERS, ARGUMENTS, DAMAGES, ENDINGS, FAULTS, HARMLESS, Reads
from bot.lab.messages_reply import frames_of, packed
from bot.lab.messages_script import Broken, Call, InOrder, Turn
from bot.lab.messages_server import API_KEY, ScriptedMessages
from bot.lab.messages_wire import Torn, Wait
from tests.lab.sse import Bad, read

ASKED: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 8000,
    "messages": [{"role": "user", "content": "why?"}],
    "thinking": {"type": "adaptive", "display": "summarized"},
}
TURN = Turn(
    "Ich prüfe das 👩\u200d🚒\u2028und dann weiter.\x85Gut.",
    [
        Call("look", {"order_id": "4921", "note": "Größe 😀 " * 4}),
        Call("pay", {"cents": 1234, "to": "ACME GmbH & Co."}),
    ],
    thinking="Let me see, this may take me a moment. ",
)
FRAMES = list(frames_of(TURN, ASKED, {"input_tokens": 10}))
TRUE = read(b"".join(map(packed, FRAMES)))
STREAMED = {name: fault for name, fault in FAULTS.items() if fault.stream}
HARMLESS_TO_ALL = [name for name, fault in STREAMED.items() if fault.reads is Reads.SAME and name != "trailing_junk"]
"""The SDK's helper reads on behind the end of a message, and trips there."""
UNSURE = [name for name, fault in STREAMED.items() if fault.reads is Reads.UNSURE and name != "event_line_missing"]
"""What a missing event line does depends on the reader; the SDK's is asked below."""
SILENT = {"stall", "stall_in_frame", "endless_pings"}


def _wire(name: str, at: int) -> tuple[bytes, list[Any]]:
    """What that fault sends, up to a silence that nobody sits out."""
    stream, sent, rest = FAULTS[name].stream, b"", list[Any]()
    assert stream is not None
    for step in stream(FRAMES, at):
        if isinstance(step, bytes):
            sent += step
        else:
            rest.append(step)
        if name in SILENT and rest:
            break
    return sent, rest


def test_there_are_many_faults_and_every_one_has_one_way_to_act() -> None:
    """In five families, no name twice."""
    assert len(FAULTS) == sum(map(len, (ENDINGS, DAMAGES, HARMLESS, ARGUMENTS, ANSWERS))) >= 70
    assert all((fault.stream is None) != (fault.status is None) and fault.says for fault in FAULTS.values())
    assert not FAULTS["cut"].reads.may_complete and FAULTS["crlf"].reads.may_complete


@pytest.mark.parametrize("name", STREAMED)
def test_a_strict_reader_makes_of_a_fault_what_the_table_says(name: str) -> None:
    """At every place of the reply, asked of a reader that shares no code with the lab."""
    reads = FAULTS[name].reads
    for at in range(len(FRAMES)):
        try:
            found = read(_wire(name, at)[0])
        except Bad:
            assert reads in (Reads.NEVER, Reads.UNSURE), at
            continue
        assert reads is not Reads.NEVER, at
        if reads is Reads.SAME:
            assert found == TRUE, at
        if reads is Reads.SPOILT:
            spoilt = [(one, true) for one, true in zip(found[0], TRUE[0], strict=True) if one != true]
            assert [one["input"] for one, _ in spoilt] == [None], at


@pytest.mark.parametrize("name", [name for name in STREAMED if name not in SILENT])
def test_no_fault_is_none(name: str) -> None:
    """Even one that changes nothing for a reader changes what goes over the wire, or in which pieces."""
    stream = FAULTS[name].stream
    assert stream is not None
    assert list(stream(FRAMES, 4)) != [packed(frame) for frame in FRAMES]


@pytest.mark.parametrize("name", UNSURE)
def test_what_is_unsure_really_reads_otherwise(name: str) -> None:
    """Such a fault changes what is read somewhere in the reply; else it would be harmless."""
    assert any(_told(_wire(name, at)[0]) != _told(b"".join(map(packed, FRAMES))) for at in range(len(FRAMES)))


@pytest.mark.parametrize("name", ENDINGS)
def test_what_came_before_the_fault_came_whole(name: str) -> None:
    """And what comes after it is less than the next frame, an error, or silence."""
    for at in (0, 5, len(FRAMES) - 1):
        before = b"".join(map(packed, FRAMES[:at]))
        sent, rest = _wire(name, at)

        assert sent.startswith(before)
        assert name.startswith("error") or len(sent) - len(before) < len(packed(FRAMES[at]))
        assert any(isinstance(step, Torn) for step in rest) == name.startswith("abort")
        assert any(isinstance(step, Wait) for step in rest) == (name in SILENT)


def test_past_the_end_of_a_reply_nothing_is_broken() -> None:
    """So a script may count frames generously."""
    for name in ENDINGS:
        assert read(_wire(name, len(FRAMES))[0]) == TRUE


def test_a_call_without_arguments_can_have_a_doubled_key_too() -> None:
    """Where there is no first member to repeat, one is made up."""
    assert doubled_key("") == '{"key": 1, "key": 2}'
    assert doubled_key('{"a": 5}') == '{"a": 5, "a": 1, "a": 2}'


@pytest.mark.parametrize("edit", [lost("weather"), arguments(str), swapped("weather")])
def test_a_fault_that_cannot_act_says_so(edit: Any) -> None:
    """A test that would break nothing is no test."""
    with pytest.raises(ValueError, match="this reply has no"):
        edit(list(frames_of(Turn("hi"), ASKED, {})), 0)
    assert place_of(FRAMES, 99, lambda frame: frame["type"] == "ping", "ping") == 1


@pytest.mark.parametrize("name", ["bad_json", "bad_utf8", "event_line_missing"])
def test_what_spoils_one_frame_never_spoils_a_ping(name: str) -> None:
    """Clients do not read those: the fault would be none."""
    assert FRAMES[1]["type"] == "ping"
    assert _wire(name, 1) == _wire(name, 2) != _wire(name, 3)


@pytest.fixture
async def api() -> AsyncIterator[ScriptedMessages]:
    """The service on loopback."""
    async with ScriptedMessages(InOrder([TURN])) as found:
        yield found


async def _raw(api: ScriptedMessages, name: str, at: int) -> tuple[int, bytes, str]:
    """Status, body and how it ended, as a plain HTTP client sees them within half a second."""
    api.brain = InOrder([Broken(TURN, at, name)])
    headers = {"x-api-key": API_KEY, "anthropic-version": "2026-10-21"}
    body, status = b"", 0
    try:
        async with asyncio.timeout(1.5 if name not in SILENT else 0.3), aiohttp.ClientSession() as session:
            sent = json.dumps({**ASKED, "stream": True})
            async with session.post(f"{api.url}/v1/messages", data=sent, headers=headers) as answer:
                status = answer.status
                async for piece in answer.content.iter_any():
                    body += piece
    except TimeoutError:
        return status, body, "silent"
    except aiohttp.ClientError:
        return status, body, "torn"
    return status, body, "ended"


@pytest.mark.wire
@pytest.mark.parametrize("name", STREAMED)
async def test_over_real_sockets_a_fault_is_what_it_is_in_the_table(api: ScriptedMessages, name: str) -> None:
    """Bytes, and the way it ends."""
    sent = _wire(name, 6)[0]

    status, body, ended = await _raw(api, name, 6)

    assert status == 200 and api.asked[-1].outcome == name
    assert ended == ("silent" if name in SILENT else "torn" if name.startswith("abort") else "ended")
    if name == "endless_pings":
        assert body.count(b"event: ping") >= 3
    elif not name.startswith("abort"):  # of a connection that broke, the last bytes may be lost
        assert body.count(b"data: ") == sent.count(b"data: ")
    assert _told(body) == _told(sent)


def _told(wire: bytes) -> Any:
    """What is read, without ids and signatures, which are new each time; nothing of an incomplete reply."""
    try:
        blocks, reason = read(wire)
    except Bad:
        return None
    return reason, [{key: value for key, value in one.items() if key not in ("id", "signature")} for one in blocks]


@pytest.mark.wire
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_instead_of_a_stream_has_its_status_and_its_headers(api: ScriptedMessages, name: str) -> None:
    """What the real client makes of it is never a reply."""
    api.brain = InOrder([Broken(TURN, 0, name)])
    async with anthropic.AsyncAnthropic(api_key=API_KEY, base_url=api.url, max_retries=0) as client:
        try:
            async with client.messages.stream(**ASKED) as stream:
                found = await stream.get_final_message()
        except anthropic.APIStatusError as error:
            assert name.startswith("status_") or name == "redirect"
            assert error.status_code == (404 if name == "redirect" else int(name.split("_")[1]))
            assert name != "status_429_spend_limit" or error.error_code == "enforced_spend_limit_reached"
            if name.startswith("status_429_"):
                assert _waits(error.response.headers) == WAITS[name]
        except (anthropic.APIError, AssertionError, ValueError) as error:
            assert name in ("empty_body", "html_body"), error
        else:
            pytest.fail(f"a reply came of {name}: {found}")


WAITS = {"seconds": "1", "milliseconds": "50 ms", "date": "date", "zero": "0", "negative": "-5", "huge": "300"}
WAITS = {f"status_429_{name}": wait for name, wait in WAITS.items()} | {"status_429_spend_limit": "1"}


def _waits(headers: Mapping[str, str]) -> str:
    if "retry-after-ms" in headers:
        return f"{headers['retry-after-ms']} ms"
    asked = headers["retry-after"]
    return "date" if asked.endswith("GMT") and parsedate_to_datetime(asked) > datetime.now(UTC) else asked


def _plain(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    found = [block.to_dict(mode="json") for block in blocks]
    return [
        {key: value for key, value in block.items() if key not in ("id", "signature", "parsed_output")}
        for block in found
        if block["type"] != "hologram"
    ]


@pytest.mark.wire
@pytest.mark.parametrize("name", HARMLESS_TO_ALL)
async def test_the_real_client_passes_over_what_is_harmless(api: ScriptedMessages, name: str) -> None:
    """The same message as without the fault."""
    async with anthropic.AsyncAnthropic(api_key=API_KEY, base_url=api.url, max_retries=0) as client:
        told = []
        for reply in (TURN, Broken(TURN, 4, name)):
            api.brain = InOrder([reply])
            async with client.messages.stream(**ASKED) as stream:
                told.append(_plain((await stream.get_final_message()).content))

    assert told[0] == told[1]


@pytest.mark.wire
async def test_the_real_client_silently_loses_a_frame_without_its_event_line(api: ScriptedMessages) -> None:
    """Why that fault is in the table: the message looks whole, and its text is not."""
    api.brain = InOrder([Broken(Turn("abc" * 30), 4, "event_line_missing")])
    client = anthropic.AsyncAnthropic(api_key=API_KEY, base_url=api.url, max_retries=0)
    async with client, client.messages.stream(**ASKED) as stream:
        found = await stream.get_final_message()

    assert found.stop_reason == "end_turn"
    assert found.content[0].to_dict()["text"] == "abc" * 22
