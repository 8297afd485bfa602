"""Ours: the real engine, client, store, gate, log and caps. Twins stand in for Slack's surface and for people only."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bot.app.clock import SystemClock
from bot.claude.client import Claude
from bot.core.authority import Authority
from bot.core.policy import Policy
from bot.core.strategies.react import React
from bot.core.tool import Tool, ToolContext, tool
from bot.core.words import ThreadId
from bot.engine.desk import Desk
from bot.engine.ports import Piece
from bot.engine.storage import InboxItem
from bot.engine.toolbox import LocalToolbox
from bot.engine.worker import Worker
from bot.lab.twins import TwinPeople, TwinSurface
from bot.store.redis_store import RedisStore
from bot.telemetry.notes import Notes
from tests.bench.script import SYSTEM, TOOL_WORDS, page, question

TEAM, CHANNEL, ASKER, APPROVER = "T0BENCH", "C0BENCH", "U0ALICE", "U0CAROL"
POLICY = Policy.model_validate(
    {
        "caps": {"turns": 1000, "tokens": 1_000_000_000, "usd": 1e6, "deadline_s": 86_400},
        "untrusted": {"reading": "open"},
        "approvals": {"default": {"users": [APPROVER, "U0DAVE"]}},
        "people": {"runs_per_hour": 100_000},
    }
)


class PageArgs(BaseModel):
    """Which page."""

    page: int


async def _read_page(args: PageArgs, context: ToolContext) -> str:
    return page(args.page)


_read_page.__doc__ = TOOL_WORDS
READ_PAGE = tool(authority=Authority.OBSERVE, name="read_page", parallel_safe=True)(_read_page)


class Board(TwinSurface):
    """The twin, with its messages found by key: looking through them all would be in our account."""

    def __init__(self) -> None:
        super().__init__()
        self._at: dict[ThreadId, dict[str, str]] = {}
        self._count = 0
        self.answered: dict[ThreadId, asyncio.Future[Mapping[str, Any]]] = {}
        self.card: Mapping[str, Any] = {}
        """The newest one."""

    def expect(self, thread: ThreadId) -> asyncio.Future[Mapping[str, Any]]:
        """The body of that thread's next answer."""
        self.answered[thread] = asyncio.get_running_loop().create_future()
        return self.answered[thread]

    async def post(self, thread: ThreadId, piece: Piece) -> str:
        """A new message."""
        if piece.how != "post":
            return ""
        self._count += 1
        ts = f"9{self._count:09d}.000100"
        self._at.setdefault(thread, {})[piece.key] = ts
        self._look(thread, piece)
        return ts

    async def update(self, thread: ThreadId, ts: str, piece: Piece) -> None:
        """Replace what that message shows."""
        self._look(thread, piece)

    async def find(self, thread: ThreadId, piece: Piece) -> str | None:
        """By key within the thread."""
        return self._at.get(thread, {}).get(piece.key)

    def _look(self, thread: ThreadId, piece: Piece) -> None:
        if piece.body["kind"] == "card":
            self.card = piece.body
        if piece.body["kind"] == "answer" and (waiting := self.answered.pop(thread, None)) and not waiting.done():
            waiting.set_result(piece.body)
            self._at.pop(thread)


class Ours:
    """One process of ours on a store and a model service."""

    def __init__(self, store: RedisStore, base_url: str, tools: Sequence[Tool], policy: Policy, lease_s: float) -> None:
        self.store, self.surface = store, Board()
        self.tracer = Notes(stream=Path(os.devnull).open("w"))  # noqa: SIM115  open as long as the process
        self.model = Claude(api_key="sk-bench", base_url=base_url)
        clock = SystemClock()
        self.desk = Desk(
            store=store,
            model=self.model,
            toolbox=LocalToolbox(list(tools), policy, {}, self.tracer, clock),
            people=TwinPeople(TEAM, [ASKER, APPROVER, "U0DAVE"]),
            surface=self.surface,
            tracer=self.tracer,
            clock=clock,
            policy=policy,
            strategy=React(),
            prompt=SYSTEM,
            lease_s=lease_s,
        )

    @classmethod
    async def open(
        cls,
        store_url: str,
        base_url: str,
        *,
        tools: Sequence[Tool] = (READ_PAGE,),
        policy: Policy = POLICY,
        lease_s: float = 15.0,
    ) -> Ours:
        """Connected, the SDK imported."""
        ours = cls(await RedisStore.connect(store_url), base_url, tools, policy, lease_s)
        await ours.model.warm_up()
        return ours

    @staticmethod
    def thread(name: str) -> ThreadId:
        """The thread of a session."""
        return ThreadId(TEAM, CHANNEL, name)

    async def ask(self, name: str) -> asyncio.Future[Mapping[str, Any]]:
        """A person's question goes into the inbox; the future is the answer."""
        thread = self.thread(name)
        answered = self.surface.expect(thread)
        body = {"ts": name, "author": ASKER, "text": question(name), "mentions_us": True}
        await self.store.inbox.enqueue(InboxItem(thread, "message", body), claim=f"message:{name}")
        return answered

    async def session(self, name: str) -> None:
        """One session, from its question to the last thing written about it."""
        answered = await self.ask(name)
        while not answered.done():
            await self.step()
        answer = answered.result()
        assert answer["outcome"] == "answered", answer

    async def step(self) -> bool:
        """Serve one ready thread until it rests."""
        held = await self.desk.store.lease.next_ready("bench", wait_s=1, lease_s=self.desk.lease_s)
        if held is not None:
            await Worker(self.desk, "bench").handle(held)
        return held is not None

    @contextlib.asynccontextmanager
    async def working(self, at_once: int) -> AsyncIterator[None]:
        """A worker runs as in production; its end waits for what it has begun."""
        worker = Worker(self.desk, "bench", at_once=max(200, at_once))
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stopping.set()
            await running

    async def sessions(self, names: Sequence[str]) -> None:
        """Many at once; a worker is there."""
        answers = await asyncio.gather(*(self.ask(name) for name in names))
        for answer in await asyncio.gather(*answers):
            assert answer["outcome"] == "answered", answer

    async def close(self) -> None:
        """End the connections."""
        await self.model.close()
        await self.store.close()
