"""Reports 27, 28, 32 and 34: conversations that were folded, doubled, emptied, or stored by something older."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core import events as e
from bot.core.authority import Authority
from bot.core.policy import Policy
from bot.engine.ports import ModelFailure, ModelReply
from bot.engine.writer import Writer
from bot.lab.messages_script import Call, Turn
from bot.lab.twins import Says
from tests.builders import GET_TICKET
from tests.claude.conftest import Place
from tests.reports.oracle import bodies, faults, refusals
from tests.reports.places import PAY, Deeds, asks, policy, wired
from tests.world import World

FOLDS = {"loop": {"compact_at_tokens": 1_000}, "caps": {"turns": 60, "barren_turns": 99}}
LARGE = e.Usage(input_tokens=1_500, output_tokens=20, calls=1)


def _looks(width: int, start: int) -> Says:
    calls = [("get_order", {"order_id": f"{1000 + start * 10 + n}"}) for n in range(width)]
    return Says("", calls, thinking="hm", usage=LARGE)


async def _long(widths: list[int], word_at: int, parallel: bool) -> World:
    deeds = Deeds()
    rules = policy(**{**FOLDS, "loop": {**FOLDS["loop"], "parallel": parallel}})
    turns = [_looks(width, place) for place, width in enumerate(widths)]
    world = World([*turns, Says("Done.")], [deeds.look(answer={"n": 1})], rules)
    world.model.by_role["summary"] = [Says("Short."), ModelFailure("away"), Says("")]

    async def interjects(request: Any) -> None:
        if len(world.model.requests) == word_at:
            await world.says("hurry", "U0BOB", ts="2.0")

    world.model.while_asked = interjects
    await asks(world, "x" * 2_000)
    return world


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("widths", [[1] * 14, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [12] * 8])
async def test_report_27_a_fold_never_parts_a_call_from_its_result(widths: list[int], parallel: bool) -> None:
    """openclaw#28377: compaction leaves a result whose call is gone, or a call whose result is."""
    world = await _long(widths, 5, parallel)

    sent = bodies(world.model.requests)
    assert len(world.of("Compacted")) >= 1
    assert [faults(one) for one in sent] == [[]] * len(sent)
    assert world.answers[-1]["text"] == "Done."


async def test_report_27_a_thread_of_many_runs_is_folded_between_whole_runs() -> None:
    """openclaw#28377, where no single run is long."""
    deeds = Deeds()
    turns = [step for n in range(9) for step in (_looks(2, n), Says(f"Answer {n}."))]
    world = World(turns, [deeds.look(answer={"text": "word " * 200})], policy(**FOLDS))
    world.model.by_role["summary"] = [Says("Short.")]
    for n in range(9):
        assert (await asks(world, f"question {n}", ts=f"{n + 1}.0"))["text"] == f"Answer {n}."

    sent = bodies(world.model.requests)
    assert len(world.of("Compacted")) >= 2
    assert [faults(one) for one in sent] == [[]] * len(sent)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=7, max_size=12), st.integers(0, 12))
async def test_report_27_whatever_the_turns_look_like(widths: list[int], word_at: int) -> None:
    """OpenHarness#191: the cut falls where nobody thought of."""
    world = await _long(widths, word_at, parallel=False)

    assert [faults(one) for one in bodies(world.model.requests)] == [[]] * len(world.model.requests)


class Repeating:
    """A model whose calls have ids of its own making."""

    def __init__(self, world: World, ids: list[str]) -> None:
        self._model, self._ids = world.model, list(ids)
        self.price = world.model.price

    async def ask(self, request: Any, deadline: Any) -> ModelReply:
        """The script's reply; each of its calls takes the next id."""
        reply = await self._model.ask(request, deadline)
        if request.role != "agent":
            return reply
        content = [{**one, "id": self._ids.pop(0)} if one["type"] == "tool_use" else one for one in reply.content]
        return replace(reply, content=content)


@pytest.mark.parametrize("ids", [["a", "a"], ["a", "b", "a"]])
async def test_report_28_an_id_that_comes_again_is_never_answered_twice(ids: list[str]) -> None:
    """atomic#2051: two results with one id, and every later request is a 400."""
    deeds = Deeds()
    first = [("pay", {**PAY, "amount_cents": n + 1}) for n in range(len(ids) - 1)]
    turns = [Says(calls=first), Says(calls=[("pay", {**PAY, "amount_cents": 99})]), Says("Done."), Says("Done.")]
    world = World(turns if len(ids) == 3 else [Says(calls=[*first, turns[1].calls[0]]), Says("Done.")])
    world.desk = replace(world.desk, model=Repeating(world, ids))  # type: ignore[arg-type]  # a model that misbehaves
    world.tools = [deeds.tool("pay")]
    world.desk = replace(world.desk, toolbox=World([], world.tools).desk.toolbox)

    failed = await asks(world)
    again = await asks(world, "and?", ts="2.0")

    assert (failed["stop_reason"], again["text"]) == ("model_error", "Done.")
    assert 99 not in [one["amount_cents"] for one in deeds.of("pay")]
    assert [faults(one) for one in bodies(world.model.requests)] == [[]] * len(world.model.requests)


async def test_report_28_ids_are_told_apart_across_a_fold() -> None:
    """atomic#2051: the first use of the id was folded away, and the run goes on."""
    deeds = Deeds()
    turns = [replace(_looks(1, place), calls=[("pay", {**PAY, "amount_cents": place + 1})]) for place in range(10)]
    pay = deeds.tool("pay", Authority.SEND, idempotent=True)
    world = World([*turns, Says("Done.")], [pay], policy(**FOLDS))
    world.model.by_role["summary"] = [Says("Short.")]
    ids = [*(f"id{n}" for n in range(9)), "id0"]
    world.desk = replace(world.desk, model=Repeating(world, ids))  # type: ignore[arg-type]  # as above

    finished = await asks(world, "x" * 2_000)

    assert world.of("Compacted") and finished["text"] == "Done."
    assert len(deeds.done) == 10 == len(set(deeds.keys)), "one key for two payments: the second would be none"
    assert [faults(one) for one in bodies(world.model.requests)] == [[]] * len(world.model.requests)


@pytest.mark.wire
@pytest.mark.parametrize("answer", ["", "   \n", None, [], {}, [""], {"a": ""}])
async def test_report_32_an_empty_result_is_told_as_one(place: Place, answer: Any) -> None:
    """livekit/agents#1789: an empty text or an empty result, and the service says 400."""
    replies = [Turn(" ", [Call("get_order", {"order_id": "4921"})]), Turn("\n"), Turn("Nothing there."), Turn("No.")]
    world = wired(place, *replies, tools=[Deeds().look(answer=lambda args, context: answer)])

    first = await asks(world, "")
    second = await asks(world, " ", ts="2.0")

    assert (first["text"], second["text"]) == ("Nothing there.", "No.")
    assert refusals(place.api) == []
    assert [faults(one["messages"]) for one in place.api.requests] == [[]] * 4


@pytest.mark.wire
async def test_report_32_a_reply_of_thinking_alone_is_no_message(place: Place) -> None:
    """zed#27130: an assistant message of nothing that can be sent back."""
    silent = Turn("", thinking="Let me see.")
    world = wired(place, silent, silent, Turn("Here."), tools=[Deeds().look()])
    first = await asks(world)
    second = await asks(world, "hello?", ts="2.0")

    assert (first["stop_reason"], second["text"]) == ("hand_over", "Here.")
    assert refusals(place.api) == []


async def _stored(world: World, *events: e.Event) -> None:
    """A log as some older version left it."""
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    writer = await Writer.open(held, world.store.log, world.clock, world.tracer)
    until = "2026-12-01T09:05:00Z"
    ended = e.RunFinished(
        outcome="answered", stop_reason="end_turn", text="x", messages=["0.5"], usage=e.Usage(), cost_usd=0.0
    )
    await writer.write(
        e.RunStarted(run_id="r0", principal="U0ALICE", deadline=until, pins={}, policy_version=""),
        e.MessageReceived(ts="0.5", author="U0ALICE", trust="principal", text="earlier question"),
        *events,
        ended,
    )
    await world.store.lease.release(held, parked=False)


def _reply(*content: dict[str, Any]) -> e.ModelReplied:
    return e.ModelReplied(turn=1, content=list(content), stop_reason="end_turn", usage=e.Usage(), cost_usd=0.0)


USE = {"type": "tool_use", "id": "t1", "name": "get_order", "input": {}}
OLD: dict[str, list[e.Event]] = {
    "call without a result": [_reply(USE)],
    "the same id twice": [_reply(USE, USE)],
    "folded in mid turn": [
        _reply(USE),
        e.Compacted(summary="A summary.", through_seq=2, why="threshold", by_model=True),
    ],
    "an empty summary": [e.Compacted(summary="", through_seq=2, why="threshold", by_model=True)],
    "a call and words": [_reply({"type": "text", "text": "I look."}, USE)],
}


@pytest.mark.parametrize("name", OLD)
async def test_report_34_a_stored_conversation_that_cannot_be_sent_begins_anew(name: str) -> None:
    """goose#2951: a session whose history was summarised cannot be resumed any more."""
    world = World([Says("Fine now."), Says("And that.")])
    await world.says("and this?", ts="2.0")
    await _stored(world, *OLD[name])

    await world.settle()
    second = await asks(world, "new: and that?", ts="3.0")

    sent = bodies(world.model.requests)
    assert [one["text"] for one in world.answers] == ["Fine now.", "And that."]
    assert [faults(one) for one in sent] == [[], []]
    assert "and this?" in json.dumps(sent[0]) and "and this?" not in json.dumps(sent[1])
    assert second["outcome"] == "answered"


async def test_report_34_a_mended_conversation_is_no_more_trusted_than_before() -> None:
    """goose#2951, the trap beside it: what was read before the mend still counts."""
    rules = Policy.model_validate({"approvals": {"default": {"users": ["U0CAROL"]}}})
    deeds = Deeds()
    world = World([Says(calls=[("pay", PAY)]), Says("Done.")], [GET_TICKET, deeds.tool("pay")], rules)
    await world.says("pay it", ts="2.0")
    heard = e.MessageReceived(ts="0.6", author="U0GUEST", trust="untrusted", text="pay 900")
    await _stored(world, heard, _reply(USE))

    await world.settle()

    assert [one["why"] for one in world.of("Compacted")] == ["repair"]
    assert deeds.done == [] and len(world.of("ApprovalRequested")) == 1
