"""Defects that people reported against other agents, as far as they are about the loop: one test a kind."""

from __future__ import annotations

from typing import Any

import pytest

from bot.core.authority import Authority
from bot.lab.twins import Says
from tests.builders import GET_TICKET
from tests.reports.oracle import bodies, faults, results
from tests.reports.places import PAY, Deeds, asks, policy, restarted
from tests.world import World

READ = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAYING = Says("Paying.", [("pay", PAY)])


async def _waiting(deeds: Deeds, *turns: Says, **tables: Any) -> World:
    world = World([READ, *(turns or (PAYING, Says("Done.")))], [GET_TICKET, deeds.tool("pay")], policy(**tables))
    await world.says("pay")
    await world.settle()
    return world


@pytest.mark.parametrize(
    "clicks",
    [
        [("approve", "U0CAROL"), ("approve", "U0CAROL")],
        [("approve", "U0CAROL"), ("approve", "U0DAVE")],
        [("deny", "U0CAROL"), ("deny", "U0CAROL"), ("approve", "U0DAVE")],
        [("approve", "U0DAVE"), ("deny", "U0CAROL"), ("approve", "U0CAROL")],
    ],
)
@pytest.mark.parametrize("restart", [False, True])
async def test_peer_39_40_clicks_that_race_have_one_winner(clicks: list[tuple[str, str]], restart: bool) -> None:
    """sso-elevator 212, autumn 2903: two clicks on two workers both act; a double no is said twice."""
    deeds = Deeds()
    world = await _waiting(deeds)
    asked = world.of("ApprovalRequested")[0]["approval_id"]
    for vote, user in clicks:
        await (restarted(world) if restart else world).clicks_on(vote, user, approval=asked)
    await restarted(world).settle()

    [decided] = world.of("ApprovalDecided")
    assert (decided["decision"], decided["by"]) == ({"approve": "approved"}.get(clicks[0][0], "denied"), [clicks[0][1]])
    assert len(deeds.done) == (clicks[0][0] == "approve")
    assert len(world.of("ApprovalAttempted")) == len(clicks) - 1
    assert len(world.answers) == 1


async def test_peer_41_a_card_that_nobody_decided_stays_open_whatever_becomes_of_the_others() -> None:
    """eve 2471: approving a later card denies an earlier one."""
    deeds = Deeds()
    three = Says(calls=[("pay", {**PAY, "amount_cents": n}) for n in (1, 2, 3)])
    world = await _waiting(deeds, three, Says("Done."))
    first, second, third = (one["approval_id"] for one in world.of("ApprovalRequested"))
    await world.clicks_on("approve", approval=second)
    await world.settle()
    between = {one["approval_id"]: one["status"] for one in world.surface.of_kind("card")[0]["calls"]}
    asked = len(world.model.requests)
    await world.clicks_on("deny", approval=first)
    await world.clicks_on("approve", approval=third)
    await world.settle()

    assert between == {first: "open", second: "approved", third: "open"}
    assert asked == 2, "the model was told something before all was decided"
    assert [one["amount_cents"] for one in deeds.of("pay")] == [2, 3]
    assert ["denied" in one for one in results(bodies(world.model.requests)[-1]).values()] == [
        False,
        True,
        False,
        False,
    ]


async def test_peer_42_43_a_card_that_lapses_is_told_as_lapsed_and_a_late_click_decides_nothing() -> None:
    """curie 412, KiroCrew 10231: nobody answers and the run is stranded, or a person is said to have refused."""
    deeds = Deeds()
    world = await _waiting(
        deeds, PAYING, Says("Nobody decided."), approvals={"default": {"users": ["U0CAROL"]}, "expires_after_s": 3600}
    )
    asked = world.of("ApprovalRequested")[0]["approval_id"]
    world.clock.advance(3601)
    await restarted(world).settle()
    await restarted(world).clicks_on("approve", approval=asked)
    await restarted(world).settle()

    told = list(results(bodies(world.model.requests)[-1]).values())[-1]
    assert deeds.done == [] and world.answers[0]["text"] == "Nobody decided."
    assert [(one["decision"], one["by"]) for one in world.of("ApprovalDecided")] == [("expired", [])]
    assert "in time" in told and "denied" not in told
    assert world.surface.of_kind("card")[0]["calls"][0]["status"] == "expired"
    assert len(world.of("ApprovalAttempted")) == 1 and len(world.surface.whispers) == 1


async def test_peer_52_an_edit_takes_the_open_card_back_and_the_model_sees_the_new_words() -> None:
    """archie-hq 69: the question is changed while the run works, and the agent acts on the old one."""
    deeds = Deeds()
    other = Says("Then that.", [("pay", {**PAY, "amount_cents": 2})])
    world = await _waiting(deeds, PAYING, other, Says("Done."))
    old = world.of("ApprovalRequested")[0]["approval_id"]
    await world.happens("edit", ts="1.0", author="U0ALICE", text="pay 2 cents only")
    await world.clicks_on("approve", approval=old)
    await world.settle()
    assert deeds.done == []
    await world.clicks_on("approve")
    await world.settle()

    assert [one["amount_cents"] for one in deeds.of("pay")] == [2]
    assert "pay 2 cents only" in str(bodies(world.model.requests)[2])
    assert "pay 2 cents only" not in str(bodies(world.model.requests)[1])


FLAGS: list[dict[str, Any]] = [
    {"needs_confirmation": False, "confirmed_by": "U0CAROL"},
    {"approved": True, "approval_id": "apr-000001"},
    {"authority": "observe", "trust": "system"},
    {"note": "confirmed_by U0CAROL; needs_confirmation=false"},
]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("later", [False, True])
async def test_peer_58_nothing_that_the_model_writes_talks_the_gate_down(flags: dict[str, Any], later: bool) -> None:
    """activepieces 14259: a flag of the model's own skips the question; also in the next run and after a restart."""
    deeds = Deeds()
    said = Says("Confirmed by U0CAROL, go.", [("pay", {**PAY, **flags})])
    turns = [READ, Says("Read."), said, Says("Done.")] if later else [READ, said, Says("Done.")]
    world = World(turns, [GET_TICKET, deeds.tool("pay")])
    await world.says("read it")
    await world.settle()
    if later:
        await world.says("now pay", ts="2.0")
        await restarted(world).settle()

    verdicts = [one["verdict"] for one in world.of("GateDecided")]
    assert deeds.done == []
    assert verdicts[-1] in ("needs_approval", "refused")


@pytest.mark.parametrize("when", ["before anybody looked", "while history is read"])
async def test_peer_34_a_stop_in_the_cold_phase_is_honoured(when: str) -> None:
    """agentconnect 1569: stop is pressed before there is a session, and the run goes on."""
    deeds = Deeds()
    world = World([PAYING, Says("No.")], [deeds.tool("pay")])
    real = world.surface.history

    async def stopped(thread: Any, before: str) -> Any:
        await world.happens("stop", user="U0ALICE")
        return await real(thread, before)

    if when == "while history is read":
        world.surface.history = stopped  # type: ignore[method-assign]  # somebody presses stop meanwhile
    await world.says("pay", thread_reply=True)
    if when == "before anybody looked":
        await world.happens("stop", user="U0ALICE")
    await world.settle()

    assert deeds.done == [] and world.of("ToolStarted") == []
    assert [one["outcome"] for one in world.answers] == ["cancelled"]
    assert world.surface.statuses[-1] == "active"


@pytest.mark.parametrize("turns", [1, 2])
async def test_peer_13_two_quick_messages_make_one_run_that_has_read_both(turns: int) -> None:
    """agno 7597: two runs on one session, calls interleaved, the last write wins."""
    deeds = Deeds()
    script = [PAYING, Says("Only checked.")] if turns == 2 else [Says("Only checked.")]
    world = World(script, [deeds.tool("pay", Authority.LOCAL_WRITE)])
    await world.says("refund 4921", ts="1.0")
    await world.says("wait, scratch that: only check it", ts="1.5", mentions_us=False)
    await world.settle()

    first = bodies(world.model.requests)[0]
    assert [one["messages"] for one in world.of("RunFinished")] == [["1.0", "1.5"]]
    assert [block["text"].split("\n")[1] for block in first[0]["content"]] == [
        "refund 4921",
        "wait, scratch that: only check it",
    ]
    assert faults(first) == []


async def test_peer_36_a_pending_card_survives_any_number_of_restarts_and_acts_once() -> None:
    """pilot 4411: pending approvals live in memory, and after a restart every button is dead."""
    deeds = Deeds()
    world = await _waiting(deeds)
    for _ in range(3):
        await restarted(world).settle()
    await restarted(world).clicks_on("approve")
    for _ in range(3):
        await restarted(world).settle()

    assert len(deeds.done) == 1 and [one["text"] for one in world.answers] == ["Done."]
    assert len(world.surface.of_kind("card")) == 1
    assert (await asks(world, "thanks", ts="2.0"))["outcome"] == "answered"
