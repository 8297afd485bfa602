"""A plan is read strictly, and a call is in it or it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import ModelMistake
from bot.core.plans import Plan, Step, after_call, committed, lines, looks_like_one, steps_in, unplanned
from bot.core.verdicts import object_in, words

TOOLS = ("get_order", "get_ticket", "todo")


def _step(tool: str = "get_order", why: str = "the total", **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "why": why}


def _text(*steps: dict[str, Any]) -> str:
    return json.dumps({"steps": steps})


def test_a_plan_is_read_as_it_was_written() -> None:
    """Values, sources and nested values that only look like sources."""
    steps = [
        _step(order_id={"from": "question"}),
        _step(order_id={"from": "step 1", "field": "next"}, when={"from": "2026-01-01", "to": "2026-02-01"}),
        _step("get_ticket", order_id={"from": "earlier"}, deep={"a": [1, {"from": "b"}]}),
    ]

    assert steps_in(_text(*steps), TOOLS) == steps
    assert steps_in(f"I want to know the total.\n```json\n{_text(*steps)}\n```", TOOLS) == steps
    assert steps_in(_text(), TOOLS) == []
    assert steps_in(_text(_step("anything")), ()) != [], "a log of before says nothing of tools"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not one JSON object"),
        ("First the order.", "not one JSON object"),
        ("[]", "not one JSON object"),
        (_text(_step()) * 2, "not one JSON object"),
        (f"```\n{_text(_step())}\n```\n```\n{_text(_step())}\n```", "not one JSON object"),
        ('{"steps": [], "steps": []}', "not one JSON object"),
        (f"```python\n{_text(_step())}\n```", "not one JSON object"),
        (f"```json\n{_text(_step())}\n```python", "not one JSON object"),
        pytest.param("```json\n" * 50_000, "not one JSON object", id="fences that never close cost no time"),
        ("{}", "steps: Field required"),
        ('{"steps": {}}', "steps: Input should be a valid list"),
        ('{"steps": [], "note": 1}', "note: Extra inputs"),
        (_text({"tool": "get_order", "why": "w"}), "steps.0.arguments: Field required"),
        (_text({**_step(), "arguments": [1]}), "steps.0.arguments"),
        (_text({**_step(), "tool": 7}), "steps.0.tool"),
        (_text({**_step(), "cost": 1}), "steps.0.cost: Extra"),
        (_text(_step(why="")), "steps.0.why"),
        (_text(_step(why="w" * 301)), "steps.0.why"),
        (_text(*[_step()] * 21), "at most 20"),
        (_text(_step("get_moon")), "not here: 'get_moon'"),
        (_text(_step(), _step("get_moon")), "not here: 'get_moon'"),
        (_text(_step(order_id={"from": "step 1"})), "Step 1: order_id"),
        (_text(_step(), _step(order_id={"from": "step 2"})), "Step 2: order_id"),
        (_text(_step(), _step(order_id={"from": "step 0"})), "Step 2: order_id"),
        (_text(_step(order_id={"from": "the ticket"})), "Step 1: order_id"),
        (_text(_step(order_id={"from": None})), "Step 1: order_id"),
        (_text(_step(order_id={"from": "question", "field": 1})), "Step 1: order_id"),
        (_text(_step(why="a\u202eb")), "invisible characters (U+202E)"),
    ],
)
def test_one_doubtful_step_and_there_is_no_plan(text: str, said: str) -> None:
    """With what is wrong, for the model to correct."""
    with pytest.raises(ModelMistake) as caught:
        steps_in(text, TOOLS)

    assert said in str(caught.value)


@pytest.mark.parametrize(("text", "found"), [('{"a": "\\ud800"}', {"a": "\ufffd"}), ("NaN", None), (None, None)])
def test_what_no_exact_json_can_hold_is_replaced(text: Any, found: Any) -> None:
    """The log could not keep it."""
    assert object_in(text) == found
    assert words(["no", "text"], 9) == "" and words(" abc ", 2) == "ab"


def test_a_draft_is_told_from_an_answer() -> None:
    """Nobody is shown a plan's JSON as an answer."""
    assert looks_like_one('{"steps": [') and not looks_like_one("The steps are done.")


def test_what_was_carried_out_stays_in_sight_after_a_revision() -> None:
    """Closed steps first; what was left of the old plan is gone."""
    plan = committed(None, [_step(), _step("get_ticket"), _step("get_ticket", "again")], 0)
    plan = after_call(after_call(plan, "get_order", ok=True), "get_ticket", ok=False)

    revised = committed(plan, [_step(why="the\ntotal"), {}], 1)

    assert plan.surprise == "The step with get_ticket failed."
    assert after_call(plan, "get_ticket", ok=False).surprise == plan.surprise
    assert after_call(plan, "todo", ok=True) == plan
    assert (revised.revision, revised.surprise) == (1, "")
    assert lines(revised, ["get_order"]) == [
        "✓ get order: the total",
        "✗ get ticket: the total",
        "… get order: the total",
        "○ : ",
    ]
    assert lines(committed(None, [_step(), _step()], 0), ["get_order"])[1][0] == "○"


NAMES = st.sampled_from(["a", "b", "c", "todo"])
STATES = st.sampled_from(["open", "open", "done", "failed"])


@given(st.lists(st.tuples(NAMES, STATES), max_size=8), st.lists(NAMES, max_size=8))
def test_a_call_is_unplanned_when_no_open_step_is_left_for_it(steps: list[Any], calls: list[str]) -> None:
    """The oracle crosses steps off a list, one for each call."""
    left = [tool for tool, state in steps if state == "open"]
    expected = []
    for place, tool in enumerate(calls):
        if tool in left:
            left.remove(tool)
        elif tool != "todo":
            expected.append(place)

    assert unplanned(Plan(tuple(Step(tool, "w", state) for tool, state in steps)), calls) == expected
