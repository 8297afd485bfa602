"""Goals 8 and 9: how much of the input is read from the prompt cache, beside the most that could be.

What was read is what the strict stand-in of bot/lab accounts. What could be read is worked out here from the recorded
bodies alone: every block that stood in the same place of an earlier request, after the same blocks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.tool import Tool, ToolContext, tool
from bot.engine.storage import InboxItem
from bot.lab.messages_script import Call, Turn
from bot.lab.messages_server import ScriptedMessages
from tests.bench.cpu import name
from tests.bench.ours import APPROVER, READ_PAGE, Ours, PageArgs
from tests.bench.places import ROOT, valkey
from tests.bench.script import TOOL, page
from tests.bench.table import Row, least

LEAST_BYTES = 4 * 512
"""A shorter prefix is never kept: 512 tokens of four bytes."""
OF_BOUND = 0.98
LEASE_S = 1.0
WAIT_S = 1200.0
WITHIN_S = 30.0
DIES_AT = 8


async def _read_record(args: PageArgs, context: ToolContext) -> str:
    """Read one record of our own system by its number."""
    return page(args.page)


async def _close_account(args: PageArgs, context: ToolContext) -> str:
    """Close an account for good."""
    return "The account is closed."


READ_RECORD = tool(authority=Authority.OBSERVE, output=Trust.INTERNAL, name="read_record")(_read_record)
CLOSE = tool(authority=Authority.CRITICAL, output=Trust.INTERNAL, idempotent=True, name="close_account")(_close_account)
TOOLS: tuple[Tool, ...] = (READ_PAGE, READ_RECORD, CLOSE)


class Script:
    """Turns by how much the model has said before; each turn is a list of tool names, the last one a text."""

    def __init__(self, turns: Sequence[Sequence[str]], stall_at: int = -1) -> None:
        self.turns = turns
        self.stall_at = stall_at
        """The turn that is not answered the first time."""

    def reply(self, request: dict[str, Any]) -> Turn:
        """The next turn of that conversation."""
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if turn >= len(self.turns):
            return Turn("The archive is read.")
        late, self.stall_at = turn == self.stall_at, -1 if turn == self.stall_at else self.stall_at
        calls = [Call(tool, {"page": turn * 100 + place}) for place, tool in enumerate(self.turns[turn])]
        return Turn("I read on.", calls, latency_s=2 * WITHIN_S if late else 0.0)


@dataclass
class Read:
    """A request: what was read of it, and what could have been, as shares of it."""

    share: float
    bound: float
    total: int
    """Bytes of all its blocks."""


@dataclass
class World:
    """The strict service on a clock of ours, a store, and one session of ours."""

    api: ScriptedMessages
    store_url: str
    session: str = field(default_factory=name)
    later_s: list[float] = field(default_factory=lambda: [0.0])

    async def ours(self) -> Ours:
        """Another process of ours, as far as the store can tell."""
        return await Ours.open(self.store_url, self.api.url, tools=TOOLS, lease_s=LEASE_S)


def reads(asked: Sequence[Any]) -> list[Read]:
    """Of every request that got its reply."""
    found: list[Read] = []
    before: list[list[bytes]] = []
    for one in asked:
        if one.outcome != "complete":
            continue
        blocks = _blocks(json.loads(one.body))
        sizes = [len(block) for block in blocks]
        common = max((sum(sizes[: _common(blocks, old)]) for old in before), default=0)
        usage = one.usage
        tokens = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] + usage["input_tokens"]
        bound = common / sum(sizes) if common >= LEAST_BYTES else 0.0
        found.append(Read(usage["cache_read_input_tokens"] / tokens, bound, sum(sizes)))
        before.append(blocks)
    return found


def _blocks(body: Mapping[str, Any]) -> list[bytes]:
    """Tools, system, then every message's blocks, without their marks."""
    system = body.get("system") or []
    found: list[Any] = [*body.get("tools", []), *([{"text": system}] if isinstance(system, str) else system)]
    for message in body["messages"]:
        content = message["content"]
        found += [{"type": "text", "text": content}] if isinstance(content, str) else content
    bare = [{key: value for key, value in block.items() if key != "cache_control"} for block in found]
    return [json.dumps(block, separators=(",", ":"), ensure_ascii=False).encode() for block in bare]


def _common(one: list[bytes], other: list[bytes]) -> int:
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))


# -- the cases ----------------------------------------------------------------------------------------


async def _to_the_end(world: World) -> None:
    ours = await world.ours()
    try:
        async with ours.working(1):
            await asyncio.wait_for(ours.sessions([world.session]), WITHIN_S)
    finally:
        await ours.close()


async def _until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await true():  # noqa: ASYNC110  what is waited for happens in another process
            await asyncio.sleep(0.02)


async def _killed(world: World) -> None:
    """The first worker is killed inside a model call; another one goes on from the log."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.cache", world.store_url, world.api.url), cwd=ROOT
    )
    ours = await world.ours()
    try:
        answered = await ours.ask(world.session)

        async def inside_a_call() -> bool:
            return len(world.api.asked) == DIES_AT + 1 and not world.api.asked[-1].outcome

        await _until(inside_a_call)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        async with ours.working(1):
            await asyncio.wait_for(answered, WITHIN_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await ours.close()


async def _approved_late(world: World) -> None:
    """A person decides after twenty minutes of the service's clock."""
    ours = await world.ours()
    thread = ours.thread(world.session)

    async def requests() -> list[Mapping[str, Any]]:
        entries = await ours.store.log.read(thread)
        return [entry.payload or {} for entry in entries if entry.type == "ApprovalRequested"]

    async def asked() -> bool:
        return bool(await requests())

    try:
        async with ours.working(1):
            answered = await ours.ask(world.session)
            await _until(asked)
            world.later_s[0] += WAIT_S
            click = {"user": APPROVER, "approval_id": (await requests())[0]["approval_id"], "vote": "approve"}
            await ours.store.inbox.enqueue(InboxItem(thread, "click", click), claim=f"click:{world.session}")
            await asyncio.wait_for(answered, WITHIN_S)
    finally:
        await ours.close()


async def case(turns: Sequence[Sequence[str]], play: Callable[[World], Awaitable[None]], stall: int = -1) -> list[Read]:
    """One session of that script, and what was read in it."""
    later = [0.0]
    loop = asyncio.get_running_loop()
    brain = Script(turns, stall)
    # A client that is killed leaves its request behind, and the server would print a stack for it.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    with valkey("everysec") as place:
        async with ScriptedMessages(brain, api_key="sk-bench", now=lambda: loop.time() + later[0]) as api:
            await play(World(api, place.url, later_s=later))
            found = reads(api.asked)
    assert len(found) == len(turns) + 1, f"{len(found)} requests were answered, {len(turns) + 1} were due"
    return found


# -- the rows -----------------------------------------------------------------------------------------


def _row(number: int, what: str, found: Sequence[Read], chosen: Sequence[Read], must: float) -> Row:
    """By the chosen requests; the worst single one has to keep up too."""
    whole = sum(one.total for one in chosen)
    share, bound = (sum(getattr(one, side) * one.total for one in chosen) / whole for side in ("share", "bound"))
    ratios = [(one.share / one.bound, place) for place, one in enumerate(found) if one.bound]
    worst, at = min(ratios)
    ratio = min(share / bound, worst)
    cause = f"request {at + 1} of {len(found)} reads {found[at].share:.3f} where {found[at].bound:.3f} was there"
    said = f">= {must:g} of the bound"
    return Row(number, what, f"{share:.3f}", f"{bound:.3f}", f"{ratio:.3f}", said, least(ratio, must), cause)


async def plain() -> Row:
    """Goal 8."""
    found = await case([[TOOL]] * 20, _to_the_end)
    return _row(8, "share of input read from cache after turn 20", found, found[-1:], 0.995)


async def hard() -> list[Row]:
    """Goal 9: every case that today's agents lose."""
    record = "read_record"
    wide = await case([[TOOL] * 12] * 6, _to_the_end)
    taint = await case([[record]] * 5 + [[TOOL]] + [[record]] * 5, _to_the_end)
    killed = await case([[TOOL]] * 12, _killed, DIES_AT)
    late = await case([[TOOL]] * 6 + [["close_account"]] + [[record]] * 3, _approved_late)
    return [
        _row(9, "the same, 6 turns of 12 parallel calls", wide, wide, OF_BOUND),
        _row(9, "the same, after taint rises", taint, taint[6:], OF_BOUND),
        _row(9, "the same, after kill -9 and replay", killed, killed[DIES_AT:], OF_BOUND),
        _row(9, "the same, after an approval of 20 minutes", late, late[7:8], OF_BOUND),
    ]


async def _serve(store_url: str, base_url: str) -> None:
    """The worker that will be killed; it ends by itself should nobody do it."""
    ours = await Ours.open(store_url, base_url, tools=TOOLS, lease_s=LEASE_S)
    async with ours.working(1):
        await asyncio.sleep(WITHIN_S)


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
