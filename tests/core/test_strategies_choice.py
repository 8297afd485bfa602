"""The policy's word becomes a strategy, and every word has one."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from bot.core import events as e
from bot.core.actions import AskModel, Finish, Note, Wait
from bot.core.events import parse_event
from bot.core.policy import LoopTable
from bot.core.strategies import STRATEGIES, strategy_for
from bot.core.strategies.plan import Plan
from bot.core.strategies.react import React
from bot.core.strategies.reflexion import Reflexion
from bot.core.strategies.router import DESCRIBED, Router
from tests.builders import GET_ORDER, Story

NAMES = get_args(LoopTable.model_fields["strategy"].annotation)


def test_every_strategy_that_the_policy_allows_is_there() -> None:
    """And whatever a rule may name, and a router is told of, is a path."""
    found = {name: type(strategy_for(LoopTable(strategy=name))) for name in NAMES}
    paths = {*NAMES, "answer"} - {"router"}

    assert {"react": React, "plan": Plan, "router": Router}.items() <= found.items()
    assert set(STRATEGIES) == set(NAMES) and paths <= set(DESCRIBED)
    for path in paths:
        assert LoopTable.model_validate({"routes": {"word": path}}).routes == {"word": path}


@pytest.mark.parametrize("name", NAMES)
def test_each_waits_for_a_question_wrapped_or_not(name: Any) -> None:
    """Nothing is proposed of nothing."""
    for reflexion in (False, True):
        strategy = strategy_for(LoopTable(strategy=name, reflexion=reflexion))
        assert isinstance(strategy, Reflexion) is reflexion
        assert strategy.propose(Story().session) == Wait("nobody asked anything")


@pytest.mark.parametrize("word", ["two words", "", "a*", "thank-you"])
def test_a_rule_is_one_word(word: str) -> None:
    """Anything else could never fit."""
    with pytest.raises(ValidationError, match="a single word"):
        LoopTable(routes={word: "answer"})


def test_a_path_that_is_no_longer_there_is_the_default_one() -> None:
    """A run that another version began goes on."""
    story = Story().asked().add(e.RouteChosen(path="conquer", why="once there was one"))

    assert strategy_for(LoopTable(strategy="router")).propose(story.session) == AskModel()


def test_a_run_that_gave_up_planning_goes_on_as_react() -> None:
    """By the log alone."""
    story = Story().asked().add(e.RouteChosen(path="plan"), e.RouteChosen(path="react", why="No plan came of it."))
    story.called("c1", GET_ORDER, {"total_cents": 1}).replied(text="Done.")

    assert strategy_for(LoopTable(strategy="plan")).propose(story.session) == Finish("answered", "end_turn", "Done.")


def test_planning_is_opened_by_an_event() -> None:
    """So that its instruction is part of the conversation."""
    story = Story().asked()
    proposal = Plan().propose(story.session)

    assert isinstance(proposal, Note) and [one.type for one in proposal.events] == ["RouteChosen"]
    assert "plan before you act" in str(story.add(*proposal.events).session.transcript[-1].content)


def test_an_objection_after_something_newer_was_said_has_no_draft() -> None:
    """There is no answer to keep any more."""
    story = Story().asked().add(e.Critiqued(ok=False))

    run = story.session.run
    assert run is not None and run.critiqued and run.draft == ""


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("Critiqued", {"ok": True, "notes": ""}),
        ("PlanCommitted", {"steps": [{"tool": "get_order"}], "revision": 0}),
        ("RouteChosen", {"path": "react", "why": ""}),
        ("RunStarted", {"run_id": "r", "principal": "U", "deadline": "d", "pins": {}, "policy_version": "v"}),
    ],
)
def test_logs_of_before_still_replay(kind: str, payload: dict[str, Any]) -> None:
    """New fields have defaults."""
    assert parse_event(kind, payload).type == kind
