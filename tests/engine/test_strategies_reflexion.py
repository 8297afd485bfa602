"""An answer is read once more before people see it; that may delay an answer and never prevents one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.strategies.react import React
from bot.engine.ports import ModelFailure, ModelRequest
from bot.lab.twins import Says
from tests.engine.oracles import ends, is_append_only, log_of, policy_with, sent
from tests.world import World

LOOK = Says(calls=[("get_order", {"order_id": "4921"})])
TICKET = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAY = Says("Paying.", calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])
FIRST, SECOND, THIRD = Says("First."), Says("Second."), Says("Third.")
GOOD = Says('{"ok": true, "notes": ""}')
BAD = Says('{"ok": false, "notes": "The order says 900."}')


def _world(*verdicts: Any, turns: Any = (LOOK, FIRST, SECOND, THIRD), loop: Any = None, **tables: Any) -> World:
    policy = policy_with(loop={"reflexion": True, **(loop or {})}, **tables)
    return World(turns, policy=policy, asides={"critique": verdicts or (GOOD,)})


async def test_an_answer_that_holds_is_given() -> None:
    """After one critique."""
    world = _world(GOOD)

    finished = await ends(world)

    assert (finished["outcome"], finished["text"]) == ("answered", "First.")
    assert world.of("Critiqued") == [{"type": "Critiqued", "ok": True, "notes": "", "usable": True}]


async def test_an_answer_that_is_objected_to_gets_one_retry_with_the_notes() -> None:
    """Nobody sees the first one; the second is given whatever it is."""
    world = _world(BAD, BAD)

    finished = await ends(world)

    assert finished["text"] == "Second."
    assert [one["ok"] for one in world.of("Critiqued")] == [False]
    assert len(sent(world, "critique")) == 1
    assert b"The order says 900." in sent(world)[-1][-1]
    assert [one["text"] for one in world.answers] == ["Second."]


async def test_the_critique_sees_question_results_and_answer() -> None:
    """Of this run; it has no tools."""
    world = _world(GOOD, turns=(TICKET, LOOK, FIRST, FIRST))
    await ends(world, "Is it paid?")
    await world.says("And the other one?", ts="2.0")
    await world.settle()

    [first, second] = [b" ".join(blocks).decode() for blocks in sent(world, "critique")]

    assert all(part in first for part in ("Is it paid?", "refund 900 at once", "90000", "First."))
    assert "And the other one?" in second and "refund 900" not in second and "Is it paid?" not in second
    assert all(not one.tools for one in world.model.requests if one.role == "critique")


async def test_a_long_result_is_cut_for_the_critique() -> None:
    """A sane size, whatever was read."""
    turns = [Says(calls=[("get_order", {"order_id": f"10{number:02d}"})]) for number in range(18)]
    world = _world(GOOD, turns=[*turns, Says("a" * 30_000)], caps={"turns": 24, "barren_turns": 99})

    await ends(world, "q" * 30_000)

    assert sum(map(len, sent(world, "critique")[0])) < 45_000


@pytest.mark.parametrize(
    "verdict",
    [
        Says("It is fine."),
        Says(""),
        Says("{}"),
        Says('{"notes": "no"}'),
        Says('{"ok": null, "notes": "no"}'),
        Says('{"ok": "false", "notes": "no"}'),
        Says('{"ok": 0, "notes": "no"}'),
        Says('{"ok": false, "ok": false}'),
        Says('[{"ok": false}]'),
        Says('{"ok": false, "notes": "cut'),
        Says('{"ok": false}', stop_reason="max_tokens"),
        ModelFailure("gone"),
        ModelFailure("late", kind="deadline"),
    ],
    ids=repr,
)
async def test_without_a_usable_verdict_the_answer_stands(verdict: Any) -> None:
    """It fails open, and the log says so."""
    world = _world(verdict)

    finished = await ends(world)

    assert (finished["outcome"], finished["text"]) == ("answered", "First.")
    [critiqued] = world.of("Critiqued")
    assert critiqued["ok"] and not critiqued["usable"]


@pytest.mark.parametrize(
    ("notes", "told"),
    [('"\\ud800 see \\u202e"', "see"), ("17", "do not support"), ('""', "do not support"), ('"  "', "do not support")],
)
async def test_odd_notes_never_break_the_conversation(notes: str, told: str) -> None:
    """Lone surrogates, hidden characters, no text at all: the retry is still made."""
    world = _world(Says(f'{{"ok": false, "notes": {notes}}}'))

    finished = await ends(world)

    assert finished["text"] == "Second."
    assert told in sent(world)[-1][-1].decode()


async def test_no_room_for_a_critique_lets_the_answer_stand() -> None:
    """The budget is kept, and so is the answer."""
    world = _world(BAD, turns=(Says("A" * 8_000),), caps={"tokens": 6_000}, model={"max_output_tokens": 300})

    finished = await ends(world, "q")

    assert (finished["outcome"], finished["text"]) == ("answered", "A" * 8_000)
    assert sent(world, "critique") == []


async def test_an_answer_that_came_in_time_is_not_lost_to_the_time_of_its_critique() -> None:
    """No time for a critique is no verdict."""
    world = _world(BAD, turns=(FIRST,))

    async def slowly(request: ModelRequest) -> None:
        world.clock.advance(400)

    world.model.while_asked = slowly

    finished = await ends(world)

    assert sent(world, "critique") == []
    assert (finished["outcome"], finished["text"]) == ("answered", "First.")


@pytest.mark.parametrize(
    ("turns", "caps", "stop"),
    [
        ((LOOK, FIRST, SECOND), {"turns": 2}, "turn_cap"),
        ((LOOK, FIRST, ModelFailure("gone")), {}, "model_error"),
        ((LOOK, FIRST, Says(""), Says("")), {}, "hand_over"),
    ],
)
async def test_an_answer_that_was_objected_to_is_shown_where_no_better_one_could_be_had(
    turns: Any, caps: dict[str, Any], stop: str
) -> None:
    """As far as it goes: the run did not end as answered."""
    world = _world(BAD, turns=turns, caps=caps)

    finished = await ends(world)

    assert finished["stop_reason"] == stop
    assert "So far:\n\nFirst." in finished["text"]
    assert world.answers[0]["by_model"]


async def test_only_an_answer_is_criticised() -> None:
    """A refusal is said at once."""
    world = _world(BAD, turns=(Says("No.", stop_reason="refusal"),))

    finished = await ends(world)

    assert finished["stop_reason"] == "refusal" and sent(world, "critique") == []


async def test_a_critique_raises_no_label() -> None:
    """What was read before it still lowers what may run after it."""
    world = _world(BAD, turns=(TICKET, FIRST, PAY, SECOND))

    await world.says("pay?")
    await world.settle()

    assert [one["verdict"] for one in world.of("GateDecided")] == ["allowed", "needs_approval"]
    assert len(world.of("ApprovalRequested")) == 1


CALL = st.sampled_from(["get_order", "get_ticket", "issue_credit", "no_such_tool"])
ORDER = st.sampled_from(["4921", "1111", "bad"])
TEXT = st.sampled_from(["", "Done.", '{"ok": false, "notes": "x"}'])
STOP = st.sampled_from(["", "", "", "", "max_tokens", "refusal", "pause_turn", "who_knows"])
TURN = st.builds(
    lambda text, calls, stop: Says(text, [(one, {"order_id": order}) for one, order in calls], stop),
    TEXT,
    st.lists(st.tuples(CALL, ORDER), max_size=3),
    STOP,
)


async def _played(world: World) -> World:
    for number, text in enumerate(("first", "second")):
        await world.says(text, ts=f"{number + 1}.0")
        await world.settle()
        world.clock.advance(100_000)
        await world.settle()
    return world


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TURN, min_size=1, max_size=6))
def test_switched_off_it_is_byte_identical_to_absent(turns: list[Says]) -> None:
    """Whole logs and all requests of random runs."""
    off = World(turns, policy=policy_with(loop={"reflexion": False}))
    absent = World(turns, policy=policy_with(loop={"reflexion": False}))
    object.__setattr__(absent.desk, "strategy", React())

    asyncio.run(_played(off))
    asyncio.run(_played(absent))

    assert log_of(off) == log_of(absent)
    assert off.model.requests == absent.model.requests
    assert off.surface.of_kind("answer") == absent.surface.of_kind("answer")


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TURN, min_size=1, max_size=6), st.lists(st.sampled_from([GOOD, BAD, FIRST]), min_size=1, max_size=3))
def test_switched_on_every_question_still_ends_once(turns: list[Says], verdicts: list[Any]) -> None:
    """At most one critique a run, and what was sent is never rewritten."""
    world = World(turns, policy=policy_with(loop={"reflexion": True}), asides={"critique": verdicts})

    asyncio.run(_played(world))

    finished = world.of("RunFinished")
    assert sorted(ts for one in finished for ts in one["messages"]) == ["1.0", "2.0"]
    assert len(world.of("Critiqued")) <= len(finished)
    assert is_append_only(world)
    assert world.tracer.faults == []
