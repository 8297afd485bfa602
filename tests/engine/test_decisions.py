"""What people decide, and what it is bound to, at the click and again at execution."""

from __future__ import annotations

from typing import Any

from bot.core.authority import Authority
from bot.core.errors import OutsideFailed
from bot.core.policy import Policy
from bot.core.words import Person
from bot.lab.twins import Says
from tests.builders import GET_ORDER, GET_TICKET, ISSUE_CREDIT, POLICY, CreditArgs, make_tool
from tests.world import World

TICKET = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAY = Says("Paying.", calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])
DONE = Says("Done.")


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


async def test_approvers_are_reminded_once_before_it_lapses_and_not_after_a_decision() -> None:
    """In the thread, by name, with the time that is left."""
    open_one, decided = World([TICKET, PAY, DONE]), World([TICKET, PAY, DONE])
    for world in (open_one, decided):
        await world.says("pay")
        await world.settle()
    await decided.clicks_on("approve")
    for world in (open_one, decided):
        for _ in range(3):
            world.clock.advance(4_000)
            await world.settle()

    [notice] = open_one.surface.of_kind("notice")
    assert "<@U0CAROL>, <@U0DAVE>" in notice["text"] and "issue_credit" in notice["text"]
    assert decided.surface.of_kind("notice") == []


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
