"""A whole Plimsoll in memory: the real engine and core on twins. For promises that must be tried in thousands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.core.chain import Entry, verify
from bot.core.policy import Policy
from bot.core.strategies import strategy_for
from bot.core.tool import Tool
from bot.core.words import ThreadId
from bot.engine.desk import Desk
from bot.engine.ports import ModelFailure
from bot.engine.storage import InboxItem
from bot.engine.toolbox import LocalToolbox
from bot.engine.worker import Worker
from bot.lab.clock import LabClock
from bot.lab.memory import MemoryStore
from bot.lab.twins import Says, Script, Silent, TwinModel, TwinPeople, TwinSurface
from tests.builders import GET_ORDER, GET_TICKET, ISSUE_CREDIT, POLICY, THREAD

STAFF = ("U0ALICE", "U0BOB", "U0CAROL", "U0DAVE", "U0ERIN", "U0MALLORY")


@dataclass
class World:
    """People on one side, tools and a scripted model on the other."""

    turns: Sequence[Says | ModelFailure] | Script
    tools: Sequence[Tool] = (GET_ORDER, GET_TICKET, ISSUE_CREDIT)
    policy: Policy = POLICY
    thread: ThreadId = THREAD
    clock: LabClock = field(default_factory=LabClock)
    clicks: int = 0
    asides: Mapping[str, Sequence[Says | ModelFailure]] = field(default_factory=dict)
    """What the small model says, by role."""

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)
        self.model = TwinModel(self.turns)
        self.model.by_role = {role: list(script) for role, script in self.asides.items()}
        self.people = TwinPeople(self.thread.team, STAFF, {"S0LEADS": ["U0CAROL"]})
        self.surface = TwinSurface()
        self.tracer = Silent()
        self.desk = Desk(
            store=self.store,
            model=self.model,
            toolbox=LocalToolbox(list(self.tools), self.policy, {}, self.tracer, self.clock),
            people=self.people,
            surface=self.surface,
            tracer=self.tracer,
            clock=self.clock,
            policy=self.policy,
            strategy=strategy_for(self.policy.loop),
            prompt="You help.",
        )

    async def says(self, text: str, author: str = "U0ALICE", ts: str = "1.0", **body: Any) -> str:
        """A person writes, mentioning us unless said."""
        given = {"ts": ts, "author": author, "text": text, "mentions_us": True, **body}
        item = InboxItem(self.thread, "message", given)
        return await self.store.inbox.enqueue(item, claim=f"message:{ts}")

    async def happens(self, kind: Any, **body: Any) -> str:
        """A stop, an edit, a deletion, a timer."""
        self.clicks += 1
        return await self.store.inbox.enqueue(InboxItem(self.thread, kind, body), claim=f"{kind}:{self.clicks}")

    async def clicks_on(self, vote: str, user: str = "U0CAROL", approval: str | None = None) -> str:
        """A click on the newest open request, or on that one."""
        asked = approval or self.of("ApprovalRequested")[-1]["approval_id"]
        return await self.happens("click", user=user, approval_id=asked, vote=vote)

    async def settle(self) -> None:
        """Until nothing moves any more."""
        while True:
            await self.store.timers.fire_due()
            worker = Worker(self.desk, "w1")
            held = await self.store.lease.next_ready("w1", wait_s=0, lease_s=15)
            if held is None:
                return
            await worker.handle(held)

    @property
    def log(self) -> list[Entry]:
        """The thread's entries; the chain is checked at each look."""
        actor = self.store.memory.actors.get(self.thread)
        entries = actor.log if actor else []
        assert verify(self.thread, [entry.dump() for entry in entries]).whole
        return entries

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """Payloads of those events, in order."""
        return [{**(entry.payload or {}), "type": entry.type} for entry in self.log if entry.type in kinds]

    @property
    def kinds(self) -> list[str]:
        """Event types in order."""
        return [entry.type for entry in self.log]

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What people were told at the end of each run."""
        return self.surface.of_kind("answer")
