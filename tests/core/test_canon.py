"""One encoding for each value."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.canon import MAX_DEPTH, canonical, clean, digest, hidden_characters, without_hidden

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)


@given(ANYTHING)
def test_whatever_a_tool_returns_can_be_logged_once_cleaned(value: Any) -> None:
    """Huge integers, infinities and lone surrogates never poison a thread."""
    assert json.loads(canonical(clean(value))) is not ...


def _fits(value: Any) -> Any:
    """Most of what is drawn has an encoding; what has none must have none on both sides."""
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats()
        | st.floats(-1e-3, 1e-3)
        | st.integers(-9, 9).map(float)
        | st.integers(-30, 30).map(lambda power: 10.0**power)
        | value,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.lists(inner, max_size=2).map(tuple)
            | st.dictionaries(value | st.integers(0, 3), inner, max_size=5)
        ),
        max_leaves=16,
    )


@settings(max_examples=600)
@given(_fits(st.text('aZ"\\/\x00\x1f\x7f\n\t\u2028é\ud7ff\ue000\uffff\U0001f600\ud800') | st.text(max_size=8)))
def test_the_bytes_are_the_reference_library_s_for_every_value(value: Any) -> None:
    """Written faster, not otherwise: keys beyond the basic plane, floats of every form, control characters."""
    try:
        expected = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        with pytest.raises(ValueError, match="no canonical JSON"):
            canonical(value)
        return

    assert canonical(value) == expected


@pytest.mark.parametrize("key", ["\U0001f600", "\U0010ffff", "é"])
def test_keys_stand_in_the_order_of_their_utf_16_units(key: str) -> None:
    """Not in that of their code points: an emoji comes before U+FFFF."""
    value = {"\uffff": 1, key: 2, "a": 3, "\ue000": 4}

    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [0.1, -2.5, 1e-4, 9.9e-5, 1e15, 1e15 + 0.5, 2.0, -0.0, 1e21, 5e-324, 123456789.25, 0.30000000000000004]
)
def test_numbers_with_a_fraction_are_written_as_the_reference_library_does(value: float) -> None:
    """At and around the borders of what is written without it."""
    assert canonical([value]) == rfc8785.dumps([value])


def test_cleaning_leaves_plain_values_alone() -> None:
    """Only what has no encoding is replaced."""
    value = {"a": [1, 1.5, "é", True, None], "b": {"c": ""}}

    assert clean(value) == value


def test_what_is_replaced_leaves_a_mark() -> None:
    """Nothing vanishes without a trace."""
    assert clean(2**60) == f"[integer {2**60}]"
    assert clean(10**5000) == "[integer of 16610 bits]"
    assert clean(math.inf) == "[not a finite number: inf]"
    assert clean("\ud800") == "\ufffd"
    assert clean({1: (2, object())}) == {"1": [2, "[not JSON: object]"]}


def test_nesting_beyond_the_bound_is_cut_with_a_mark() -> None:
    """A reader's stack is not ours to spend."""
    value: Any = 1
    for _ in range(MAX_DEPTH + 2):
        value = [value]

    assert "nested too deeply" in canonical(clean(value)).decode()


@pytest.mark.parametrize("value", [2**60, math.nan, math.inf, -math.inf, "\ud800", {"a": {1, 2}}, {1: 2}])
def test_what_has_no_encoding_has_no_digest(value: Any) -> None:
    """Better no digest than one of something else."""
    with pytest.raises(ValueError, match="no canonical JSON"):
        digest(value)


def test_key_order_does_not_change_a_digest() -> None:
    """The same arguments are the same call."""
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\u200b", "\U000e0041", "\x1b", "\ufeff", "\u2066", "a\u200db", "\r", "\u2028"]
)
def test_invisible_characters_are_found_wherever_they_stand(hidden: str) -> None:
    """In keys and values, at any depth."""
    assert hidden_characters({"to": ["x", {"y" + hidden: 1}]})
    assert hidden_characters(["a" + hidden])


def test_hidden_characters_can_be_dropped_and_are_counted() -> None:
    """What people do not see must not reach the model; emoji stay whole."""
    assert without_hidden("pay\U000e0041\U000e0042 now\u202e") == "pay now [3 invisible characters were dropped]"
    assert without_hidden("a\tb\n👩\u200d🚒") == "a\tb\n👩\u200d🚒"


def test_emoji_sequences_tabs_and_line_feeds_are_no_invisible_characters() -> None:
    """People write these."""
    assert hidden_characters({"text": "a\tb\n👩\u200d🚒 👨🏽\u200d💻 ❤\ufe0f\u200d🔥", "n": 1}) == []
