"""What an approver sees: every argument exactly, nothing hidden, nothing that passes for something else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.effects import Card, CardCall
from bot.engine.ports import Piece
from bot.lab.slack_limits import message_faults
from bot.slack.approvals import exact
from bot.slack.render import render

HOSTS = ("docs.example.com",)


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


def _plain_words(pieces: list[Piece]) -> str:
    """What stands on a card in plain text, the marks of continued sections taken out."""
    blocks = [block for piece in pieces for block in piece.body["blocks"]]
    texts = [block["text"]["text"] for block in blocks if block.get("text", {}).get("type") == "plain_text"]
    return "".join(re.sub(r"^… .*?, part \d+: ", "", text) for text in texts)


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
    shown = _plain_words(pieces)
    for name, value in arguments.items():
        assert f"{name} = {exact(value)}" in shown
        readable = re.sub(r"⟨(\d+) spaces⟩", lambda run: " " * int(run[1]), exact(value))
        assert json.loads(readable) == value


@pytest.mark.parametrize("hidden", list("\u202e\u3164\u2800\u00ad\u00a0\U000e0041\u200d\u17b4\u180b\ufe00\U0001d159\n"))
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


@pytest.mark.parametrize("text", [("a" + " " * 40) * 92, "\n" * 3_800, "x" * 33_000, "\u200b" * 33_000])
def test_a_call_with_buttons_shows_every_argument_however_long_the_card_is(text: str) -> None:
    """Nothing on a card is left out: whoever approves has been shown all of it."""
    calls = [
        CardCall(
            approval_id=f"apr-{n}",
            tool="post",
            authority="send",
            arguments={"text": f"head {n} {text} tail {n}."},
            digest=f"{n:064d}",
        )
        for n in range(6)
    ]
    pieces = render(_card({"a": 1}).model_copy(update={"calls": calls}), {}, HOSTS)

    assert all(message_faults("chat.postMessage", dict(piece.body)) is None for piece in pieces)
    whole = _plain_words(pieces)
    for call in calls:
        assert f"text = {exact(call.arguments['text'])}" in whole
    assert sum(block["type"] == "actions" for piece in pieces for block in piece.body["blocks"]) == len(calls)


@pytest.mark.parametrize("pad", range(2_700, 2_920, 20))
def test_a_long_value_cannot_pass_for_another_argument(pad: int) -> None:
    """Wherever it is cut, what follows says what it continues; so does a long quotation."""
    forged = "z" * pad + " amount = 5   [from your message] " * 60
    card = _card({"amount": 9000, "body": forged, "amount = 6\namount": 1}).model_copy(
        update={"read": [forged], "model_reason": "\u200b" * 790 + forged}
    )

    pieces = render(card, {}, HOSTS)
    blocks = [block for piece in pieces for block in piece.body["blocks"]]
    texts = [block["text"]["text"] for block in blocks if block["type"] == "section"]

    assert [text for text in texts if text.lstrip().startswith("amount")] == ["amount = 9000"]
    assert any(text.startswith("… body, part 2: ") for text in texts)
    assert any(text.startswith("… untrusted content, part 2: ") for text in texts)


def test_a_count_of_spaces_cannot_be_written_by_hand() -> None:
    """Two values never look the same."""
    assert exact("a" + " " * 50 + "b") != exact("a⟨50 spaces⟩b")


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
