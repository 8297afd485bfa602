"""Investigations with something in between: a crash, a stop, a person's word."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from bot.core.transcript import faults
from bot.engine.advance import advance
from bot.engine.ports import ModelReply, ModelRequest
from bot.engine.writer import Writer
from bot.lab.twins import TwinModel
from tests.inquiries import THREE, Brain, branch_of, said_in, world
from tests.world import World


class Died(BaseException):
    """The process is gone: nothing of it runs on."""


async def _dies_at(one: World, commit: int, *, stored: bool) -> bool:
    """Run until that commit and die right before it is stored, or right after; False when there was none."""
    held = await one.store.lease.next_ready("w0", wait_s=0, lease_s=15)
    assert held is not None
    real, count = one.store.log.commit, 0

    async def dies(given: Any, step: Any) -> None:
        nonlocal count
        count += 1
        if count == commit and not stored:
            raise Died
        await real(given, step)
        if count == commit:
            raise Died

    one.store.log.commit = dies  # type: ignore[method-assign]  # the process dies here
    died = False
    try:
        writer = await Writer.open(held, one.store.log, one.clock, one.tracer)
        await advance(one.desk, writer)
    except Died:
        died = True
    one.store.log.commit = real  # type: ignore[method-assign]  # as above
    one.clock.advance(20)
    return died


@pytest.mark.parametrize("stored", [False, True])
async def test_after_a_crash_at_any_commit_the_run_goes_on_to_one_answer(stored: bool) -> None:
    """No investigation that had ended is asked again, and no call is left open."""
    deaths = 0
    for commit in range(1, 40):
        one = world(Brain(branches=THREE))
        await one.says("why?")
        died = await _dies_at(one, commit, stored=stored)
        told = {event["branch"] for event in one.of("ModelReplied") if event["stop_reason"] == "end_turn"}
        before = len(one.model.requests)
        await one.settle()

        assert [answer["text"] for answer in one.answers] == ["Paid twice [1], see also [2, 3]."], commit
        assert {branch_of(request) for request in one.model.requests[before:]}.isdisjoint(told - {0})
        assert Counter(call["call_id"] for call in one.of("ToolRequested")) == Counter(
            call["call_id"] for call in one.of("ToolReturned")
        )
        assert [fault for request in one.model.requests for fault in faults(request.messages)] == []
        assert one.tracer.faults == []
        deaths += died
        if not died:
            break
    assert deaths >= 8


class Hanging(TwinModel):
    """Never answers the third investigation."""

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """The script's word for all others."""
        reply = await super().ask(request, deadline)
        if branch_of(request) == 3:
            await asyncio.Event().wait()
        return reply


async def test_a_stop_ends_all_investigations_and_closes_every_call() -> None:
    """However far each has come; nothing is asked afterwards, and the next question finds a sound conversation."""
    brain = Brain(branches=THREE)
    one = world(brain)
    one.desk = replace(one.desk, model=Hanging(brain))
    await one.says("why?")
    settling = asyncio.ensure_future(one.settle())
    for _ in range(20):
        await asyncio.sleep(0)
    await one.happens("stop", user="U0ALICE")
    started = one.clock.now()
    while not settling.done():
        await asyncio.sleep(0)
        one.clock.advance(0.05)
    await settling
    took = (one.clock.now() - started).total_seconds()

    assert one.of("RunFinished")[0]["outcome"] == "cancelled" and took < 2
    assert one.of("ToolStarted") == []
    assert len(one.of("ToolRequested")) == len(one.of("ToolReturned")) == 2
    one.desk = replace(one.desk, model=TwinModel(brain))
    await one.says("and now?", ts="2.0")
    await one.settle()
    assert one.answers[-1]["outcome"] == "answered"
    assert faults(one.desk.model.requests[-1].messages) == []  # type: ignore[attr-defined]  # the twin above


async def test_what_a_person_writes_meanwhile_is_read_before_the_judgement() -> None:
    """After what was found, and by no investigation."""
    brain = Brain(branches=THREE)
    one = world(brain)
    tasks: list[Any] = []

    def says_more(request: ModelRequest) -> Any:
        if branch_of(request) == 2 and not one.store.memory.actors[one.thread].inbox:
            tasks.append(asyncio.ensure_future(one.says("Only since May, please.", ts="1.5")))
        return brain(request)

    one.model = TwinModel(says_more)
    one.desk = replace(one.desk, model=one.model)
    await one.says("why?")
    await one.settle()

    last = said_in(one.model.requests[-1])
    assert 0 < last.index("The investigations have ended") < last.index("Only since May")
    assert all("Only since May" not in said_in(request) for request in one.model.requests[:-1])
    assert one.of("RunFinished")[0]["messages"] == ["1.0", "1.5"]


async def test_a_corrected_question_reaches_the_judgement_and_no_investigation() -> None:
    """It stands in the conversation at once, and in none of theirs: their turns must stay in order."""
    brain = Brain(branches=THREE)
    one = world(brain)
    tasks: list[Any] = []

    def corrects(request: ModelRequest) -> Any:
        if branch_of(request) == 2 and not one.of("MessageEdited"):
            edit = one.happens("edit", ts="1.0", author="U0ALICE", text="why twice?")
            tasks.append(asyncio.ensure_future(edit))
        return brain(request)

    one.model = TwinModel(corrects)
    one.desk = replace(one.desk, model=one.model)
    await one.says("why?")
    await one.settle()

    assert "why twice?" in said_in(one.model.requests[-1])
    assert all("why twice?" not in said_in(request) for request in one.model.requests if branch_of(request))
    assert [fault for request in one.model.requests for fault in faults(request.messages)] == []
    assert one.answers[0]["outcome"] == "answered"
