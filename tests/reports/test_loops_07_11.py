"""Reports 7 to 11: loops without an end, limits that are not the ones that act, refusals that are asked again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bot.app.policy_file import load_policy
from bot.core.authority import Authority
from bot.core.tool import ToolError
from bot.lab.messages_script import Call, Turn
from bot.lab.twins import Says
from tests.claude.conftest import Place
from tests.reports.oracle import bodies, faults, refusals
from tests.reports.places import PAY, Deeds, asks, policy, wired
from tests.world import World


class Words(BaseModel):
    """What is searched for."""

    query: str
    limit: float = 10


def _search(*queries: str) -> Says:
    return Says(calls=[("search", {"query": one}) for one in queries])


def _other(number: int) -> Says:
    return Says(calls=[("get_order", {"order_id": f"{1000 + number}"})])


A, B = {"query": "crushed", "limit": 10}, {"limit": 10.0, "query": "crushed"}


@pytest.mark.parametrize(
    ("turns", "asked"),
    [
        ([Says(calls=[("search", A)])] * 399, 3),
        ([Says(calls=[("search", one)]) for one in (A, B, A)] * 80, 3),
        ([Says(calls=[("search", A)] * 3)] * 99, 1),
        ([_search("a"), _search("b")] * 99, 5),
    ],
)
async def test_report_07_the_same_call_runs_once_and_its_third_offer_ends_the_run(turns: Any, asked: int) -> None:
    """pi#9637: over 220 byte-identical calls of ~200k tokens each; also in one reply, reordered, or in alternation."""
    deeds = Deeds()
    world = World(turns, [deeds.look("search", lambda args, context: {"hits": [args.query]}, model=Words)])

    finished = await asks(world)

    different = {(one["query"], one["limit"]) for one in deeds.of("search")}
    assert (finished["outcome"], finished["stop_reason"]) == ("escalated", "repetition")
    assert len(world.model.requests) == asked
    assert len(deeds.done) == len(different)
    assert [faults(one) for one in bodies(world.model.requests)] == [[]] * asked


async def test_report_07_a_call_that_fails_again_and_again_is_tried_twice_and_no_more() -> None:
    """pi#9637, with a service that asks for patience: one repeat after a retryable error is free."""
    deeds = Deeds()

    def away(args: Any, context: Any) -> Any:
        raise ToolError("the order system is away", retryable=True)

    world = World([Says(calls=[("get_order", {"order_id": "4921"})])] * 99, [deeds.look(answer=away)])
    finished = await asks(world)

    assert finished["outcome"] == "escalated"
    assert (len(deeds.done), len(world.model.requests)) == (2, 3)


async def test_report_07_looking_again_after_a_change_that_failed_is_no_repeat() -> None:
    """Its twin: a change that gave an error may have happened all the same, and only another look can tell."""
    deeds = Deeds()

    def late(args: Any, context: Any) -> Any:
        raise ToolError("no answer in time; it may still have had its effect")

    look = Says(calls=[("get_order", {"order_id": "4921"})])
    pay = Says(calls=[("note_credit", PAY)])
    tools = [deeds.look(), deeds.tool("note_credit", Authority.LOCAL_WRITE, late)]
    world = World([look, pay, look, Says("It was not credited.")], tools)

    finished = await asks(world)

    assert (finished["outcome"], len(deeds.of("get_order"))) == ("answered", 2)


EMPTY: list[Any] = [
    [],
    {"hits": [], "count": 0},
    {"hits": None, "request_id": "%d", "at": "2026-12-01T09:00:%02dZ"},
    "2026-12-01 09:00:%02d",
]


@pytest.mark.parametrize("answer", EMPTY)
async def test_report_08_calls_that_differ_and_find_nothing_are_handed_over(answer: Any) -> None:
    """superplane#4123: near-identical searches with empty results, for ever; a time stamp in them is no news."""
    deeds = Deeds()

    def found(args: Any, context: Any) -> Any:
        return _numbered(answer, len(deeds.done))

    world = World([_search(f"crushed pallet {n}") for n in range(50)], [deeds.look("search", found, model=Words)])
    finished = await asks(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("escalated", "no_progress")
    assert len(deeds.done) <= 4


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {key: _numbered(item, number) for key, item in value.items()}
    return value % number if isinstance(value, str) and "%" in value else value


async def test_report_08_calls_that_find_something_new_go_on() -> None:
    """The twin: progress is no reason to stop."""
    deeds = Deeds()
    world = World([*map(_other, range(9)), Says("Nine orders.")], [deeds.look()])

    finished = await asks(world)

    assert (finished["text"], len(deeds.done)) == ("Nine orders.", 9)


def _from_file(place: Path, text: str) -> Any:
    (place / "plimsoll.toml").write_text('[approvals.default]\nusers = ["U0CAROL", "U0DAVE"]\n' + text)
    return load_policy(place / "plimsoll.toml", must_exist=True)


@pytest.mark.parametrize("cap", [1, 2, 5])
@pytest.mark.parametrize("more", [0, 1])
async def test_report_09_the_turns_of_the_file_are_the_turns_that_act(tmp_path: Path, cap: int, more: int) -> None:
    """definable.ai#92: the cap setting is not the cap that acts; so it is tried at n and at n + 1."""
    rules = _from_file(tmp_path, f"[caps]\nturns = {cap}\nbarren_turns = 99\n")
    deeds = Deeds()
    world = World([*map(_other, range(cap - 1 + more)), Says("Done.")], [deeds.look()], rules)

    finished = await asks(world)

    assert finished["stop_reason"] == ("turn_cap" if more else "end_turn")
    assert len(world.model.requests) == cap
    assert len(deeds.done) == cap - 1 + more


@pytest.mark.parametrize("cap", [1, 2, 4])
@pytest.mark.parametrize("more", [0, 1])
async def test_report_09_the_barren_turns_of_the_file_are_those_that_act(tmp_path: Path, cap: int, more: int) -> None:
    """definable.ai#92, of the second cap: errors bring nothing new."""
    rules = _from_file(tmp_path, f"[caps]\nbarren_turns = {cap}\n")
    turns = [Says(calls=[("get_order", {"order_id": f"no-{n}"})]) for n in range(cap - 1 + more)]
    world = World([*turns, Says("Nothing there.")], policy=rules)

    finished = await asks(world)

    assert finished["stop_reason"] == ("no_progress" if more else "end_turn")
    assert len(world.model.requests) == cap


ASKS = "[tools.policy.issue_credit]\napprove = 'always'\n"


@pytest.mark.parametrize("cap", [0, 1, 2])
@pytest.mark.parametrize("more", [0, 1])
async def test_report_09_the_asks_of_the_file_are_those_that_act(tmp_path: Path, cap: int, more: int) -> None:
    """definable.ai#92, of questions to people."""
    rules = _from_file(tmp_path, f"[approvals]\nasks_per_run = {cap}\n" + ASKS)
    pays = [Says(calls=[("issue_credit", {**PAY, "amount_cents": n + 1})]) for n in range(cap + more)]
    world = World([*pays, Says("Done.")], policy=rules)
    await world.says("pay")
    await world.settle()
    for _ in range(cap):
        await world.clicks_on("approve")
        await world.settle()

    assert len(world.of("ApprovalRequested")) == cap
    assert world.of("RunFinished")[-1]["stop_reason"] == ("hand_over" if more else "end_turn")


@pytest.mark.parametrize(
    ("setting", "reserved", "least", "ends"),
    [("tokens", "reserved_tokens", 1, "token_budget"), ("usd", "reserved_usd", 1e-6, "cost_budget")],
)
async def test_report_09_the_budgets_of_the_file_are_those_that_act(
    tmp_path: Path, setting: str, reserved: str, least: float, ends: str
) -> None:
    """definable.ai#92: what a run may need at the very most is allowed to the unit, and one less is not."""
    needed: float = 0
    for less, stop in ((9_999, "end_turn"), (0, "end_turn"), (-least, ends)):
        rules = _from_file(tmp_path, f"[caps]\n{setting} = {needed + less}\n[model]\nmax_output_tokens = 100\n")
        world = World([Says("Done.")], policy=rules)
        finished = await asks(world)
        needed = needed or world.of("ModelRequested")[0][reserved]
        assert finished["stop_reason"] == stop, less


@pytest.mark.parametrize(("deadline_s", "calls"), [(2.5, 3), (3.5, 4)])
async def test_report_09_the_deadline_of_the_file_is_the_one_that_acts(
    tmp_path: Path, deadline_s: float, calls: int
) -> None:
    """definable.ai#92, of time: each call takes a second, and the one that is under way ends."""
    rules = _from_file(tmp_path, f"[caps]\ndeadline_s = {deadline_s}\n")
    deeds = Deeds()

    def slow(args: Any, context: Any) -> Any:
        world.clock.advance(1)
        return {"n": args.order_id}

    world = World([*map(_other, range(20))], [deeds.look(answer=slow)], rules)
    finished = await asks(world)

    assert (finished["outcome"], finished["stop_reason"]) == ("partial", "deadline")
    assert len(deeds.done) == len(world.model.requests) == calls


REFUSED = Turn("", stop_reason="refusal", stop_details={"category": "cyber"})


@pytest.mark.wire
@pytest.mark.parametrize("before", [0, 2])
async def test_report_10_a_refusal_ends_the_run_and_is_never_sent_again(place: Place, before: int) -> None:
    """gajae-code#1655: a refusal is classed unknown and retried for ever, for about $521; also by another model."""
    looks = [Turn(calls=[Call("get_order", {"order_id": f"{4921 + n}"})]) for n in range(before)]
    rules = policy(model={"fallback": "claude-opus-5-5"})
    world = wired(place, *looks, REFUSED, tools=[Deeds().look()], policy=rules)

    finished = await asks(world)
    await world.settle()

    assert (finished["outcome"], finished["stop_reason"]) == ("refused", "refusal")
    assert len(place.api.asked) == before + 1
    assert {one["model"] for one in place.api.requests} == {"claude-sonnet-5-5"}


@pytest.mark.wire
async def test_report_11_an_empty_refusal_is_told_kindly_and_the_thread_goes_on(place: Place) -> None:
    """forgecode#3640: a refusal without words is an empty completion, and those are asked for again."""
    partly = Turn("I will", [Call("issue_credit", PAY)], stop_reason="refusal")
    deeds = Deeds()
    world = wired(place, REFUSED, partly, Turn("Sure."), tools=[deeds.tool("issue_credit")])

    first = await asks(world)
    second = await asks(world, "pay", ts="2.0")
    third = await asks(world, "hello", ts="3.0")

    assert [one["outcome"] for one in (first, second, third)] == ["refused", "refused", "answered"]
    assert "declined" in world.answers[0]["text"] and "differently" in world.answers[0]["text"]
    assert deeds.done == [] and len(place.api.asked) == 3
    assert refusals(place.api) == []


@pytest.mark.parametrize("authority", [Authority.LOCAL_WRITE, Authority.CRITICAL])
async def test_report_07_an_identical_change_is_not_made_twice_until_a_person_speaks(authority: Authority) -> None:
    """pi#9637, where each call has an effect: the world changing by it is no reason to do it again."""
    deeds = Deeds()
    turns = [Says(calls=[("issue_credit", PAY)]), Says(calls=[("issue_credit", PAY)]), Says("Done.")]
    world = World(
        [*turns, Says(calls=[("issue_credit", PAY)]), Says("Again.")], [deeds.tool("issue_credit", authority)]
    )

    await asks(world)
    once = len(deeds.done)
    finished = await asks(world, "once more please", ts="2.0")

    assert (once, len(deeds.done), finished["text"]) == (1, 2, "Again.")
