"""A worker dies, a reply is lost, a person loses a right in between: nothing is lost and nothing is doubled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.core.authority import Authority
from bot.core.errors import OutsideFailed
from bot.core.policy import Policy
from bot.core.words import Person
from bot.engine.advance import advance
from bot.engine.worker import Worker
from bot.engine.writer import Writer
from bot.lab.twins import Says
from tests.builders import GET_ORDER, GET_TICKET, ISSUE_CREDIT, POLICY, CreditArgs, make_tool
from tests.world import World

TICKET = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAY = Says("Paying.", calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])
DONE = Says("Done.")


class Died(BaseException):
    """The process is gone: nothing of it runs on."""


def _paying(effects: list[str], *, idempotent: bool, die: bool = True) -> Any:
    state = {"die": die}

    def pay(args: Any, context: Any) -> Any:
        effects.append(context.idempotency_key)
        if state.pop("die", False):
            raise Died
        return {"paid": True}

    return make_tool("issue_credit", Authority.CRITICAL, model=CreditArgs, idempotent=idempotent, answer=pay)


async def _crash(world: World) -> None:
    """Run until the tool's process dies, then let its lease run out."""
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    writer = await Writer.open(held, world.store.log, world.clock)
    with pytest.raises(Died):
        await advance(world.desk, writer)
    world.clock.advance(20)


@pytest.mark.parametrize(("idempotent", "times"), [(True, 2), (False, 1)])
async def test_an_effect_of_unknown_end_is_repeated_only_with_the_same_key(idempotent: bool, times: int) -> None:
    """An idempotent tool runs again with its key; any other goes to a person, never run blindly."""
    effects: list[str] = []
    world = World([PAY, DONE], [_paying(effects, idempotent=idempotent)])
    await world.says("pay")
    await _crash(world)

    await world.settle()

    assert len(effects) == times
    assert len(set(effects)) == 1
    assert len(world.of("ToolStarted")) == 1
    if idempotent:
        assert world.answers[0]["text"] == "Done."
    else:
        assert [one["call_id"] for one in world.of("EffectUnknown")] == ["toolu_001_0"]
        assert world.answers[0]["stop_reason"] == "hand_over"
        assert "5400" in world.answers[0]["text"]


async def test_a_finished_effect_whose_result_was_not_logged_is_replayed() -> None:
    """The ledger remembers what the log does not yet."""
    effects: list[str] = []
    world = World([PAY, DONE], [_paying(effects, idempotent=False, die=False)])
    await world.says("pay")
    held = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    real = world.store.log.commit

    async def dies_after_the_effect(given: Any, step: Any) -> None:
        if any(entry.type == "ToolReturned" for entry in step.entries):
            raise Died
        await real(given, step)

    world.store.log.commit = dies_after_the_effect  # type: ignore[method-assign]  # the process dies here
    writer = await Writer.open(held, world.store.log, world.clock)
    with pytest.raises(Died):
        await advance(world.desk, writer)
    world.store.log.commit = real  # type: ignore[method-assign]  # as above
    world.clock.advance(20)

    await world.settle()

    assert len(effects) == 1
    assert world.answers[0]["text"] == "Done."


async def test_a_fenced_worker_says_nothing() -> None:
    """Another one owns the thread: no entry, no post."""
    world = World([DONE])
    await world.says("why?")
    stale = await world.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert stale is not None
    world.clock.advance(20)
    await world.settle()
    before = (len(world.log), len(world.surface.shown))

    await Worker(world.desk, "w0").handle(stale)

    assert (len(world.log), len(world.surface.shown)) == before
    assert world.tracer.notes[-1][0] == "worker.fenced"


async def test_a_post_whose_reply_was_lost_is_found_not_repeated() -> None:
    """One right, visible answer: never silence, never two."""
    world = World([TICKET, PAY, DONE])
    world.surface.losing = 2
    await world.says("pay")
    await _with_waits(world)
    await world.clicks_on("approve")
    world.surface.losing = 1
    await _with_waits(world)

    keys = [one.piece.key for one in world.surface.shown]
    assert len(keys) == len(set(keys))
    assert world.answers[0]["text"] == "Done."


async def test_an_answer_waits_for_slack_to_come_back() -> None:
    """However long it is away, it comes once."""
    world = World([DONE])
    world.surface.failing = 9
    await world.says("why?")
    for _ in range(12):
        await _with_waits(world)
        world.clock.advance(400)

    assert [one["text"] for one in world.answers] == ["Done."]
    assert len(world.of("RunFinished")) == 1


async def test_a_rendering_that_breaks_neither_blocks_the_thread_nor_leaves_people_in_silence() -> None:
    """Our fault, loud for the operator; people get a plain line, and the next question is answered."""
    world = World([DONE, Says("Again.")])
    real = world.surface.render

    def breaks(thread: Any, effect: Any, posted: Any) -> Any:
        if effect.kind == "answer" and effect.text == "Done.":
            raise ValueError("odd text")
        return real(thread, effect, posted)

    world.surface.render = breaks  # type: ignore[method-assign]  # a rendering with a fault
    await world.says("why?")
    await world.settle()
    await world.says("and?", ts="2.0")
    await world.settle()

    assert "in the log" in world.surface.of_kind("notice")[0]["text"]
    assert [one["text"] for one in world.answers] == ["Again."]
    assert [str(fault) for fault in world.tracer.faults] == ["odd text"]


async def _with_waits(world: World) -> None:
    """Settle while the clock's sleepers are woken: retries wait on it."""
    settling = asyncio.ensure_future(world.settle())
    while not settling.done():
        await asyncio.sleep(0)
        world.clock.advance(0.1)
    await settling


async def test_an_approver_who_lost_the_right_before_execution_approved_nothing() -> None:
    """Looked up at the click and again at execution."""
    world = World([TICKET, PAY, DONE])
    await world.says("pay")
    await world.settle()
    await world.clicks_on("approve", "U0CAROL")
    original = world.people.approvers

    calls = {"n": 0}

    async def loses(rule: Any) -> frozenset[str]:
        calls["n"] += 1
        if calls["n"] == 2:  # the first is the click's own look-up
            world.people.put(Person("U0CAROL", "T0PLIMSOLL", is_member=False))
        return await original(rule)

    world.people.approvers = loses  # type: ignore[method-assign]  # the workspace changes between two look-ups
    await world.settle()

    assert "may no longer do so" in world.of("ApprovalVoided")[0]["why"]
    assert "toolu_002_0" not in [one["call_id"] for one in world.of("ToolStarted")]
    assert len(world.of("ApprovalRequested")) == 2


async def test_nothing_above_the_line_runs_while_nobody_can_say_who_may_decide() -> None:
    """No approver can be looked up: refused at once, said to the model, never a silent wait."""
    world = World([TICKET, PAY, Says("I could not.")])

    async def away(rule: Any) -> frozenset[str]:
        raise OutsideFailed("Slack is away")

    world.people.approvers = away  # type: ignore[method-assign]  # Slack does not answer this one question
    await world.says("pay")
    await world.settle()

    assert world.of("ApprovalRequested") == []
    assert world.answers[0]["text"] == "I could not."


async def test_an_approval_is_void_when_the_world_changed_under_it() -> None:
    """The precondition is looked up again at execution; the person is asked anew."""
    balance = {"now": 1}

    async def state(args: Any, context: Any) -> Any:
        return dict(balance)

    pay = make_tool("issue_credit", Authority.CRITICAL, model=CreditArgs, precondition=state, answer={"paid": True})
    world = World([TICKET, PAY, DONE], [GET_TICKET, GET_ORDER, pay])
    await world.says("pay")
    await world.settle()
    balance["now"] = 2
    await world.clicks_on("approve")
    await world.settle()

    assert [one["why"] for one in world.of("ApprovalVoided")] == ["what its approval was bound to has changed since"]
    assert len(world.of("ApprovalRequested")) == 2
    await world.clicks_on("approve")
    await world.settle()
    assert world.answers[0]["text"] == "Done."


async def test_calls_of_one_turn_are_asked_together_each_on_its_own() -> None:
    """One message, two digests; one yes runs one call."""
    both = Says(
        calls=[("issue_credit", {"order_id": "4921", "amount_cents": number}) for number in (1, 2)],
    )
    world = World([TICKET, both, DONE], [GET_TICKET, ISSUE_CREDIT])
    await world.says("pay")
    await world.settle()
    first, second = world.of("ApprovalRequested")
    await world.clicks_on("approve", approval=second["approval_id"])
    await world.settle()
    started_early = [one["call_id"] for one in world.of("ToolStarted")]
    await world.clicks_on("deny", approval=first["approval_id"])
    await world.settle()

    assert first["batch"] == second["batch"] and first["digest"] != second["digest"]
    assert len(world.surface.of_kind("card")) == 1
    assert started_early == ["toolu_001_0"]
    assert [one["call_id"] for one in world.of("ToolStarted")] == ["toolu_001_0", "toolu_002_1"]


async def test_two_people_must_say_yes_where_the_policy_says_two() -> None:
    """Four eyes, on one card."""
    policy = Policy.model_validate({"approvals": {"critical": {"users": ["U0CAROL", "U0DAVE"], "distinct": 2}}})
    world = World([TICKET, PAY, DONE], policy=policy)
    await world.says("pay")
    await world.settle()
    await world.clicks_on("approve", "U0CAROL")
    await world.settle()
    half = list(world.kinds)
    await world.clicks_on("approve", "U0DAVE")
    await world.settle()

    assert "ApprovalDecided" not in half
    assert world.of("ApprovalDecided")[0]["by"] == ["U0CAROL", "U0DAVE"]
    assert world.answers[0]["text"] == "Done."


async def test_a_button_that_was_tampered_with_decides_nothing() -> None:
    """The value is only an opaque id; the attempt is in the log. `POLICY` names Carol, and it does not help."""
    world = World([TICKET, PAY, DONE], policy=POLICY)
    await world.says("pay")
    await world.settle()
    asked = world.of("ApprovalRequested")[0]["approval_id"]

    await world.happens("click", user="U0CAROL", approval_id=asked, vote="approve", tampered=True)
    await world.settle()

    assert "did not carry what we put there" in world.of("ApprovalAttempted")[0]["refused_because"]
    assert world.answers == []


async def test_parallel_calls_write_the_same_log_as_one_after_the_other() -> None:
    """And the next request is the same to the byte."""
    three = Says(calls=[("get_order", {"order_id": f"100{number}"}) for number in range(3)])
    logs, requests = [], []
    for parallel in (False, True):
        policy = Policy.model_validate({**POLICY.model_dump(exclude={"loop"}), "loop": {"parallel": parallel}})
        world = World([three, DONE], policy=policy)
        await world.says("look")
        await world.settle()
        logs.append([(entry.type, entry.payload) for entry in world.log if entry.type != "RunStarted"])
        requests.append(str(world.model.requests[1].messages).partition("trust principal")[2])

    def bare(log: Any) -> Any:
        return [
            (kind, {k: v for k, v in payload.items() if k not in ("reference", "idempotency_key", "key", "ts")})
            for kind, payload in log
        ]

    assert bare(logs[0]) == bare(logs[1])
    assert requests[0] == requests[1]
