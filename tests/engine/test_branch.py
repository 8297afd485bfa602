"""Investigations side by side: apart from each other, reading only, then one judgement that cites them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.lab.twins import Says
from tests.inquiries import (
    QUESTIONS,
    THREE,
    Brain,
    asked,
    branch_of,
    by_branch,
    canary,
    closed_once,
    looks,
    policy,
    reading,
    said_in,
    splitting,
    wire,
    writing,
)

DONE = Says("Seen.")
CREDIT = {"order_id": "1111", "amount_cents": 500}


async def test_a_question_is_looked_into_side_by_side_and_judged_once() -> None:
    """Three investigations, each asked in its round, and one answer that cites them."""
    one = await asked(Brain(branches=THREE))

    assert [answer["text"] for answer in one.answers] == ["Paid twice [1], see also [2, 3]."]
    assert [event["branch"] for event in one.of("ModelRequested")] == [0, 1, 2, 3, 1, 2, 3, 2, 0]
    assert [event["branch"] for event in one.of("ModelReplied")] == [0, 1, 2, 3, 1, 2, 3, 2, 0]
    assert [event["turn"] for event in one.of("ModelRequested")] == list(range(1, 10))
    judged = said_in(one.model.requests[-1])
    for number, question in enumerate(QUESTIONS, 1):
        assert f"[{number}] {question}" in judged and f"told-{number}" in judged
    assert 'Looked at: get_ticket {"order_id": "2222"}; get_order {"order_id": "2223"}' in judged
    assert closed_once(one)


async def test_no_investigation_sees_what_another_read_and_the_conversation_sees_conclusions_only() -> None:
    """A canary in each result turns up where it was read and nowhere else."""
    one = await asked(Brain(branches=THREE))
    read = {1: ["1111"], 2: ["2222", "2223"], 3: ["3333"]}

    for number, requests in by_branch(one).items():
        words = "\n".join(map(said_in, requests))
        for other, orders in read.items():
            for order in orders:
                assert (canary(order) in words) == (number == other), (number, order)
        assert all((f"told-{other}" in words) == (number == 0) for other in read)


async def test_each_conversation_is_a_byte_prefix_of_its_next_request() -> None:
    """The main one and every investigation by itself, each of which begins with the main one."""
    one = await asked(Brain(branches=THREE))
    first = len(one.model.requests)
    await one.says("And order 5000?", ts="2.0")
    await one.settle()

    main = [request for request in one.model.requests if not branch_of(request)]
    conversations = [main]
    for run in (one.model.requests[:first], one.model.requests[first:]):
        own = [[request for request in run if branch_of(request) == number] for number in (1, 2, 3)]
        shared = wire(next(request for request in run if not branch_of(request)))
        assert all(wire(asked[0])[: len(shared)] == shared for asked in own)
        assert all("canary" not in said_in(asked[0]) for asked in own)
        conversations += own
    for own in conversations:
        assert len(own) >= 2
        for before, after in pairwise(own):
            assert wire(after)[: len(wire(before))] == wire(before)
    assert {tuple(spec.name for spec in request.tools) for request in one.model.requests} == {
        ("get_order", "get_ticket", "issue_credit", "todo")
    }
    assert len({request.system for request in one.model.requests}) == 1


@pytest.mark.parametrize("authority", [one for one in Authority if one > Authority.OBSERVE])
async def test_an_investigation_changes_nothing_and_asks_nobody(authority: Authority) -> None:
    """Whatever it asks for above reading is refused with an instruction."""
    effects: list[str] = []
    tools = [reading("get_order", parallel_safe=True), writing(effects, authority)]
    tries = {**THREE, 1: [Says(calls=[("issue_credit", CREDIT)]), Says("told-1")], 2: [DONE]}
    one = await asked(Brain(branches=tries), tools=tools)

    assert effects == []
    assert one.of("ApprovalRequested") == []
    refused = next(event for event in one.of("ToolReturned") if event["content"].get("refused"))
    assert refused["content"]["refused"] == "read only" and "conclusion" in refused["content"]["reason"]
    assert one.answers[0]["outcome"] == "answered"


async def test_a_tool_that_always_asks_a_person_is_not_asked_for_in_an_investigation() -> None:
    """Reading or not: nobody is there to decide."""
    asks = policy(tools={"policy": {"get_order": {"approve": "always"}}})
    one = await asked(Brain(branches=THREE), given=asks)

    assert one.of("ApprovalRequested") == []
    refused = [event["content"]["refused"] for event in one.of("ToolReturned") if not event["ran"]]
    assert refused == ["read only"] * 3
    started = {event["call_id"] for event in one.of("ToolStarted")}
    assert started == {call["call_id"] for call in one.of("ToolRequested") if call["tool"] == "get_ticket"}


async def test_nothing_is_looked_up_for_a_call_that_no_person_will_be_asked_about() -> None:
    """What an approval would be bound to is not read for an investigation."""
    read: list[str] = []

    async def precondition(args: Any, context: Any) -> Any:
        read.append(context.call_id)
        return {}

    tools = [reading("get_order"), replace(writing([]), precondition=precondition)]
    tries = {number: [Says(calls=[("issue_credit", CREDIT)]), DONE] for number in (1, 2, 3)}
    for tool_policy in ({}, {"issue_credit": {"approve": "always"}}):
        await asked(Brain(branches=tries), tools=tools, given=policy(tools={"policy": tool_policy}))

    assert read == []


async def test_the_service_is_told_the_last_reply_of_the_same_conversation() -> None:
    """It then says why it could not read from its cache; an investigation begins with the main one's."""
    one = await asked(Brain(branches=THREE))
    replied = {number: [""] for number in range(4)}
    for event in one.of("ModelReplied"):
        replied[event["branch"]].append(event["request_id"])

    for number, requests in by_branch(one).items():
        first = "" if number == 0 else replied[0][1]
        assert [request.previous_id for request in requests] == [first, *replied[number][1 : len(requests)]]


async def test_the_judgement_may_act_and_under_the_label_that_the_investigations_left() -> None:
    """The same write that none of them could make is asked of a person: one of them read a stranger's letter."""
    effects: list[str] = []
    tools = [reading("get_order", parallel_safe=True), reading("get_ticket", Trust.UNTRUSTED), writing(effects)]
    acts = [Says(calls=[("issue_credit", CREDIT)]), Says("Credited, see [2].")]
    one = await asked(Brain(branches=THREE, judge=acts), tools=tools)

    assert len(one.of("ApprovalRequested")) == 1 and effects == []
    await one.clicks_on("approve")
    await one.settle()
    assert len(effects) == 1
    assert one.answers[0]["text"] == "Credited, see [2]."
    assert [event["after"] for event in one.of("LabelLowered")][-1] == "untrusted"


async def test_without_a_stranger_s_text_the_judgement_acts_unasked() -> None:
    """The twin: nothing lowered the label."""
    effects: list[str] = []
    plain = {number: [looks("get_order", f"{number}000"), DONE] for number in (1, 2, 3)}
    acts = [Says(calls=[("issue_credit", CREDIT)]), Says("Credited, see [2].")]
    one = await asked(Brain(branches=plain, judge=acts), tools=[reading("get_order"), writing(effects)])

    assert len(effects) == 1 and one.of("ApprovalRequested") == []


async def test_calls_of_all_investigations_share_a_stage_where_they_are_parallel_safe() -> None:
    """Any other runs alone, after them."""
    many = {
        1: [Says(calls=[("get_ticket", {"order_id": "1001"}), ("get_order", {"order_id": "1002"})]), DONE],
        2: [Says(calls=[("get_order", {"order_id": "2001"}), ("get_order", {"order_id": "2002"})]), DONE],
        3: [Says(calls=[("get_order", {"order_id": "3001"}), ("nothing", {})]), DONE],
    }
    one = await asked(Brain(branches=many))

    stages = [(call["stage"], call["branch"], call["arguments"].get("order_id")) for call in one.of("ToolRequested")]
    assert stages == [
        (0, 2, "2001"),
        (0, 2, "2002"),
        (0, 3, "3001"),
        (1, 1, "1001"),
        (2, 1, "1002"),
        (3, 3, None),
    ]
    assert closed_once(one)


async def test_one_call_made_by_two_investigations_is_no_repetition() -> None:
    """Neither sees the other's result, and the judgement may read it once more."""
    same = {number: [looks("get_order", "4921"), DONE] for number in (1, 2, 3)}
    one = await asked(Brain(branches=same, judge=[looks("get_order", "4921"), Says("It was [1].")]))

    assert [event["verdict"] for event in one.of("GateDecided")] == ["allowed"] * 4
    assert one.answers[0]["outcome"] == "answered"


async def test_an_investigation_that_repeats_itself_ends_the_run_at_the_third_time() -> None:
    """As anywhere."""
    stuck = {1: [looks("get_order", "4921")], 2: [DONE], 3: [DONE]}
    one = await asked(Brain(branches=stuck))

    assert (one.answers[0]["outcome"], one.answers[0]["stop_reason"]) == ("escalated", "repetition")
    assert len(one.of("ToolStarted")) == 1


async def test_a_question_that_cannot_be_split_goes_the_usual_way() -> None:
    """With the reason in the log, and without JSON for an answer."""
    for reply in ("It is simple.", '{"questions": ["One?"]}', '{"questions": []}', '{"questions": ["A?", "a?"]}'):
        one = await asked([Says(reply), looks("get_order", "4921"), Says("Paid once.")])

        assert [event["path"] for event in one.of("RouteChosen")] == ["branch", "react"]
        assert one.of("RouteChosen")[1]["why"].startswith("no investigations: ")
        assert one.answers[0]["text"] == "Paid once."
        assert one.of("PlanCommitted") == []


async def test_calls_instead_of_questions_are_made_and_the_run_goes_the_usual_way() -> None:
    """Each gets its result before anything else is said."""
    one = await asked([looks("get_order", "4921"), Says("Paid once.")])

    assert one.of("RouteChosen")[1]["why"] == "no investigations: tools were called instead"
    assert len(one.of("ToolStarted")) == 1
    assert one.answers[0]["text"] == "Paid once."


async def test_a_judgement_without_a_citation_is_asked_for_once_more_and_then_given_with_a_note() -> None:
    """A number that no investigation has is none."""
    one = await asked(Brain(branches=THREE, judge=[Says("Paid twice [7]."), Says("Paid twice.")]))

    assert one.answers[0]["text"].startswith("Paid twice.\n\n(This answer does not say")
    assert len(by_branch(one)[0]) == 3

    cited = await asked(Brain(branches=THREE, judge=[Says("Paid twice."), Says("Paid twice [3].")]))
    assert cited.answers[0]["text"] == "Paid twice [3]."


@pytest.mark.parametrize("turns", [10, 9])
async def test_a_judgement_that_cannot_be_asked_for_again_is_given_with_the_note(turns: int) -> None:
    """An answer is not lost for a missing number."""
    one = await asked(Brain(branches=THREE, judge=[Says("Paid twice.")]), given=policy(caps={"turns": turns}))

    assert one.answers[0]["outcome"] == "answered"
    assert one.answers[0]["text"].startswith("Paid twice.\n\n(This answer does not say")
    assert len(one.model.requests) == turns


async def test_two_questions_are_as_good_as_three() -> None:
    """The policy says how many at most."""
    one = await asked(Brain([splitting("A?", "B?")], THREE), given=policy(loop={"branches": 2}))

    assert set(by_branch(one)) == {0, 1, 2}
    assert "2 of them" in said_in(one.model.requests[0])
