"""A whole thread played from a tape: people ask, steer, stop, decide and fall silent; nothing is left open."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

from bot.core.chain import Entry
from bot.core.policy import Policy
from bot.lab.clock import LabClock
from tests.properties.scripts import Effect, policy, reply, tools
from tests.properties.service import Service
from tests.properties.tape import Tape
from tests.world import World

WATCH_S = 0.4321
"""Of the watch over a lease, and of nothing else that sleeps."""


class Hours(LabClock):
    """Moves on by itself for whoever sleeps, except for the watch over a lease."""

    async def sleep(self, seconds: float) -> None:
        """A pause passes at once; the watch waits until time has moved."""
        if seconds == WATCH_S:
            await super().sleep(seconds)
        else:
            self.advance(seconds)
            for _ in range(4):
                await asyncio.sleep(0)  # who slept until now wakes up first


class Sea:
    """One thread and everything that happened around it."""

    def __init__(self, data: bytes, chosen: Policy | None = None, **options: Any) -> None:
        self.tape = Tape(data)
        self.policy = chosen or policy(self.tape)
        self.done: list[Effect] = []
        self.stopped = 0
        self.stops: list[datetime] = []
        self._said = 1
        clock = Hours()
        self.world = World([], tools(self.tape, clock, self.done, self.meanwhile), self.policy, clock=clock)
        self.service = Service(self.tape, clock, reply, self._progress, self.meanwhile, **options)
        self.world.desk = replace(self.world.desk, model=self.service, watch_s=WATCH_S)
        self._counted = (0, 0, 0)

    @property
    def log(self) -> list[Entry]:
        """As stored; not verified at each look."""
        actor = self.world.store.memory.actors.get(self.world.thread)
        return actor.log if actor else []

    def _progress(self) -> tuple[int, int]:
        seen, runs, epochs = self._counted
        for entry in self.log[seen:]:
            runs += entry.type == "RunStarted"
            fresh = entry.type == "RunStarted" and (entry.payload or {})["fresh"]
            epochs += entry.type == "Compacted" or bool(fresh)
        self._counted = (len(self.log), runs, epochs)
        return runs, epochs

    async def meanwhile(self) -> None:
        """Seldom somebody writes, edits, deletes or stops while the agent is at work."""
        if self.tape.rarely():
            await self._person()

    async def _person(self) -> None:
        what = self.tape.pick(("talk", "talk", "other", "aside", "stop", "edit", "delete", "fresh"))
        ts, self._said = f"{self._said + 1}.0", self._said + 1
        match what:
            case "talk" | "fresh":
                await self.world.says("new: begin again" if what == "fresh" else "and also this", ts=ts)
            case "other":
                await self.world.says("me too", "U0BOB", ts=ts)
            case "aside":
                await self.world.says("lunch?", "U0BOB", ts=ts, mentions_us=False)
            case "stop":
                self.stopped += 1
                self.stops.append(self.world.clock.now())
                await self.world.happens("stop", user="U0ALICE")
            case "edit":
                await self.world.happens("edit", ts="1.0", author="U0ALICE", text=f"changed {ts}")
            case _:
                self.stopped += 1
                await self.world.happens("delete", ts="1.0")

    async def play(self) -> Sea:
        """From the first question until nothing is open any more."""
        quoted = ["> do as I say"] if self.tape.rarely() else []
        await self.world.says("Where is order a?", ts="1.0", quoted=quoted)
        await self.world.settle()
        for _ in range(self.tape.byte() % 4):
            await self._decide()
            await self.world.settle()
        for _ in range(12):
            if self._at_rest():
                break
            self.world.clock.advance(100_000)
            await self.world.settle()
        return self

    async def _decide(self) -> None:
        asked = [entry.payload for entry in self.log if entry.type == "ApprovalRequested" and entry.payload]
        match self.tape.pick(("approve", "approve", "deny", "expire", "person")):
            case "approve" | "deny" as vote if asked:
                await self.world.clicks_on(vote, "U0CAROL", self.tape.pick(asked)["approval_id"])
            case "expire":
                self.world.clock.advance(100_000)
            case _:
                await self._person()

    def _at_rest(self) -> bool:
        kinds = [entry.type for entry in self.log]
        return kinds.count("RunStarted") == kinds.count("RunFinished")
