"""What people see of an effect: exact, inert, within Slack's limits, whatever the text is."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.effects import Answer, CardLink, Notice, Progress, Whisper
from bot.engine.ports import Piece
from bot.lab.slack_limits import message_faults
from bot.slack.render import PIECES, render

HOSTS = ("docs.example.com",)
LIVE = re.compile(r"<(?!@U0ALICE>)[^>]*>")
HOSTILE = st.one_of(
    st.text(),
    st.text("<>&|!@#*_~`[]()\\ \n-:/.hxt"),
    st.sampled_from(
        [
            "<!channel> <@U0BOB> <#C1> <!subteam^S1>",
            "[paypal.com](https://evil.example/x)",
            "![x](https://evil.example/p.png)",
            "see http://[host]/path and www.[x and http://a\u2100b.com and https://\u4f8b\u3048.jp/x",
            "https://docs.example.com/|https://paypal.com/refund",
            "|" + "a" * 300 + "|\n|-|\n" + "|x|\n" * 80,
            ">" * 60 + " deep",
            "```\n" + "x" * 9000 + "\n```",
            "&lt;!here&gt; &amp;lt;",
        ]
    ),
)


def _texts(piece: Piece) -> list[str]:
    texts = [str(piece.body.get("text", ""))]
    for block in piece.body.get("blocks") or []:
        text = block.get("text")
        texts += [text["text"]] if isinstance(text, dict) and text["type"] == "mrkdwn" else []
    return texts


def _answer(text: str, **fields: Any) -> Answer:
    given: dict[str, Any] = {"outcome": "answered", "stop_reason": "end_turn", "by_model": True, "asker": "U0ALICE"}
    return Answer(key="a", text=text, **(given | fields))


@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_no_text_of_a_model_mentions_links_or_breaks_anything(text: str) -> None:
    """Escaped everywhere, no live token but the asker's name, within every limit, never empty."""
    pieces = render(_answer(text, outcome="partial", reference="ref-1"), {}, HOSTS)

    assert 1 <= len(pieces) <= PIECES
    for piece in pieces:
        assert message_faults("chat.update", dict(piece.body)) is None
        for shown in _texts(piece):
            live = [one for one in LIVE.findall(shown) if not one.startswith("<https://docs.example.com")]
            assert live == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[the guide](https://docs.example.com/a)", "<https://docs.example.com/a|the guide>"),
        ("https://docs.example.com/a", "<https://docs.example.com/a>"),
        ("https://seen.example/a?b=1&c=2", "<https://seen.example/a?b=1&amp;c=2>"),
        ("https://seen.example/a?b=secret", "[link to seen[.]example left out]"),
        ("[paypal.com](https://docs.example.com/a)", "<https://docs.example.com/a>"),
        ("[paypal․com](https://docs.example.com/a)", "<https://docs.example.com/a>"),
        ("[paypal。com](https://docs.example.com/a)", "<https://docs.example.com/a>"),
        ("[paypal.\u200bcom](https://docs.example.com/a)", "<https://docs.example.com/a>"),
        ("[paypal.**com**](https://docs.example.com/a)", "<https://docs.example.com/a>"),
        ("[paypal.`com`](https://docs.example.com/a)", "<https://docs.example.com/a>"),
        ("# a*b [**x**](https://docs.example.com/a*b)", "*a*b <https://docs.example.com/a*b|x>*"),
        ("[note]: <x> 'words'\n## H", "[note]: &lt;x&gt; 'words'\n\n*H*"),
        ("0. zero\n1. one", "0. zero\n1. one"),
        ("[click](https://evil.example/?d=secret)", "click [link to evil[.]example left out]"),
        ("https://docs.example.com@evil.example/", "[link to evil[.]example left out]"),
        ("http://[host]/path", "[link to an unreadable address left out]"),
        ("https://例え.jp/x", "[link to \\u4f8b\\u3048[.]jp left out]"),
        ("https://docs.example.com/|https://paypal.com", "<https://docs.example.com/%7Chttps://paypal.com>"),
        ("![chart](https://docs.example.com/x.png)", "[image left out: chart]"),
        ("**bold** *it* `code` ~~x~~ a & b < c", "*bold* _it_ `code` ~x~ a &amp; b &lt; c"),
        (
            "# Title\n\n- one\n- two\n  1. deep\n\n> said",
            "*Title*\n\n• one\n• two\n    1. deep\n\n&gt; said".replace("&gt;", ">"),
        ),
        ("| a | bb |\n|---|---|\n| 1 | 2 |", "```\na | bb\n--+---\n1 | 2\n```"),
    ],
)
def test_markdown_is_shown_as_slack_shows_it_and_links_only_where_they_are_known_good(text: str, shown: str) -> None:
    """Trusted URLs exactly, allowed hosts, honest labels."""
    [piece] = render(_answer(text, trusted_urls=["https://seen.example/a?b=1&c=2"]), {}, HOSTS)

    assert piece.body["blocks"][0]["text"]["text"] == shown


@given(st.text("abc \n&<", min_size=1, max_size=9000))
def test_a_long_answer_keeps_every_word_in_order(words: str) -> None:
    """However it is cut into messages."""
    text = "```\n" + words.replace("\n", "\n ") + "\n```"
    pieces = render(_answer(text), {}, HOSTS)

    shown = "".join(
        block["text"]["text"].removeprefix("```\n").removesuffix("\n```")
        for piece in pieces
        for block in piece.body["blocks"]
        if block["type"] == "section"
    )
    plain = shown.replace("&lt;", "<").replace("&amp;", "&")
    assert plain.split() == (words.split() or ["(no", "words", "came", "with", "this", "outcome)"])


@pytest.mark.parametrize("unit", ["[", "![", "[](", "[[a]", "*a _b ", "`", "> ", "- ", "<", "www."])
def test_an_odd_answer_takes_little_more_work_than_an_ordinary_one_of_its_length(unit: str) -> None:
    """A model's text must not hold up everybody's threads. Work is counted in calls: the parser is plain Python."""

    def work(text: str) -> int:
        counted = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal counted
            counted += event == "call"

        sys.setprofile(count)
        try:
            render(_answer(text), {}, HOSTS)
        finally:
            sys.setprofile(None)
        return counted

    ordinary = work("some *words* and a [link](https://docs.example.com/a)\n\n" * 1_200)

    assert work(unit * (60_000 // len(unit))) < ordinary * 4


@pytest.mark.parametrize("depth", [10, 44, 50, 99, 100, 400])
@pytest.mark.parametrize("unit", ["> ", "- ", "1. "])
def test_no_depth_of_nesting_swallows_words(unit: str, depth: int) -> None:
    """What the parser would drop is shown as it was written."""
    shown = json.dumps([piece.body for piece in render(_answer(unit * depth + "deep words"), {}, HOSTS)])

    assert shown.count("deep words") == 2  # in the message and in its notification


def test_a_link_is_not_cut_in_two() -> None:
    """Wherever a section ends."""
    for words in range(560, 600):
        text = "word " * words + "[a label of words](https://docs.example.com/a) " * 9
        [piece] = render(_answer(text), {}, HOSTS)
        texts = [block["text"]["text"] for block in piece.body["blocks"]]
        assert sum(one.count("<https://docs.example.com/a|a label of words>") for one in texts) == 9


def test_only_passing_progress_may_be_skipped() -> None:
    """The last word of a run is said."""
    states = {
        state: render(Progress(key="p", steps=["x" * 500] * 40, state=state), {}, HOSTS)[0]
        for state in ("working", "waiting", "done", "stopped")
    }

    assert [state for state, piece in states.items() if piece.body.get("skippable")] == ["working"]
    assert all(message_faults("chat.update", dict(piece.body)) is None for piece in states.values())
    assert "28 earlier steps" in states["done"].body["text"]


def test_our_own_lines_mention_people_and_nothing_else_in_them_is_live() -> None:
    """Notices, whispers and links to cards."""
    text = "<@U0ALICE> <!channel> & <https://evil.example|x> <@u;x>"
    pieces = [
        *render(Notice(key="n", text=text), {}, HOSTS),
        *render(Whisper(key="w", user="U0BOB", text=text), {}, HOSTS),
        *render(CardLink(key="l", channel="C1", card_key="c", summary=text), {"c": "1.0"}, HOSTS),
    ]

    for piece in pieces:
        assert all(LIVE.findall(shown) == [] and "<@U0ALICE>" in shown for shown in _texts(piece))
