"""A log in sentences: who did what, on whose word; readable even when somebody has changed it."""

from __future__ import annotations

from typing import Any

import pytest

from bot.console.narrate import LONGEST, narrate, sentence, visible
from bot.core import events as e
from bot.core.events import EVENT_TYPES
from tests.console.logs import HOSTILE, changed, log, sealed


def test_a_whole_run_is_told_step_by_step() -> None:
    """Question, reading, the held call with its exact arguments, who was refused, who approved, the answer."""
    told = "\n".join(narrate(log("Broken.")))

    for words in (
        "U0ALICE (trust principal): Broken.",
        "call-1 returned (trust untrusted): Broken.",
        "call-2: issue_credit(order_id = 4921, amount_cents = 19500, note = Broken.), class critical",
        "held because critical is above the ceiling",
        "U0MALLORY on apr-1: refused, U0MALLORY may not approve",
        "apr-1 approved by U0CAROL: Broken.",
        "call-2, idempotency key key-call-2",
        "answered / end_turn (2 model calls, $0.1000",
    ):
        assert words in told, words


def test_every_line_can_be_printed_whatever_was_written() -> None:
    """Nothing moves the cursor, starts a line of its own, or hides."""
    lines = narrate(log(HOSTILE))

    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if line.startswith(("#", "`", "~", "<"))] == []
    assert all(sentence(entry).replace("\n", "").isprintable() for entry in log(HOSTILE))


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (e.RouteChosen(path="plan", why="two systems"), "plan: two systems"),
        (e.RouteChosen(path="react"), "react"),
        (
            e.PlanCommitted(steps=[{"tool": "get_order", "why": "the state"}]),
            'revision 0, 1 steps\n1. {"tool": "get_order", "why": "the state"}',
        ),
        (e.Critiqued(ok=False, notes="no source"), "found something wrong: no source"),
        (e.Critiqued(ok=True), "found nothing wrong: "),
        (
            e.Compacted(summary="Short.", through_seq=7, why="window", by_model=True),
            "everything up to 7 left the prompt (window); summary by a model: Short.",
        ),
        (
            e.ModelRequested(turn=2, role="critique", reserved_tokens=9, model="m"),
            "critique question of m; 9 tokens reserved",
        ),
        (
            e.ModelReplied(
                turn=2,
                content=[],
                stop_reason="end_turn",
                usage=e.Usage(),
                cost_usd=0,
                cache_miss_reason="tools_changed",
            ),
            "turn 2, end_turn; said nothing (0 tokens in, 0 out, $0.0000, cache missed: tools_changed)",
        ),
        (
            e.RunStarted(run_id="r", principal="U0A", deadline="", pins={}, fresh=True, policy_version="abc"),
            "on the word of U0A, with a fresh context; policy abc…",
        ),
    ],
)
def test_what_the_loop_decided_by_itself_is_told_in_words(event: e.Event, told: str) -> None:
    """An auditor sees why the conversation looks as it does."""
    assert sentence(sealed([event])[0]) == told


@pytest.mark.parametrize("name", ["at", "type", "run"])
def test_a_head_that_somebody_changed_cannot_draw_on_the_terminal(name: str) -> None:
    """An auditor looks at exactly such logs."""
    fields: dict[str, Any] = {name: "x\x1b[2J\n   9  everything is fine"}

    lines = narrate(changed(log(), 2, **fields))

    assert all(line.isprintable() for line in lines)
    assert not any(line.lstrip().startswith("9  everything") for line in lines)


@pytest.mark.parametrize("kind", [*sorted(EVENT_TYPES), "Unheard", ""])
@pytest.mark.parametrize("payload", [{}, {"text": 7, "content": None, "arguments": [], "by": 3, "usage": "x"}])
def test_an_entry_that_is_not_as_it_should_be_is_shown_all_the_same(kind: str, payload: dict[str, Any]) -> None:
    """Changed by somebody, or written by another version."""
    [entry] = [one for one in changed(log(), 1, type=kind, payload=payload) if one.seq == 1]

    assert isinstance(sentence(entry), str)


def test_an_erased_payload_is_said_to_be_erased() -> None:
    """With its digest, which the chain still covers."""
    entry = changed(log(), 1, payload=None, salt=None)[0]

    assert sentence(entry) == f"(erased; digest {entry.payload_digest[:16]}…)"


def test_a_long_text_is_shortened_and_says_by_how_much() -> None:
    """The export has the whole."""
    told = "\n".join(narrate(log("x" * (LONGEST + 7))))

    assert f"{'x' * LONGEST} [… 7 more characters]" in told


def test_what_can_be_read_is_left_alone() -> None:
    """Letters of any language, and the line feed."""
    assert visible("Grüße, 你好\nשלום 🛳") == "Grüße, 你好\nשלום 🛳"
