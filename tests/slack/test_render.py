"""What people see of an effect: exact, inert, within Slack's limits, whatever the text is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.effects import Answer, Card, CardCall, CardLink, Notice, Progress, Whisper
from bot.engine.ports import Piece
from bot.lab.slack_limits import message_faults
from bot.slack.approvals import exact
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


def _card(arguments: dict[str, Any], **fields: Any) -> Card:
    call = CardCall(
        approval_id="apr-1",
        tool="pay",
        authority="critical",
        arguments=arguments,
        critical=list(arguments)[:1],
        digest="d" * 64,
        **fields,
    )
    return Card(
        key="c", asker="U0ALICE", why="w", approvers=["U0CAROL"], expires_at="2026-12-02T09:00:00Z", calls=[call]
    )


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


ARGUMENTS = st.dictionaries(
    st.text("abcdef_", min_size=1, max_size=8),
    st.one_of(st.text(max_size=4000), st.integers(-(2**53), 2**53), st.booleans(), st.lists(st.text(max_size=50))),
    min_size=1,
    max_size=6,
)


@settings(max_examples=120, deadline=None)
@given(ARGUMENTS)
def test_a_card_shows_every_argument_exactly_and_nothing_changes_its_shape(arguments: dict[str, Any]) -> None:
    """Reading the card back gives the canonical arguments; all of it is plain text."""
    pieces = render(_card(arguments), {}, HOSTS)

    blocks = [block for piece in pieces for block in piece.body["blocks"]]
    assert all(message_faults("chat.postMessage", dict(piece.body)) is None for piece in pieces)
    assert sum(block["type"] == "actions" for block in blocks) == 1
    shown = "".join(block["text"]["text"] for block in blocks if block.get("text", {}).get("type") == "plain_text")
    for name, value in arguments.items():
        assert f"{name} = {exact(value)}" in shown
        readable = re.sub(r"⟨(\d+) spaces⟩", lambda run: " " * int(run[1]), exact(value))
        if "⟨" not in json.dumps(value, ensure_ascii=False):
            assert json.loads(readable) == value


@pytest.mark.parametrize("hidden", ["\u202e", "\u3164", "\u2800", "\u00ad", "\u00a0", "\U000e0041", "\u200d", "\n"])
def test_nothing_on_a_card_is_invisible(hidden: str) -> None:
    """What is approved is what is seen."""
    assert hidden not in exact(f"a{hidden}b")
    assert json.loads(exact(f"a{hidden}b")) == f"a{hidden}b"


def test_a_value_cannot_hide_below_a_fold_of_blanks() -> None:
    """Runs of spaces and line feeds are counted, every section is unfolded."""
    [piece] = render(_card({"text": "hello" + " " * 3000 + "\n" * 500 + "pay now"}), {}, HOSTS)

    whole = json.dumps(piece.body["blocks"], ensure_ascii=False)
    assert "⟨3000 spaces⟩" in whole and "pay now" in whole
    assert all(block.get("expand") for block in piece.body["blocks"] if block["type"] == "section")


def test_buttons_stand_with_their_call_s_name_and_digest_even_on_a_huge_card() -> None:
    """Thirty calls over several messages; each Approve names its own."""
    calls = [
        CardCall(
            approval_id=f"apr-{n}", tool=f"tool_{n}", authority="send", arguments={"t": "x" * 900}, digest=f"{n:064d}"
        )
        for n in range(30)
    ]
    card = _card({"a": 1}).model_copy(update={"calls": calls})

    for piece in render(card, {}, HOSTS):
        blocks = piece.body["blocks"]
        for place, block in enumerate(blocks):
            if block["type"] == "actions":
                number = block["block_id"].removeprefix("decide:apr-")
                assert f"tool_{number}, digest {int(number):064d}" in blocks[place - 1]["elements"][0]["text"]
                assert [one["value"] for one in block["elements"]] == [f"apr-{number}"] * 2


@pytest.mark.parametrize("status", ["approved", "denied", "expired", "voided"])
def test_a_decided_card_has_no_buttons_and_says_who(status: Any) -> None:
    """On every surface the same."""
    [piece] = render(_card({"a": 1}, status=status, decided_by=["U0CAROL"], note="<!channel> ok"), {}, HOSTS)

    whole = json.dumps(piece.body["blocks"])
    assert '"actions"' not in whole
    assert "<@U0CAROL>" in whole and "&lt;!channel&gt; ok" in whole


def test_a_message_that_is_no_longer_needed_says_so() -> None:
    """A card that became shorter leaves no old buttons behind."""
    pieces = render(_card({"a": 1}), {"c": "1.0", "c#2": "2.0"}, HOSTS)

    assert [piece.key for piece in pieces] == ["c", "c#2"]
    assert "actions" not in json.dumps(pieces[1].body)


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
