"""The stand-in of the Messages API is as strict as the API, and accounts as it does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bot.lab.messages_cache import PromptCache
from bot.lab.messages_rules import Refused, check
from bot.lab.messages_script import Turn
from bot.lab.story_brain import QUESTIONS, StoryBrain

MODEL = "claude-sonnet-5-5"
TOOL = {"name": "look", "description": "d", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}


def _text(text: str = "hi") -> dict[str, Any]:
    return {"type": "text", "text": text}


def _user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks or [_text()])}


def _assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def _request(*messages: Any, **fields: Any) -> dict[str, Any]:
    found = {"model": MODEL, "max_tokens": 100, "messages": list(messages or [_user()]), "tools": [TOOL]}
    return found | fields


def test_an_ordinary_conversation_is_taken() -> None:
    """Results first, then words."""
    check(_request(_user(), _assistant(_text(), CALL), _user(RESULT, _text())))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (_request(temperature=0), "sampling parameters"),
        (_request(colour="red"), "Extra inputs"),
        (_request(model="claude-2"), "model"),
        (_request(max_tokens=0.5), "max_tokens"),
        (_request(max_tokens=10**9), "max_tokens"),
        (_request(messages=[]), "at least one message"),
        (_request(_assistant(_text())), "first message"),
        (_request(_user(), _assistant(_text())), "prefill"),
        (_request(_user(_text(" \n"))), "non-whitespace"),
        (_request(_user(), _assistant(CALL), _user()), "without `tool_result`"),
        (_request(_user(RESULT)), "unexpected `tool_use_id`"),
        (_request(_user(), _assistant(CALL), _user(RESULT, RESULT)), "single result"),
        (_request(_user(), _assistant(CALL), _user(_text(), RESULT)), "must come first"),
        (_request(_user(), _assistant(CALL, CALL), _user(RESULT)), "must be unique"),
        (_request(_user(), _assistant(CALL), _user(RESULT), tools=[]), "must define tools"),
        (_request(_user(), {"role": "system", "content": "x"}, _user()), "Input should be"),
        (_request({"role": "user", "content": []}), "non-empty content"),
        (_request(tools=[TOOL, TOOL]), "unique"),
        (_request(tools=[{**TOOL, "name": "bad name"}]), "pattern"),
        (_request(tools=[{"name": "look"}]), "input_schema"),
        (_request(tool_choice={"type": "any"}), "tool_choice"),
        (_request(thinking={"type": "disabled"}), "thinking"),
        (_request(_user(*[{**_text(), "cache_control": {"type": "ephemeral"}}] * 5)), "maximum of 4"),
        (
            _request(
                _user(
                    {**_text(), "cache_control": {"type": "ephemeral"}},
                    {**_text(), "cache_control": {"type": "ephemeral", "ttl": "1h"}},
                )
            ),
            "ttl='1h'",
        ),
        ([], "not an object"),
    ],
)
def test_what_the_service_refuses_is_refused_in_its_own_words(request_: Any, said: str) -> None:
    """So that what passes here passes there."""
    with pytest.raises(Refused, match=said):
        check(request_)


def test_a_prefix_that_was_written_is_read_by_the_next_request_and_forgotten_in_time() -> None:
    """By marks; five minutes or an hour; nothing below the least size."""
    now = [0.0]
    cache = PromptCache(now=lambda: now[0])
    mark = {"type": "ephemeral"}
    first = _request(_user({**_text("a " * 3000), "cache_control": mark}))
    second = copy.deepcopy(first)
    second["messages"] += [_assistant(_text("b")), _user({**_text("c " * 800), "cache_control": mark})]

    wrote = cache.account(first)
    read = cache.account(second)
    now[0] = 301.0
    again = cache.account(second)

    assert wrote["cache_read_input_tokens"] == 0 and wrote["cache_creation_input_tokens"] > 1000
    assert read["cache_read_input_tokens"] == wrote["cache_creation_input_tokens"]
    assert again["cache_read_input_tokens"] == 0
    assert (
        sum(
            cache.account(_request(_user({**_text("tiny"), "cache_control": mark})))[name]
            for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
        )
        == 0
    )


def _asked(question: str, *turns: tuple[str, dict[str, Any], Any]) -> Turn:
    messages: list[dict[str, Any]] = [_user(_text(f"[U0ALICE wrote]\n{question}"))]
    for number, (tool, arguments, result) in enumerate(turns):
        messages.append(_assistant({"type": "tool_use", "id": f"c{number}", "name": tool, "input": arguments}))
        messages.append(_user({"type": "tool_result", "tool_use_id": f"c{number}", "content": result}))
    reply = StoryBrain().reply({"messages": messages, "tools": [TOOL]})
    assert isinstance(reply, Turn)
    return reply


def test_the_story_s_model_goes_by_what_it_reads_and_says_that_it_is_scripted() -> None:
    """It knows three questions; for anything else it says so."""
    assert [call.name for call in _asked(QUESTIONS[0]).calls] == ["find_tickets", "get_order", "get_shipment"]
    assert "scripted" in _asked("What is the meaning of life?").text
    where = _asked(QUESTIONS[2], ("get_shipment", {}, '{"state": "delivered", "delivered_on": "2026-11-01"}'))
    assert "delivered on 2026-11-01" in where.text
    assert "could not find" in _asked(QUESTIONS[2], ("get_shipment", {}, "There is no order")).text
