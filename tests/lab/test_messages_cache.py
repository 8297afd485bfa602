"""The prompt cache accounts as the API does, held against a second reckoning that shares no code with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.lab.messages_cache import PromptCache, marks_of
from tests.lab.messages import CALL, HOUR, MARK, RESULT, assistant, request, text, user

LONG = "a word " * 400
"""More than the least that is cached."""


class Book:
    """What the service's guide says, word for word: every write by its exact prefix, searched anew each time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[tuple[str, float, float]] = []
        """Prefix as text, when it was last used, seconds it lives."""

    def reckon(self, asked: dict[str, Any]) -> dict[str, int]:
        """Read, written for 5 minutes, written for an hour, and the rest."""
        blocks, marks = _laid_out(asked)
        ends = [sum(-(-len(one.encode()) // 4) for one in blocks[: place + 1]) for place in range(len(blocks))]
        found = dict.fromkeys(marks, -1)
        for mark in marks:
            for place in range(mark, mark - 20, -1):
                if place >= 0 and self._alive(_upto(blocks, place)):
                    found[mark] = place
                    break
        for place in found.values():
            self._touch(_upto(blocks, place) if place >= 0 else "")
        read = max([ends[place] for place in found.values() if place >= 0], default=0)
        bill, reached = {"5m": 0, "1h": 0}, read
        for mark, life in sorted(marks.items()):
            if ends[mark] < 512:
                continue
            if ends[mark] > reached:
                bill[life] += ends[mark] - reached
                reached = ends[mark]
            if not self._alive(_upto(blocks, mark)):
                self.written.append((_upto(blocks, mark), self.now, 300.0 if life == "5m" else 3600.0))
        return {"read": read, "5m": bill["5m"], "1h": bill["1h"], "rest": (ends[-1] if ends else 0) - reached}

    def _alive(self, prefix: str) -> bool:
        return any(one == prefix and self.now < used + life for one, used, life in self.written)

    def _touch(self, prefix: str) -> None:
        self.written = [
            (one, self.now if one == prefix and self.now < used + life else used, life)
            for one, used, life in self.written
        ]


def _upto(blocks: list[str], place: int) -> str:
    return "\n".join(blocks[: place + 1])


def _laid_out(asked: dict[str, Any]) -> tuple[list[str], dict[int, str]]:
    """Blocks as text, and the marks by the place of their block. These requests use no more of the API than that."""
    parts = [*asked["system"], *(block for message in asked["messages"] for block in message["content"])]
    marks = {
        place: part["cache_control"].get("ttl", "5m") for place, part in enumerate(parts) if "cache_control" in part
    }
    bare = [{key: value for key, value in part.items() if key != "cache_control"} for part in parts]
    return [json.dumps(part, ensure_ascii=False) for part in bare], marks


def _told(cache: PromptCache, asked: dict[str, Any]) -> dict[str, int]:
    usage = cache.account(asked)
    created = usage["cache_creation"]
    assert usage["cache_creation_input_tokens"] == sum(created.values())
    return {
        "read": usage["cache_read_input_tokens"],
        "5m": created["ephemeral_5m_input_tokens"],
        "1h": created["ephemeral_1h_input_tokens"],
        "rest": usage["input_tokens"],
    }


@st.composite
def _talks(draw: st.DrawFn) -> list[tuple[float, dict[str, Any]]]:
    """Seconds that pass and a request, several times: the conversation grows, forks, is marked here and there."""
    words = [
        text(f"{number} {word}" * draw(st.sampled_from([1, 150, 700]))) for number, word in enumerate("abcdef" * 5)
    ]
    asked = list[tuple[float, dict[str, Any]]]()
    for _ in range(draw(st.integers(2, 6))):
        size = draw(st.integers(1, len(words)))
        system = [text("You help. " * draw(st.sampled_from([1, 300])))]
        blocks = copy.deepcopy(words[:size])
        if draw(st.booleans()):
            blocks[draw(st.integers(0, size - 1))] = text("fork")
        for place in draw(st.sets(st.integers(0, size - 1), max_size=3)):
            blocks[place]["cache_control"] = MARK
        if draw(st.booleans()):
            system[0]["cache_control"] = HOUR
        pause = draw(st.sampled_from([0.0, 1.0, 200.0, 299.0, 301.0, 3599.0, 3601.0]))
        asked.append((pause, request(user(*blocks), system=system, tools=[])))
    return asked


@settings(max_examples=300, deadline=None)
@given(_talks())
def test_every_bill_is_what_a_second_reckoning_says(talk: list[tuple[float, dict[str, Any]]]) -> None:
    """Reads, writes of both lives, and the rest; over growing, forking, expiring conversations."""
    book = Book()
    cache = PromptCache(now=lambda: book.now)
    for pause, asked in talk:
        book.now += pause
        assert _told(cache, asked) == book.reckon(asked)


def _marked(*blocks: Any) -> dict[str, Any]:
    last = {**blocks[-1], "cache_control": MARK}
    return request(user(*blocks[:-1], last), tools=[])


@pytest.fixture
def clock() -> list[float]:
    """The time, to be set."""
    return [0.0]


@pytest.fixture
def cache(clock: list[float]) -> PromptCache:
    """On that clock."""
    return PromptCache(now=lambda: clock[0])


def test_a_prefix_is_found_nineteen_blocks_back_and_no_further(cache: PromptCache) -> None:
    """An eleven-call turn makes more blocks than that, and pays for everything again (performance.md finding 7)."""
    first = [text(LONG)]
    wrote = _told(cache, _marked(*first))["5m"]

    assert _told(cache, _marked(*first, *[text(f"{number}") for number in range(19)]))["read"] == wrote
    assert _told(cache, _marked(*first, *[text(f"other {number}") for number in range(20)]))["read"] == 0


def test_two_marks_reach_what_one_cannot(cache: PromptCache) -> None:
    """The remedy of finding 7: a mark on each of the last two user messages."""
    first = user(text(LONG, cache_control=MARK))
    calls = [{**CALL, "id": f"c{number}"} for number in range(12)]
    results = [{**RESULT, "tool_use_id": f"c{number}"} for number in range(12)]
    wrote = _told(cache, request(first))["5m"]
    results[-1]["cache_control"] = MARK

    unmarked = request(user(text(LONG)), assistant(*calls), user(*results))
    assert _told(cache, unmarked)["read"] == 0
    other = [{**one, "content": "y"} for one in results]
    assert _told(cache, request(first, assistant(*calls), user(*other)))["read"] == wrote


def test_reading_keeps_a_prefix_alive_and_silence_ends_it(cache: PromptCache, clock: list[float]) -> None:
    """Five minutes from the last use, not from the write."""
    wrote = _told(cache, _marked(text(LONG)))["5m"]
    for _ in range(5):
        clock[0] += 299
        assert _told(cache, _marked(text(LONG)))["read"] == wrote
    clock[0] += 300
    assert _told(cache, _marked(text(LONG)))["read"] == 0


def test_a_mark_for_an_hour_makes_no_older_short_life_longer(cache: PromptCache, clock: list[float]) -> None:
    """Who wants to wait an hour must have written for an hour."""
    _told(cache, request(user(text(LONG, cache_control=MARK)), tools=[]))
    assert _told(cache, request(user(text(LONG, cache_control=HOUR)), tools=[]))["1h"] == 0
    clock[0] = 301
    assert _told(cache, request(user(text(LONG, cache_control=HOUR)), tools=[]))["1h"] > 0
    clock[0] = 3900
    assert _told(cache, request(user(text(LONG, cache_control=HOUR)), tools=[]))["read"] > 0


def test_what_is_too_short_is_never_cached_and_nothing_says_so(cache: PromptCache) -> None:
    """512 tokens; for some models 1,024 would do as well."""
    for _ in range(2):
        told = _told(cache, _marked(text("tiny")))
        assert (told["read"], told["5m"]) == (0, 0) and told["rest"] > 0


@pytest.mark.parametrize(
    "change",
    [
        lambda asked: asked | {"model": "claude-opus-5-5"},
        lambda asked: asked | {"speed": "fast"},
        lambda asked: asked | {"tools": [{**asked["tools"][0], "description": "other"}]},
        lambda asked: asked | {"system": "You help."},
        lambda asked: asked | {"tool_choice": {"type": "none"}},
        lambda asked: asked | {"thinking": {"type": "adaptive"}},
        lambda asked: asked | {"output_config": {"effort": "low"}},
        lambda asked: asked | {"messages": [assistant(*asked["messages"][0]["content"])]},
    ],
)
def test_whatever_shapes_the_prompt_is_part_of_its_prefix(cache: PromptCache, change: Callable[[Any], Any]) -> None:
    """A change of it reads nothing; the same again reads everything."""
    asked = request(user(text(LONG, cache_control=MARK)))
    wrote = _told(cache, asked)["5m"]

    assert _told(cache, change(copy.deepcopy(asked)))["read"] == 0
    assert _told(cache, asked)["read"] == wrote


def test_settings_of_the_messages_leave_tools_and_system_in_the_cache(cache: PromptCache) -> None:
    """Only what stands behind them is read anew."""
    asked = request(system=[text(LONG, cache_control=HOUR)])
    wrote = _told(cache, asked)["1h"]

    assert _told(cache, asked | {"thinking": {"type": "adaptive"}})["read"] == wrote > 0


def test_the_request_s_own_mark_sits_on_the_last_block_that_can_hold_one() -> None:
    """Never on thinking."""
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    asked = request(user(), assistant(text(), thought), cache_control=MARK, tools=[])

    assert list(marks_of(asked)) == [1]
    assert list(marks_of(request(user(text(cache_control=HOUR)), tools=[]))) == [0]
    inside = {**RESULT, "content": [text(cache_control=MARK)]}
    assert list(marks_of(request(user(), assistant(CALL), user(inside), tools=[]))) == [2]


def test_a_look_changes_nothing(cache: PromptCache) -> None:
    """A request that is refused after all leaves no trace; one whose reply has begun does."""
    looked = cache.look(_marked(text(LONG)))
    assert cache.look(_marked(text(LONG))) == looked
    cache.keep(looked)
    assert cache.look(_marked(text(LONG))).usage["cache_read_input_tokens"] == looked.marked_tokens
