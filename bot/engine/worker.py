"""A worker: leases ready threads, advances each until it rests, delivers, gives it back.

1. A fenced worker drops everything and says nothing.
2. An outside failure sets the thread aside for a timer; a fault of ours ends its run with a post.
3. Being told to stop means: take no new thread, finish the step under way, release.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from bot.core.actions import Finish
from bot.core.errors import Fenced, OutsideFailed
from bot.core.state import Run
from bot.engine.advance import advance
from bot.engine.deliver import Courier, later
from bot.engine.desk import Desk
from bot.engine.finish import finish
from bot.engine.intake import absorb
from bot.engine.storage import Held, InboxItem
from bot.engine.writer import Writer


class Worker:
    """Runs many threads at once, each by one task."""

    def __init__(self, desk: Desk, owner: str, *, at_once: int = 200) -> None:
        self._desk = desk
        self._owner = owner
        self._room = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        self._tries: dict[str, int] = {}
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Until `stopping` is set; then waits for the threads under way."""
        while not self.stopping.is_set():
            await self._room.acquire()
            held = await self._next()
            if held is None:
                self._room.release()
                continue
            task = asyncio.create_task(self.handle(held))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()

    async def _next(self) -> Held | None:
        desk = self._desk
        try:
            return await desk.store.lease.next_ready(self._owner, wait_s=1.0, lease_s=desk.lease_s)
        except OutsideFailed as failure:
            desk.tracer.note("store.unreachable", why=str(failure))
            await desk.clock.sleep(1.0)
            return None

    async def handle(self, held: Held) -> None:
        """One lease of one thread."""
        desk = self._desk
        try:
            writer = await Writer.open(held, desk.store.log, desk.clock, desk.tracer)
            with desk.tracer.lease(writer.session):
                async with _kept(desk, writer):
                    rested = await self._until_rest(writer)
                    parked = not rested or writer.session.run is not None
            await desk.store.lease.release(held, parked=parked)
        except Fenced:
            desk.tracer.note("worker.fenced", thread=str(held.thread), owner=self._owner)
        except OutsideFailed as failure:
            desk.tracer.note("thread.set_aside", thread=str(held.thread), why=str(failure))
        except Exception as fault:  # noqa: BLE001  a log that cannot be read, an item of a newer version: left as it is
            desk.tracer.fault("thread.unreadable", fault, thread=str(held.thread))
            with contextlib.suppress(OutsideFailed):
                await desk.store.inbox.pending(held.thread)  # read and left: it must not come back at once
                await desk.store.lease.release(held, parked=True)
        finally:
            desk.store.lease.let_go(held)

    async def _until_rest(self, writer: Writer) -> bool:
        """Advance and deliver until neither has anything left; False when a timer has to wake the thread."""
        desk, courier = self._desk, Courier(self._desk, writer)
        speaking = asyncio.create_task(courier.run())
        try:
            while True:
                await self._advance(writer)
                delivered = await courier.drain()
                if not await absorb(desk, writer):
                    break
            if delivered:
                self._tries.pop(str(writer.held.thread), None)
                return True
        except OutsideFailed as failure:
            if isinstance(failure, Fenced):
                raise
            desk.tracer.note("thread.later", thread=str(writer.held.thread), why=str(failure))
        finally:
            await _ended(speaking)
        await self._wake_later(writer)
        return False

    async def _advance(self, writer: Writer) -> None:
        try:
            await advance(self._desk, writer)
        except OutsideFailed:
            raise
        except Exception as fault:  # noqa: BLE001  our fault must still end in one visible outcome
            self._desk.tracer.fault("run.failed", fault, thread=str(writer.held.thread))
            await finish(self._desk, writer, Finish("failed", "internal_error"))

    async def _wake_later(self, writer: Writer) -> None:
        thread = str(writer.held.thread)
        tries = self._tries[thread] = self._tries.get(thread, -1) + 1
        await writer.write(timers=[later(self._desk, tries)])


@contextlib.asynccontextmanager
async def _kept(desk: Desk, writer: Writer) -> AsyncIterator[None]:
    """Renew the lease while the body runs, look for a stop, and end the body when the lease is lost."""
    body = asyncio.current_task()
    assert body is not None
    lost: list[OutsideFailed] = []

    async def keep() -> None:
        try:
            await _renew(desk, writer)
        except OutsideFailed as failure:
            lost.append(failure)
            body.cancel()

    keeper = asyncio.create_task(keep())
    try:
        yield
    except asyncio.CancelledError:
        if lost:
            raise Fenced(f"the lease on {writer.held.thread} was lost: {lost[0]}") from None
        raise
    finally:
        await _ended(keeper)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancelled until it is over."""
    while not task.done():
        # Once is not enough: before Python 3.12 `asyncio.wait_for`, which the Redis client sends with, swallows a
        # cancellation that meets its result, and a keeper would then hold its thread for ever.
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
    await asyncio.gather(task, return_exceptions=True)


async def _renew(desk: Desk, writer: Writer) -> None:
    """Until the lease is lost; the store may be away for as long as the lease holds."""
    renewed, newest = desk.clock.now(), ""
    while True:
        await desk.clock.sleep(desk.watch_s)
        try:
            last = await desk.store.lease.renew(writer.held, desk.lease_s)
            renewed = desk.clock.now()
            if last and last != newest:
                # A word that came while a call ran is read before the model is asked again, not a turn later.
                writer.newest = last
                await _look_for_stop(desk, writer)
            newest = last
        except Fenced:
            raise
        except OutsideFailed:
            if (desk.clock.now() - renewed).total_seconds() > desk.lease_s * 0.8:
                raise


async def _look_for_stop(desk: Desk, writer: Writer) -> None:
    items = await desk.store.inbox.peek(writer.held.thread)
    run = writer.session.run
    if run and any(_ends(item, run) for item in items):
        writer.stop.set()


def _ends(item: InboxItem, run: Run) -> bool:
    """A stop from inside, or a question of that run that is gone; any other message may be deleted."""
    if item.kind == "stop":
        return not item.body.get("external")
    return item.kind == "delete" and str(item.body.get("ts")) in run.messages
