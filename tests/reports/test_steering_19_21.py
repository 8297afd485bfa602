"""Reports 19 to 21, 26 and 33: words of people in mid turn, texts that no JSON holds, siblings that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.authority import Authority
from bot.core.errors import Fenced, OutsideFailed
from bot.core.tool import ToolError
from bot.lab.messages_script import Broken, Call, Turn
from bot.lab.twins import Says
from tests.builders import GET_TICKET
from tests.claude.conftest import Place
from tests.reports.oracle import bodies, faults, refusals, results
from tests.reports.places import PAY, Deeds, asks, policy, wired
from tests.world import World

THREE = [("get_order", {"order_id": f"100{n}"}) for n in range(3)]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("at_call", [0, 2])
async def test_report_19_words_in_mid_turn_come_after_all_its_results(parallel: bool, at_call: int) -> None:
    """openclaw#13804: a user's message is put between a call and its result, and the service says 400."""
    deeds = Deeds()

    async def interjects(args: Any, context: Any) -> dict[str, Any]:
        if args.order_id == f"100{at_call}":
            await world.says("hurry", "U0BOB", ts="2.0")
            await world.says("really", "U0ALICE", ts="3.0")
            world.clock.advance(1)
            await asyncio.sleep(0.01)
        return {"n": args.order_id}

    world = World(
        [Says(calls=THREE), Says("Done.")],
        [deeds.look(answer=interjects, parallel_safe=parallel)],
        policy(loop={"parallel": parallel}),
    )
    finished = await asks(world)

    first, second = bodies(world.model.requests)
    kinds = [block["type"] for block in second[-1]["content"]]
    assert faults(first) == faults(second) == []
    assert kinds == ["tool_result"] * 3 + ["text"] * 2
    assert "hurry" in second[-1]["content"][3]["text"] and "really" in second[-1]["content"][4]["text"]
    assert finished["messages"] == ["1.0", "2.0", "3.0"]


NASTY = ["half \ud800 pair", "\udfff", "a\x00b", "\u202egnp.exe", "🛳\ufe0f", "\u2028\x85", "\ufffe\uffff"]


@pytest.mark.wire
@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("where", ["result", "key", "error", "sealed"])
async def test_report_20_no_text_of_a_tool_poisons_the_conversation(place: Place, text: str, where: str) -> None:
    """opencode#17758: a lone surrogate in a result, and the session can never be sent again."""

    def says(args: Any, context: Any) -> Any:
        if where == "error":
            raise ToolError(text)
        if where == "sealed":
            return context.seal(text, source=text)
        return {text: 1} if where == "key" else [text]

    replies = [Turn(calls=[Call("get_order", {"order_id": "4921"})]), Turn("Read."), Turn("And that.")]
    world = wired(place, *replies, tools=[Deeds().look(answer=says)])
    first = await asks(world)
    second = await asks(world, "and?", ts="2.0")

    assert (first["text"], second["text"]) == ("Read.", "And that.")
    assert refusals(place.api) == []
    assert all("\\ud" not in one.body.decode("utf-8").lower() for one in place.api.asked)


@pytest.mark.wire
@pytest.mark.parametrize("how", ["arguments_lone_surrogate", "arguments_huge", "arguments_nan"])
async def test_report_20_no_argument_of_the_model_poisons_it_either(place: Place, how: str) -> None:
    """opencode#17758, from the other side: what the model wrote goes back with each later request."""
    deeds = Deeds()
    spoilt = Broken(Turn(calls=[Call("issue_credit", PAY)]), 0, how)
    world = wired(place, spoilt, Turn("Sorry."), Turn("And that."), tools=[deeds.tool("issue_credit")])

    await asks(world)
    second = await asks(world, "and?", ts="2.0")

    assert (second["text"], deeds.done, refusals(place.api)) == ("And that.", [], [])


NAMES = ["functions.pay", "get order", "x" * 300, "näme", "a\ud800", "pay:1", "get_order\n"]


@pytest.mark.wire
@pytest.mark.parametrize("name", NAMES)
async def test_report_20_no_name_that_the_model_calls_by_poisons_it_either(place: Place, name: str) -> None:
    """opencode#17758, by another way: the service writes a name that it refuses when it comes back."""
    deeds = Deeds()
    world = wired(place, Turn("Hm.", [Call(name, PAY)]), Turn("Sorry."), Turn("And that."), tools=[deeds.look()])

    first = await asks(world)
    second = await asks(world, "and?", ts="2.0")

    [told] = results(place.api.requests[-1]["messages"]).values()
    assert (first["text"], second["text"], deeds.done) == ("Sorry.", "And that.", [])
    assert refusals(place.api) == []
    assert "There is no tool" in told and "get_order" in told
    assert world.of("ToolRequested")[0]["tool"] == name.replace("\ud800", "\ufffd"), "the log says what was asked for"


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("where", ["question", "history", "reply"])
async def test_report_20_nor_does_a_text_of_a_person_or_the_model(text: str, where: str) -> None:
    """opencode#17758: Slack's JSON and the model's may hold half a pair, too."""
    world = World([Says(text if where == "reply" else "Read."), Says("And that.")])
    world.surface.earlier = [{"ts": "0.1", "author": "U0BOB", "text": text}] if where == "history" else []

    await asks(world, text if where == "question" else "why?", thread_reply=where == "history")
    second = await asks(world, "and?", ts="2.0")

    assert second["text"] == "And that."
    assert [faults(one) for one in bodies(world.model.requests)] == [[]] * len(world.model.requests)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(JSON, min_size=1, max_size=3))
def test_report_20_whatever_tools_return_the_transcript_serialises(answers: list[Any]) -> None:
    """opencode#17758, for any JSON and any text."""
    given = list(answers)
    turns = [Says(calls=[("get_order", {"order_id": f"100{n}"})]) for n in range(len(answers))]
    world = World([*turns, Says("Done.")], [Deeds().look(answer=lambda args, context: given.pop(0))])

    asyncio.run(asks(world))

    assert [faults(one) for one in bodies(world.model.requests)] == [[]] * len(world.model.requests)


def _raises(error: BaseException) -> Callable[..., Any]:
    def fails(args: Any, context: Any) -> Any:
        if args.order_id == "1001":
            raise error
        return {"n": args.order_id}

    return fails


FAILURES = [
    RuntimeError("x"),
    ToolError("no"),
    asyncio.CancelledError(),
    TimeoutError(),
    SystemExit(3),
    OSError(5, "y"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("parallel", [False, True])
async def test_report_21_one_failing_sibling_costs_the_others_nothing(error: BaseException, parallel: bool) -> None:
    """openai-agents-python#2584: one of the calls raises, and the outputs of the others are dropped."""
    deeds = Deeds()
    world = World(
        [Says(calls=THREE), Says("Done.")], [deeds.look(answer=_raises(error))], policy(loop={"parallel": parallel})
    )

    finished = await asks(world)

    last = bodies(world.model.requests)[-1][-1]["content"]
    assert (finished["text"], len(deeds.done)) == ("Done.", 3)
    assert [bool(one.get("is_error")) for one in last] == [False, True, False]
    assert ["1000" in last[0]["content"], "1002" in last[2]["content"]] == [True, True]


@pytest.mark.parametrize("port", ["begin", "end"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("failure", [OutsideFailed("the store is away", retryable=True), Fenced("another worker")])
async def test_report_21_a_store_that_fails_under_one_sibling_loses_no_run(
    port: str, parallel: bool, failure: OutsideFailed
) -> None:
    """openai-agents-python#2584, one floor down: the run is set aside and goes on when the store is back."""
    deeds = Deeds()
    world = World([Says(calls=THREE), Says("Done.")], [deeds.look()], policy(loop={"parallel": parallel}))
    ledger: Any = world.store.ledger
    real, failing = getattr(ledger, port), [True]

    async def away(held: Any, call_id: str, *more: Any) -> Any:
        if call_id.endswith("_1") and failing.pop():
            failing.append(False)
            raise failure
        return await real(held, call_id, *more)

    setattr(ledger, port, away)
    await world.says("look")
    await world.settle()
    world.clock.advance(60)
    await world.settle()

    assert world.tracer.faults == []
    assert [one["text"] for one in world.answers] == ["Done."]
    assert list(results(bodies(world.model.requests)[-1])) == [one["call_id"] for one in world.of("ToolRequested")]


READ = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAYING = Says(
    "Paying.",
    calls=[("get_order", {"order_id": "4921"}), ("issue_credit", PAY), ("issue_credit", {**PAY, "amount_cents": 1})],
)


@pytest.mark.parametrize("happens", ["edit", "stop", "delete", "message", "expiry"])
async def test_report_26_results_that_code_makes_up_stand_first_and_together(happens: str) -> None:
    """pydantic-ai#7878: an exchange that code adds stands between a call and its result."""
    deeds = Deeds()
    world = World([READ, PAYING, Says("Done."), Says("More.")], [GET_TICKET, deeds.look(), deeds.tool("issue_credit")])
    await world.says("pay")
    await world.settle()
    if happens == "message":
        await world.says("hurry", ts="1.5")
        await world.clicks_on("deny", approval=world.of("ApprovalRequested")[0]["approval_id"])
        await world.clicks_on("deny", approval=world.of("ApprovalRequested")[1]["approval_id"])
    elif happens == "expiry":
        world.clock.advance(100_000)
    else:
        await world.happens(happens, ts="1.0", author="U0ALICE", user="U0ALICE", text="do not pay")
    await world.settle()
    await asks(world, "and?", ts="2.0")

    sent = bodies(world.model.requests)
    assert [faults(one) for one in sent] == [[]] * len(sent)
    assert deeds.of("issue_credit") == [] and len(sent) >= 3
    assert set(results(sent[-1])) == {one["call_id"] for one in world.of("ToolRequested")}


async def test_report_33_a_call_that_a_correction_took_back_is_no_refusal_and_no_warning() -> None:
    """openclaw#148967: a call that steering skipped is shown in Slack as "blocked"."""
    world = World([READ, PAYING, Says("Done.")], [GET_TICKET, Deeds().look(), Deeds().tool("issue_credit")])
    await world.says("pay")
    await world.settle()
    before = len(world.of("GateDecided"))
    await world.happens("edit", ts="1.0", author="U0ALICE", text="do not pay them")
    await world.settle()

    last = bodies(world.model.requests)[-1][-1]["content"]
    taken_back = [one for one in last if one["type"] == "tool_result" and "corrected" in one["content"]]
    card = str(world.surface.of_kind("card"))
    shown = str([one.piece.body for one in world.surface.shown]).lower()
    assert len(taken_back) == 2 and not any(one.get("is_error") for one in taken_back)
    assert len(world.of("GateDecided")) == before, "the gate said nothing about it"
    assert "the question was changed" in card and "voided" in card
    assert not any(word in shown for word in ("blocked", "warning", "denied", "error"))
    assert world.surface.of_kind("notice") == [] == world.surface.whispers


async def test_report_33_a_stopped_call_says_that_it_was_stopped() -> None:
    """openclaw#148967: stopping is no block either; the model reads so in the next run."""
    deeds = Deeds()

    async def stops(args: Any, context: Any) -> dict[str, Any]:
        await world.happens("stop", user="U0ALICE")
        world.clock.advance(1)
        await asyncio.sleep(0.01)
        return {"sent": args.amount_cents}

    calls = [("send", {**PAY, "amount_cents": n}) for n in (1, 2)]
    world = World([Says(calls=calls), Says("Fine.")], [deeds.tool("send", Authority.SEND, stops)])
    first = await asks(world)
    await asks(world, "and?", ts="2.0")

    told = list(results(bodies(world.model.requests)[-1]).values())
    assert (first["outcome"], len(deeds.done)) == ("cancelled", 1)
    assert "sent" in told[0] and "the run ended (cancelled)" in told[1]
    assert "block" not in str(world.answers).lower()
