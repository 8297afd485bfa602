"""Investigations as the log amounts to them: questions, conversations, conclusions, citations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.core import events as e
from bot.core.actions import AskBranches, AskModel, Finish, Note, RunTools, Wait
from bot.core.branches import closed, instead_of
from bot.core.inquiry import Inquiry
from bot.core.inquiry_words import CITE, LAST_REPLY, cites, findings
from bot.core.policy import CapsTable, LoopTable
from bot.core.session import evolve
from bot.core.state import Session
from bot.core.strategies import strategy_for
from bot.core.strategies.branch import ROUNDS, Branch
from bot.core.strategy import next_action
from bot.core.transcript import faults, messages
from tests.builders import GET_ORDER, POLICY, THREAD, Story

BRANCH = Branch(3)


def _opened() -> Story:
    return _do(Story().asked())


def _do(story: Story) -> Story:
    """What the strategy notes down by itself, until somebody else has to act."""
    while isinstance(action := BRANCH.propose(story.session), Note):
        story.add(*action.events)
    return story


def _split(*questions: str) -> Story:
    text = json.dumps({"questions": questions or ("First?", "Second?")})
    return _do(_opened().replied(text=text))


def _answers(story: Story, number: int, *calls: tuple[str, str], text: str = "", stop: str = "") -> Story:
    """A reply of an investigation; calls as (id, order)."""
    run = story.session.run
    assert run is not None
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": one, "name": "get_order", "input": {"order_id": order}} for one, order in calls
    ]
    turn, reason = run.turns + 1, stop or ("tool_use" if calls else "end_turn")
    story.add(e.ModelRequested(turn=turn, branch=number, reserved_tokens=900, model="m", request_bytes=500))
    used = e.Usage(input_tokens=120, output_tokens=10, calls=1)
    story.add(e.ModelReplied(turn=turn, branch=number, content=content, stop_reason=reason, usage=used, cost_usd=0.01))
    for one, order in calls:
        given = {"order_id": order}
        story.add(e.ToolRequested(call_id=one, tool="get_order", arguments=given, authority="observe", branch=number))
    return story


def _inquiry(story: Story) -> Inquiry:
    assert story.session.run is not None and story.session.run.inquiry is not None
    return story.session.run.inquiry


def test_a_judgement_cites_by_number() -> None:
    """Alone or in a list; only numbers that there are."""
    inquiry = _inquiry(_split())

    assert all(cites(text, inquiry) for text in ("So [1].", "So [ 2 ].", "So [7, 2]", "[1][2]"))
    assert not any(cites(text, inquiry) for text in ("So.", "So [3].", "So (1).", "[one]", "[12]", "[0]", "1]"))


def test_the_policy_says_how_many_investigations_there_may_be() -> None:
    """Where it asks for them."""
    assert strategy_for(LoopTable(strategy="branch", branches=2)) == Branch(2)


def test_branch_asks_splits_investigates_and_judges() -> None:
    """Each in its place."""
    opened = _opened()
    asked = BRANCH.propose(opened.session)
    story = _split()
    first = BRANCH.propose(story.session)
    _answers(_answers(story, 1, ("c1", "1111")), 2, text="Nothing; told-2.")
    second = BRANCH.propose(story.session)
    story.ran("c1", {"total": 1})
    third = BRANCH.propose(story.session)
    _do(_answers(story, 1, text="One; told-1."))
    judge = BRANCH.propose(story.session)
    story.replied(text="It was [1].")

    assert BRANCH.propose(Session(THREAD)) == Wait("nobody asked anything")
    assert (asked, first, third) == (AskModel(), AskBranches((1, 2)), AskBranches((1,)))
    assert isinstance(second, RunTools) and [call.branch for call in second.calls] == [1]
    assert judge == AskModel()
    assert BRANCH.propose(story.session) == Finish("answered", "end_turn", "It was [1].")


def test_a_limit_stops_investigations_too() -> None:
    """They are as dear as anything."""
    story = _split()
    late = story.now.replace(hour=23)

    assert next_action(BRANCH, story.session, CapsTable(), story.now) == AskBranches((1, 2))
    assert next_action(BRANCH, story.session, CapsTable(turns=1), story.now) == Finish("partial", "turn_cap")
    assert next_action(BRANCH, story.session, CapsTable(), late) == Finish("partial", "deadline")


def test_a_reply_that_is_to_be_asked_for_again_is_not_read_as_questions() -> None:
    """Cut off, paused or refused: as anywhere."""
    cut = _opened().replied(text='{"questions": ["A?"', stop="max_tokens")
    paused = _opened().replied(text="Wait", stop="pause_turn")
    refused = _opened().replied(text="No.", stop="refusal")

    assert BRANCH.propose(cut.session) == BRANCH.propose(paused.session) == AskModel()
    assert BRANCH.propose(refused.session) == Finish("refused", "refusal")


def test_a_run_that_began_another_way_goes_on_that_way() -> None:
    """The policy may change under a run: nothing is said between a call and its result."""
    story = Story().asked().replied(("c1", GET_ORDER, {"order_id": "4921"}))

    assert isinstance(BRANCH.propose(story.session), RunTools)


def test_a_router_s_word_begins_nothing_by_itself() -> None:
    """The path is taken when the strategy says what the model is told."""
    story = Story().asked().add(e.RouteChosen(path="branch", why="three things are asked"))
    before = story.session

    assert before.run is not None and before.run.inquiry is None and len(before.transcript) == 1
    assert isinstance(BRANCH.propose(before), Note)
    again = _opened().add(e.RouteChosen(path="branch"))
    assert _inquiry(again).phase == "asked"


def test_each_conversation_shows_what_was_there_before_and_its_own_turns() -> None:
    """A word that came later belongs to the main one."""
    story = _answers(_answers(_split(), 1, ("c1", "1111")), 2, ("c2", "2222"))
    story.ran("c1", "first-result").ran("c2", "second-result")
    story.add(e.MessageReceived(ts="9.9", author="U0ALICE", trust="principal", text="later-word"))
    shown = [str([message.dump() for message in messages(story.session, branch=number)]) for number in range(3)]

    assert "later-word" in shown[0] and "result" not in shown[0] and "Investigation" not in shown[0]
    assert "first-result" in shown[1] and "second-result" not in shown[1] and "later-word" not in shown[1]
    assert "second-result" in shown[2] and "first-result" not in shown[2]
    assert [faults(messages(story.session, branch=number)) for number in (1, 2)] == [[], []]


def test_the_last_reply_is_announced_and_its_calls_find_the_investigation_ended() -> None:
    """It knows that it must conclude."""
    story = _split()
    for turn in range(ROUNDS):
        assert _inquiry(story).unfinished == (1, 2)
        announced = LAST_REPLY in str(messages(story.session, branch=1)[-1].content)
        assert announced == (turn == ROUNDS - 1)
        _answers(story, 1, (f"c{turn}", f"{turn}111"), text="Looking.").ran(f"c{turn}", {"total": turn})

    assert _inquiry(story).unfinished == (2,)
    assert _inquiry(story).branch(1).ended == "its replies were used up without a conclusion"
    assert "Its last words:\n> Looking." in findings(_inquiry(story))


def test_what_was_reserved_for_an_investigation_counts_until_its_reply_or_loss() -> None:
    """Side by side they add up; one that is lost counts at its worst, one that is given up for what is known."""
    story = _split()
    before = story.session.run
    assert before is not None
    for number in (1, 2):
        story.add(e.ModelRequested(turn=2, branch=number, reserved_tokens=900, reserved_usd=0.5, model="m"))
    both = story.session.run
    story.add(e.ModelRequested(turn=2, branch=1, reserved_tokens=100, reserved_usd=0.1, model="m"))
    lost = story.session.run
    gone = {"branch": 2, "ended": "gone", "lost": {"input_tokens": 400}, "lost_usd": 0.2}
    story.add(e.PlanCommitted(revision=1, steps=[gone]))
    given_up = story.session.run
    assert both and lost and given_up

    spent = [
        (one.tokens_spent - before.tokens_spent, one.usd_spent - before.usd_spent) for one in (both, lost, given_up)
    ]
    assert [one[0] for one in spent] == [1800, 1900, 1900]
    assert [one[1] for one in spent] == pytest.approx([1.0, 1.1, 1.1])
    assert given_up.usage.total - before.usage.total == 400
    assert _inquiry(story).unfinished == (1,) and _inquiry(story).revision == 1


def test_a_run_that_ends_meanwhile_leaves_what_was_found_and_a_sound_conversation() -> None:
    """The next question is asked of the main conversation, which has no turn of an investigation in it."""
    story = _answers(_answers(_split(), 1, ("c1", "1111")), 2, text="Two; told-2.").ran("c1", {"total": 1})
    ended = e.RunFinished(
        outcome="partial", stop_reason="deadline", text="Time.", messages=[], usage=e.Usage(), cost_usd=0
    )
    story.add(ended).asked("And now?")
    shown = messages(story.session)

    assert faults(shown) == []
    assert "told-2" in str(shown[-3].content) and "the run ended before it did" in str(shown[-3].content)
    assert [item.branch for item in story.session.transcript] == [0] * len(story.session.transcript)
    assert closed(Session(THREAD)) == Session(THREAD)


def test_a_judgement_is_asked_for_once_more_and_not_again() -> None:
    """The instruction enters after the judgement, which is kept."""
    story = _do(_answers(_answers(_split(), 1, text="One."), 2, text="Two."))
    _do(story.replied(text="It was so."))

    assert messages(story.session)[-1].content[-1]["text"] == CITE
    assert (_inquiry(story).phase, _inquiry(story).uncited) == ("citing", "It was so.")
    late = Finish("partial", "deadline", detail="Late.")
    assert instead_of(story.session, late).text.startswith("It was so.\n\n(This")
    assert instead_of(story.session, Finish("cancelled", "cancelled")).outcome == "cancelled"
    asked = e.MessageReceived(ts="9.9", author="U0ALICE", trust="principal", text="And since May?")
    assert instead_of(evolve(story.session, asked), late) == late
    story.replied(text="It was so indeed.")
    assert BRANCH.propose(story.session) == Finish(
        "answered", "end_turn", "It was so indeed.\n\n(This answer does not say which investigation it rests on.)"
    )


def test_a_log_from_before_there_were_investigations_replays() -> None:
    """Their fields have defaults."""
    old = [
        ("ModelRequested", {"turn": 1, "reserved_tokens": 1, "model": "m"}),
        ("ModelReplied", {"turn": 1, "content": [], "stop_reason": "end_turn", "usage": {}, "cost_usd": 0}),
        ("ToolRequested", {"call_id": "c", "tool": "t", "arguments": {}, "authority": "observe"}),
    ]
    for kind, payload in old:
        assert e.parse_event(kind, payload).branch == 0  # type: ignore[attr-defined]  # each of these has it
    assert e.parse_event("RouteChosen", {"path": "react"}) == e.RouteChosen(path="react")
    assert POLICY.loop.branches == 3
