"""Report 18, everywhere: a worker is gone before or after each single step of the store, and another one goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.engine.ports import ModelFailure, ModelRequest
from bot.lab.twins import Says, TwinModel
from tests.builders import GET_TICKET
from tests.reports.oracle import bodies, faults
from tests.reports.places import PAY, Deeds, Died, restarted
from tests.world import World

READ = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAYING = Says("Paying.", [("get_order", {"order_id": "4921"}), ("pay", PAY), ("pay", {**PAY, "amount_cents": 1})])
STEPS = [("log", "commit"), ("ledger", "begin"), ("ledger", "end"), ("inbox", "pending"), ("lease", "release")]


class ByPlace(TwinModel):
    """The same reply to the same conversation, however often it is asked."""

    def _turn(self, request: ModelRequest) -> Says | ModelFailure:
        return self._turns[sum(one.role == "assistant" for one in request.messages)]


class Doomed:
    """Counts the steps of a world's store, and is gone at the one that was named."""

    def __init__(self, world: World, at: int, *, after: bool) -> None:
        self.count, self._at, self._after = 0, at, after
        self._real = [(getattr(world.store, port), name, port) for port, name in STEPS]
        for port, name, _ in self._real:
            setattr(port, name, self._watched(getattr(port, name)))

    def _watched(self, real: Any) -> Any:
        async def step(*given: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self._at and not self._after:
                raise Died
            found = await real(*given, **named)
            if self.count == self._at:
                raise Died
            return found

        return step

    def let_live(self) -> None:
        """From now on nothing is cut off any more."""
        self._at = -1


async def _until_done(world: World) -> World:
    """Everything at rest, both cards approved; by a new process whenever one is gone."""
    for _ in range(4):
        await restarted(world).settle()
        for asked in world.of("ApprovalRequested"):
            decided = {one["approval_id"] for one in world.of("ApprovalDecided", "ApprovalVoided")}
            if asked["approval_id"] not in decided:
                await restarted(world).clicks_on("approve", approval=asked["approval_id"])
    return world


async def _played(at: int, *, after: bool, idempotent: bool) -> tuple[World, Deeds, Doomed]:
    deeds = Deeds()
    tools = [GET_TICKET, deeds.look(), deeds.tool("pay", idempotent=idempotent)]
    world = World([], tools)
    world.model = ByPlace([READ, PAYING, Says("Done.")])
    world.desk = replace(world.desk, model=world.model)
    doomed = Doomed(world, at, after=after)
    await world.says("pay")
    for _ in range(4):
        try:
            await world.settle()
            asked = world.of("ApprovalRequested")
            if not asked or world.answers:
                break
            for one in asked:
                await world.clicks_on("approve", approval=one["approval_id"])
        except Died:
            world.clock.advance(20)
            break
    doomed.let_live()
    world.clock.advance(20)
    return await _until_done(world), deeds, doomed


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("after", [False, True])
async def test_report_18_wherever_a_worker_is_gone_no_payment_is_doubled_and_no_thread_is_stuck(
    after: bool, idempotent: bool
) -> None:
    """openworker#443: before or after every step that the store is asked for."""
    _, _, whole = await _played(0, after=False, idempotent=idempotent)
    ended_open = 0
    for at in range(1, whole.count + 1):
        world, deeds, _ = await _played(at, after=after, idempotent=idempotent)

        cents = [one["amount_cents"] for one in deeds.of("pay")]
        keys = {key for key, (name, _) in zip(deeds.keys, deeds.done, strict=True) if name == "pay"}
        unknown = len(world.of("EffectUnknown"))
        ended_open += unknown
        assert len(world.answers) == 1, f"step {at}: {world.kinds}"
        assert unknown or world.answers[0]["text"] == "Done.", at
        assert len(keys) == len(set(cents)), at
        if not idempotent:
            assert len(cents) == len(set(cents)), f"step {at} paid twice"
            assert unknown or sorted(cents) == [1, 5400], at
        else:
            assert not unknown and set(cents) == {1, 5400}, at
        assert [faults(one) for one in bodies(world.model.requests)] == [[]] * len(world.model.requests), at
    assert whole.count > 12
    assert (ended_open > 0) is (not idempotent), "the dangerous moment was never hit"
