"""The stand-in of the Messages API is as strict as the API: what passes here passes there."""

from __future__ import annotations

from typing import Any

import pytest

from bot.lab.messages_blocks import Refused
from bot.lab.messages_rules import check, parsed
from tests.lab.messages import CALL, HOUR, MARK, RESULT, TOOL, assistant, request, text, user

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
CUSTOM = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def _result(**fields: Any) -> dict[str, Any]:
    """A conversation in which the call's result is such."""
    return request(user(), assistant(CALL), user({**RESULT, **fields}))


@pytest.mark.parametrize(
    "taken",
    [
        request(user(), assistant(text(), CALL), user(RESULT, text())),
        request({"role": "user", "content": "hi"}),
        request(system="You help.", stream=True, metadata={"user_id": "u"}, stop_sequences=["END"]),
        request(system=[text(cache_control=HOUR)], cache_control=MARK),
        request(thinking={"type": "adaptive", "display": "summarized"}, output_config={"effort": "low"}),
        request(thinking={"type": "between_tools"}, tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
        request(tools=[{**TOOL, "type": "custom", "strict": True, "input_schema": CUSTOM, "cache_control": MARK}]),
        request(tools=[{"type": "web_search_20260209", "name": "web_search", "max_uses": 1}]),
        request(diagnostics={"previous_message_id": None}, max_tokens=0),
        request(user(PICTURE, text())),
        _result(content=[text(), PICTURE], is_error=False),
        _result(content=[text()], is_error=True, cache_control=MARK),
        request(user(), assistant(text()), model="claude-opus-5"),
        request(tool_choice={"type": "tool", "name": "look"}, model="claude-opus-5"),
    ],
)
def test_what_the_service_takes_is_taken(taken: dict[str, Any]) -> None:
    """The tests below cannot be met by refusing everything."""
    check(taken)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ([], "not an object"),
        (request(temperature=0), "sampling parameters"),
        (request(colour="red"), "Extra inputs"),
        (request(model="claude-2"), "model"),
        (request(model=["x"]), "model"),
        (request(max_tokens=0.5), "max_tokens"),
        (request(max_tokens=True), "max_tokens"),
        (request(max_tokens=-1), "max_tokens"),
        (request(max_tokens=128_001), "128001 > 128000"),
        (request(max_tokens=0, stream=True), "cannot be streamed"),
        (request(service_tier="gold"), "service_tier"),
        (request(speed="warp"), "speed"),
        (request(stop_sequences=[" "]), "non-whitespace"),
        (request(metadata={"name": "Ann"}), "metadata.name"),
        (request(output_config={"effort": "huge"}), "effort"),
        (request(output_config={"format": {"type": "xml"}}), "format"),
        (request(diagnostics={"previous_message_id": 7}), "diagnostics"),
        (request(system=[PICTURE]), "system.0.type"),
        (request(system=[text("")]), "non-empty"),
        (request(tools=[TOOL, TOOL]), "unique"),
        (request(tools=[{**TOOL, "name": "bad name"}]), "pattern"),
        (request(tools=[{"name": "look"}]), "input_schema"),
        (request(tools=[{**TOOL, "colour": "red"}]), "Extra inputs"),
        (request(tools=[{**TOOL, "input_schema": {"type": "object", "anyOf": []}}]), "top level"),
        (request(tools=[{**TOOL, "input_schema": {"type": "object", "required": "a"}}]), "JSON schema is invalid"),
        (request(tools=[{"type": "teleport", "name": "look"}]), "expected tags"),
        (request(tool_choice={"type": "any"}), "forcing tool use"),
        (request(tool_choice={"type": "sometimes"}), "tool_choice.type"),
        (request(tool_choice={"type": "none", "name": "x"}), "Extra inputs"),
        (request(tool_choice={"type": "auto"}, tools=[]), "while providing tools"),
        (request(tool_choice={"type": "tool", "name": "x"}, model="claude-opus-5"), "not found in provided tools"),
        (request(tool_choice={"type": "any"}, model="claude-opus-5", max_tokens=0), "max_tokens is 0"),
        (request(thinking={"type": "disabled"}), "not supported"),
        (request(thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=4000), "not supported"),
        (request(thinking={"type": "between_tools"}, model="claude-haiku-5-5"), "not supported"),
        (request(thinking={"type": "deep"}), "thinking.type"),
        (request(thinking={"type": "adaptive", "display": "loud"}), "display"),
        (request(thinking={"type": "enabled", "budget_tokens": 10}, model="claude-opus-5"), "at least 1024"),
        (request(thinking={"type": "enabled", "budget_tokens": 1024}, model="claude-opus-5"), "less than max_tokens"),
    ],
)
def test_settings_that_the_service_refuses_are_refused_in_its_own_words(refused: Any, said: str) -> None:
    """One line that names the field."""
    with pytest.raises(Refused, match=said):
        check(refused)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (request(messages=[]), "at least one message"),
        (request("hello"), "valid dictionary"),
        (request(assistant(text())), "first message"),
        (request(user(), assistant(text())), "prefill"),
        (request(user(), {"role": "system", "content": "x"}, user()), "Input should be"),
        (request({"role": "user", "content": "x", "name": "Ann"}), "Extra inputs"),
        (request({"role": "user", "content": []}), "non-empty content"),
        (request({"role": "user", "content": ""}), "non-empty content"),
        (request({"role": "user"}), "valid list"),
        (request(user("hi")), "valid dictionary"),
        (request(user({"type": "hologram"})), "expected tags"),
        (request(user({"type": ["text"]})), "expected tags"),
        (request(user(text(""))), "non-empty"),
        (request(user(text(" \n"))), "non-whitespace"),
        (request(user(text("", cache_control=MARK))), "cannot be set for empty text"),
        (request(user(text(colour="red"))), "text.colour: Extra inputs"),
        (request(user({"type": "text"})), "text.text: Field required"),
        (request(user({"type": "text", "text": 7})), "valid string"),
        (request(user(text(citations=[{}]))), "citations"),
        (request(user(CALL)), "only be in `assistant`"),
        (request(user(), assistant(RESULT), user()), "only be in `user`"),
        (request(user(), assistant(text(), {**PICTURE}), user()), "only be in `user`"),
        (request(user({**PICTURE, "source": {"type": "base64", "media_type": "image/bmp", "data": ""}})), "media_type"),
        (request(user({**PICTURE, "source": {"type": "base64", "media_type": "image/png", "data": "%"}})), "base64"),
        (request(user({**PICTURE, "source": {"type": "url"}})), "url.url: Field required"),
        (request(user({"type": "document", "source": {"type": "tape"}})), "expected tags"),
        (request(user(), assistant({**CALL, "input": None}), user(RESULT)), "valid dictionary"),
        (request(user(), assistant({**CALL, "id": "a b"}), user(RESULT)), "pattern"),
        (request(user(), assistant({**CALL, "name": "a b"}), user(RESULT)), "pattern"),
        (request(user(), assistant({**CALL, "text": "x"}), user(RESULT)), "Extra inputs"),
        (_result(is_error="true"), "valid boolean"),
        (_result(is_error=None), "valid boolean"),
        (_result(content=7), "valid string"),
        (_result(content=""), "non-empty"),
        (_result(content=[], is_error=True), "cannot be empty"),
        (_result(content=[text("")]), "non-empty"),
        (_result(content=[CALL]), "not expected in a tool_result"),
        (_result(content=["x"]), "not expected in a tool_result"),
    ],
)
def test_blocks_that_the_service_refuses_are_refused_by_name(refused: Any, said: str) -> None:
    """Each kind of block, in whose message, with which fields."""
    with pytest.raises(Refused, match=said):
        check(refused)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (request(user(), assistant(CALL), user()), "without `tool_result`"),
        (request(user(), assistant(CALL), model="claude-opus-5"), "without `tool_result`"),
        (request(user(RESULT)), "unexpected `tool_use_id`"),
        (request(user(), assistant(CALL), user(RESULT, RESULT)), "single result"),
        (request(user(), assistant(CALL), user(text(), RESULT)), "must come first"),
        (request(user(), assistant(CALL), user(PICTURE, RESULT)), "must come first"),
        (request(user(), assistant(CALL, CALL), user(RESULT)), "must be unique"),
        (request(user(), assistant(CALL), user(RESULT), assistant(CALL), user(RESULT)), "must be unique"),
        (request(user(), assistant(CALL), user(RESULT), tools=[]), "must define tools"),
        (request(user(*[text(cache_control=MARK)] * 5)), "maximum of 4"),
        (request(user(*[text(cache_control=MARK)] * 4), cache_control=MARK), "Found 5"),
        (request(user(text(cache_control=MARK), text(cache_control=HOUR))), "ttl='1h'"),
        (request(cache_control={"type": "ephemeral", "ttl": "1d"}), "ttl"),
        (request(cache_control={"type": "forever"}), "ephemeral"),
        (
            request(user(), assistant({"type": "thinking", "thinking": "x", "signature": "s", "cache_control": MARK})),
            "thinking.cache_control: Extra inputs",
        ),
    ],
)
def test_an_order_that_the_service_refuses_is_refused(refused: Any, said: str) -> None:
    """Calls, results and marks."""
    with pytest.raises(Refused, match=said):
        check(refused)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a": "\\ud800"}', "no low surrogate"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": 1e400}', "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": "\xff"}', "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
    ],
)
def test_a_body_that_no_exact_json_is_is_refused(body: bytes, said: str) -> None:
    """It would poison every later request of that thread."""
    with pytest.raises(Refused, match=said):
        parsed(body)


def test_escaped_pairs_and_ordinary_numbers_are_read() -> None:
    """What only looks like those is taken."""
    assert parsed(b'{"a": "\\ud83d\\ude00", "b": 1e100, "c": "NaN"}') == {"a": "😀", "b": 1e100, "c": "NaN"}
