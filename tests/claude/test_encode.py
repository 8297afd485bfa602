"""Requests as bytes: what the SDK would have sent, from pieces that are encoded once, with marks by rule."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bot.claude.encode import Encoder, without_thinking
from bot.core.item import Item, Message, said
from bot.engine.ports import ModelRequest
from bot.lab.messages_cache import PromptCache
from bot.lab.messages_rules import check
from tests.builders import GET_ORDER, ISSUE_CREDIT
from tests.claude.asked import LONG, SHORT, conversation, request, spelled, turn

SAID = Message("assistant", (Item("assistant", ({"type": "text", "text": "Because."},)),))


def _sent(asked: ModelRequest) -> Any:
    return json.loads(Encoder().body(asked))


def _marks(sent: Any) -> dict[tuple[int, int], Any]:
    return {
        (at, number): block["cache_control"]
        for at, message in enumerate(sent["messages"])
        for number, block in enumerate(message["content"])
        if "cache_control" in block
    }


@pytest.mark.parametrize(
    ("asked", "marks"),
    [
        (request(), {(0, 0): SHORT}),
        (request(conversation(3)), {(4, 0): SHORT, (6, 0): SHORT}),
        (request(conversation(3), wait_likely=True), {(4, 0): LONG, (6, 0): LONG}),
        (request(conversation(1), previous_id="msg_1"), {(0, 0): SHORT, (2, 0): SHORT}),
        (request(conversation(1, calls=7)), {(0, 0): SHORT, (2, 6): SHORT}),
        (request(conversation(1, calls=8)), {(0, 0): SHORT, (2, 5): SHORT, (2, 7): SHORT}),
        (request(conversation(1, calls=20), wait_likely=True), {(0, 0): LONG, (1, 14): LONG, (2, 19): LONG}),
        (request(tools=(), role="router"), {}),
        (request(tools=()), {(0, 0): SHORT}),
        (request([*conversation(0), SAID, *conversation(0)], tools=()), {(0, 0): SHORT, (2, 0): SHORT}),
    ],
)
def test_a_request_says_what_the_sdk_would_have_been_told(asked: ModelRequest, marks: Any) -> None:
    """And the service takes it; every mark stands where the rules put it."""
    sent = _sent(asked)

    check(json.loads(json.dumps(sent)))
    assert sent == spelled(asked, marks) | {"stream": True}


@pytest.mark.parametrize("calls", range(0, 60, 3))
@pytest.mark.parametrize("waits", [False, True])
def test_there_are_never_more_than_four_marks_and_long_lives_come_first(calls: int, waits: bool) -> None:
    """Whatever the turn is like; and none on thinking, which cannot bear one."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    wide = Item("assistant", (*[thought] * calls, *turn(0, calls + 1)[0].content))
    messages = [*conversation(2), Message("assistant", (wide,)), turn(0, calls + 1)[1]]

    sent = _sent(request(messages, wait_likely=waits))

    lives = [sent["system"][0]["cache_control"], *_marks(sent).values()]
    assert len(lives) <= 4
    assert lives == sorted(lives, key=lambda one: one.get("ttl", "5m"))
    marked = [sent["messages"][at]["content"][number]["type"] for at, number in _marks(sent)]
    assert "thinking" not in marked


def test_people_who_write_into_a_turn_move_the_mark_behind_their_words() -> None:
    """Results and words are one message; its last block is marked."""
    asked, results = conversation(1)[:2], conversation(1)[2]
    spoken = Message("user", (*results.items, said("user", "and hurry")))

    assert _marks(_sent(request([*asked, spoken]))) == {(0, 0): SHORT, (2, 1): SHORT}


def test_each_request_begins_with_the_bytes_of_the_last_one_up_to_its_first_moving_mark() -> None:
    """Tools, system, messages in that order; what differs from call to call stands behind them."""
    encoder, messages = Encoder(), conversation(6)
    bodies = [
        encoder.body(request(messages[:end], max_output_tokens=100 + end, previous_id=f"msg_{end}"))
        for end in range(1, 14, 2)
    ]

    for earlier, later in pairwise(bodies):
        same = min(place for place, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b)
        assert b'"cache_control"' in earlier[max(0, same - 60) : same + 60]
        assert earlier[:same].count(b'"role"') >= earlier.count(b'"role"') - 2


@pytest.mark.parametrize("calls", [1, 4, 12, 25, 40])
def test_a_later_request_reads_everything_the_last_one_wrote(calls: int) -> None:
    """Reckoned by the scripted service's cache, which looks back over twenty blocks: wide turns too."""
    cache, messages, before = PromptCache(lambda: 0.0), conversation(5, calls, 300), 0
    for end in range(1, len(messages) + 1, 2):
        sent = _sent(request(messages[:end]))
        looked = cache.look(sent)
        cache.keep(looked)
        assert looked.usage["cache_read_input_tokens"] == before
        assert looked.usage["input_tokens"] == 0
        before = looked.marked_tokens


def test_what_is_cached_outlives_a_wait_that_was_likely() -> None:
    """Twenty minutes for an approval; without the hint only tools and system are left."""
    for waits, left in ((True, 1.0), (False, 0.5)):
        now, cache = [0.0], PromptCache(lambda: now[0])  # noqa: B023  asked within this round alone
        first = _sent(request(conversation(2, size=3000), wait_likely=waits))
        cache.account(first)
        now[0] = 1200.0
        looked = cache.look(_sent(request(conversation(3, size=3000), wait_likely=waits)))
        share = looked.usage["cache_read_input_tokens"] / cache.look(first).marked_tokens
        assert share == 1.0 if left == 1.0 else share < left


def test_system_and_tools_are_encoded_once_for_each_pair() -> None:
    """The same objects; other tools or another prompt are never mistaken for them."""
    encoder = Encoder()
    seen = [
        json.loads(encoder.body(request(tools=tools, system=system)))
        for _ in range(2)
        for tools in ((GET_ORDER.spec,), (ISSUE_CREDIT.spec, GET_ORDER.spec), ())
        for system in ("one", "two", "")
    ]

    assert seen[:9] == seen[9:]
    assert [("tools" in one, one.get("system", [{}])[0].get("text")) for one in seen[:3]] == [
        (True, "one"),
        (True, "two"),
        (True, None),
    ]
    assert [[tool["name"] for tool in one.get("tools", [])] for one in seen[:9:3]] == [
        ["get_order"],
        ["get_order", "issue_credit"],
        [],
    ]


def test_tools_that_are_gone_lend_their_place_to_no_others() -> None:
    """Python gives the address of a dead object to the next one."""
    encoder = Encoder()
    for number in range(100):
        spec = replace(GET_ORDER.spec, name=f"tool_{number}")
        [sent] = json.loads(encoder.body(request(tools=[spec])))["tools"]
        assert sent["name"] == f"tool_{number}"
        del spec


def test_a_message_is_never_encoded_twice() -> None:
    """A hundred turns cost a join: no block is looked into again."""
    messages = conversation(100)
    Encoder().body(request(messages))
    for message in messages:
        message.__dict__["encoded"] = b'{"x":1}'
        for item in message.items:
            item.__dict__["encoded"] = tuple(b'{"x":1}' for _ in item.encoded)

    marked = [one for one in messages if one.role == "user"][-2:]
    wanted = len(messages) - len(marked) + sum(one.width for one in marked)
    assert Encoder().body(request(messages)).count(b'"x":1') == wanted


def test_nothing_of_a_request_is_changed_by_sending_it() -> None:
    """Marks are put on copies."""
    asked = request(conversation(2, calls=20))
    before = repr(asked.messages)

    Encoder().body(asked)

    assert repr(asked.messages) == before


def test_without_thinking_the_rest_stays_as_it_was() -> None:
    """A reply of thinking alone disappears; when there is none, there is nothing to try."""
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    sealed = {"type": "redacted_thinking", "data": "d"}
    both = Message("assistant", (Item("assistant", (thought, sealed, {"type": "text", "text": "so"})),))
    alone = Message("assistant", (Item("assistant", (thought,)),))
    asked = request([*conversation(0), both, *conversation(0), alone, *conversation(0)])

    Encoder().body(asked)
    bare = without_thinking(asked)

    assert bare is not None
    assert [one.dump()["content"][0]["text"] for one in bare.messages] == ["why? 😀", "so", "why? 😀", "why? 😀"]
    assert b"thinking" not in Encoder().body(bare)
    assert without_thinking(bare) is None
