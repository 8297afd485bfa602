"""A reply is cut where the service would cut it, counts what it sent, and its thinking comes back only as it was."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.lab.messages_blocks import Refused
from bot.lab.messages_reply import frames_of, packed, whole
from bot.lab.messages_rules import check
from bot.lab.messages_script import Call, Turn
from tests.lab.messages import MODEL, assistant, request, text, user

SHOWN = {"thinking": {"type": "adaptive", "display": "summarized"}}
TURN = Turn("Größe 😀 und mehr. ", [Call("look", {"a": "b" * 40}), Call("pay", {"cents": 12})], thinking="hm " * 9)


def _reply(turn: Turn, *, left: int = 10**6, **fields: Any) -> dict[str, Any]:
    asked = request(**{**SHOWN, **fields})
    return whole(list(frames_of(turn, asked, {"input_tokens": 7}, left=left)))


def _raw(turn: Turn, max_tokens: int) -> dict[str, Any]:
    """All text of the reply, by kind, as it went over the wire."""
    found = {"thinking": "", "text": "", "partial_json": ""}
    for frame in frames_of(turn, request(max_tokens=max_tokens, **SHOWN), {}, left=10**6):
        for name in found:
            found[name] += frame.get("delta", {}).get(name, "")
    return found


FIRST_ARGUMENTS = json.dumps({"a": "b" * 40})
WHOLE = _reply(TURN, max_tokens=8000)


@pytest.mark.parametrize("max_tokens", range(1, WHOLE["usage"]["output_tokens"]))
def test_a_reply_that_is_too_long_is_cut_and_says_so(max_tokens: int) -> None:
    """Perhaps inside a call; what is sent is a beginning of the whole, and no longer than allowed."""
    found, sent, all_ = _reply(TURN, max_tokens=max_tokens), _raw(TURN, max_tokens), _raw(TURN, 8000)

    assert found["stop_reason"] == "max_tokens"
    assert all(all_[name].startswith(part) for name, part in sent.items())
    size = sum(len(part.encode()) for part in sent.values())
    assert size // 4 <= found["usage"]["output_tokens"] <= max_tokens
    assert max_tokens - found["usage"]["output_tokens"] <= 1 or size == 0


def test_some_cut_falls_inside_the_arguments_of_a_call() -> None:
    """The case that peers executed (model.md, facts 1 and 2)."""
    cuts = {_raw(TURN, most)["partial_json"] for most in range(1, WHOLE["usage"]["output_tokens"])}

    assert {"", '{"a": "bbbbb', FIRST_ARGUMENTS} <= cuts


def test_a_reply_that_fits_exactly_is_whole() -> None:
    """One token less, and it is not."""
    most = WHOLE["usage"]["output_tokens"]
    assert _reply(TURN, max_tokens=most)["stop_reason"] == "tool_use"
    assert _reply(TURN, max_tokens=most)["content"][-1]["input"] == {"cents": 12}
    assert _reply(TURN, max_tokens=most - 1)["stop_reason"] == "max_tokens"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 60))
def test_output_tokens_count_what_was_sent(words: str, max_tokens: int) -> None:
    """A token for each four bytes and one for the message, whatever the cut."""
    found = _reply(Turn(words), max_tokens=max_tokens)
    sent = "".join(block["text"] for block in found["content"])

    assert words.startswith(sent)
    assert found["usage"]["output_tokens"] == 1 + -(-len(sent.encode()) // 4) <= max_tokens
    assert (found["stop_reason"] == "end_turn") == (sent == words)


def test_a_reply_that_fills_the_context_window_ends_with_its_own_reason() -> None:
    """The smaller of the two limits names itself."""
    assert _reply(TURN, left=5, max_tokens=50)["stop_reason"] == "model_context_window_exceeded"
    assert _reply(TURN, left=50, max_tokens=5)["stop_reason"] == "max_tokens"


def test_a_stop_sequence_ends_the_text_before_it() -> None:
    """And the calls behind it are never made."""
    found = _reply(Turn("one END two STOP", [Call("look")]), stop_sequences=["STOP", "END"])

    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "END")
    assert [block.get("text") for block in found["content"]] == ["one "]
    assert _reply(Turn("one"), stop_sequences=["END"])["stop_reason"] == "end_turn"


def test_a_turn_tells_the_usage_and_the_refusal_that_a_test_wants() -> None:
    """Figures of its own, details of its own; the rest stays true."""
    found = _reply(Turn("x", usage={"input_tokens": 99, "output_tokens": 50}))
    refused = _reply(Turn(stop_reason="refusal", stop_details={"category": "cyber"}))

    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (99, 50)
    assert refused["content"] == [] and refused["usage"]["output_tokens"] == 1
    assert refused["stop_details"] == {"type": "refusal", "category": "cyber", "explanation": None}


def test_thinking_is_shown_only_when_asked_for_and_paid_for_always() -> None:
    """The newest models leave the text out and keep the signature (model.md, fact 9)."""
    shown, hidden = _reply(TURN, max_tokens=8000), _reply(TURN, max_tokens=8000, thinking={"type": "adaptive"})

    assert shown["content"][0]["thinking"] == TURN.thinking
    assert hidden["content"][0]["thinking"] == "" and hidden["content"][0]["signature"]
    assert shown["usage"] == hidden["usage"]
    assert shown["usage"]["output_tokens_details"]["thinking_tokens"] == 7


def _again(content: list[dict[str, Any]], **fields: Any) -> None:
    """That content sent back as the model's, with a result for each call."""
    calls = [block["id"] for block in content if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": one, "content": "x"} for one in calls]
    check(request(user(), assistant(*content), user(*results or [text()]), **{"max_tokens": 8000, **fields}))


THOUGHT = Turn("so", [Call("look")], thinking="hm", redacted_thinking="secret")


def test_thinking_comes_back_as_it_was_or_not_at_all() -> None:
    """Unchanged to the model that made it; and a client may leave all of it out."""
    content = _reply(THOUGHT)["content"]
    assert [block["type"] for block in content] == ["thinking", "redacted_thinking", "text", "tool_use"]

    _again(content)
    _again(content[2:])
    _again(_reply(THOUGHT, thinking={"type": "adaptive"})["content"])


def _changed(place: int, **new: Any) -> Any:
    return lambda content: [{**block, **(new if number == place else {})} for number, block in enumerate(content)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_changed(0, thinking="other"), "Invalid `signature` in `thinking` block"),
        (_changed(0, thinking=""), "Invalid `signature` in `thinking` block"),
        (_changed(0, signature=""), "Invalid `signature` in `thinking` block"),
        (_changed(0, signature=f"sig-{MODEL}-{'0' * 12}.0.2-{'0' * 32}"), "Invalid `signature`"),
        (_changed(1, data="x"), "Invalid `data` in `redacted_thinking` block"),
        (lambda content: content[1:], "cannot be modified"),
        (lambda content: [content[0], *content[2:]], "cannot be modified"),
        (lambda content: [content[1], content[0], *content[2:]], "cannot be modified"),
        (lambda content: [content[0], *content], "cannot be modified"),
    ],
)
def test_thinking_that_was_touched_is_refused(change: Any, said: str) -> None:
    """Reports 12 and 13 of model.md: it would wedge a thread for good."""
    content = _reply(THOUGHT)["content"]
    with pytest.raises(Refused, match=said):
        _again(change(copy.deepcopy(content)))


def test_thinking_is_bound_to_the_model_that_made_it() -> None:
    """Another model cannot read it."""
    with pytest.raises(Refused, match="Invalid `signature`"):
        _again(_reply(THOUGHT)["content"], model="claude-opus-5-5")
    with pytest.raises(Refused, match="Invalid `data`"):
        _again(_reply(THOUGHT)["content"][1:], model="claude-opus-5-5")


def test_thinking_that_was_cut_has_no_signature_and_cannot_come_back() -> None:
    """Report 3: an incomplete message is never kept."""
    content = _reply(Turn("so", thinking="hm " * 50), max_tokens=10)["content"]

    assert content[0]["thinking"] and not content[0]["signature"]
    with pytest.raises(Refused, match="Invalid `signature`"):
        _again([*content, text()])


def test_a_frame_is_one_event_in_plain_utf8() -> None:
    """Characters as they are; half a pair, which no bytes can hold, as an escape."""
    assert packed({"type": "ping", "a": "ü\u2028"}) == 'event: ping\ndata: {"type":"ping","a":"ü\u2028"}\n\n'.encode()
    assert b"\\ud800" in packed({"type": "ping", "a": "\ud800"})
