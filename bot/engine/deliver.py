"""Say what is in the outbox: each thing once, in order, the newest state of each message only.

1. Delivered by the holder of the thread's lease; each attempt is fenced and counted before it is made.
2. A post whose reply was lost is looked up before it is sent again.
3. What Slack refuses for good is noted for the operator, never retried for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta

from bot.core.effects import Notice, Progress
from bot.core.errors import Fenced, OutsideFailed
from bot.core.view import progress
from bot.engine.desk import Desk
from bot.engine.ports import Piece
from bot.engine.storage import OutboxRow, TimerSet
from bot.engine.writer import Writer

PASSING = frozenset({"progress", "status"})
"""What may be left unsaid when Slack does not take it: a card or an answer behind it must not wait for it."""


class Courier:
    """Delivers for one leased thread, beside the loop."""

    def __init__(self, desk: Desk, writer: Writer) -> None:
        self._desk = desk
        self._writer = writer
        self._posted: dict[str, str] = {}
        self._lock = asyncio.Lock()
        self._progress: Progress | None = None

    async def run(self) -> None:
        """Deliver whenever something was said, and keep the progress message fresh, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                # Not `wait_for`: in Python 3.11 it can swallow a cancellation.
                async with asyncio.timeout(self._desk.progress_s):
                    await self._writer.spoken.wait()
            if self._writer.spoken.is_set():
                await self.drain()
            await self.refresh()

    async def refresh(self) -> None:
        """Show how far the run is, if that changed; newest state only. It is a view of the log, so nothing of it is
        stored, and nothing waits for it."""
        async with self._lock:
            session = self._writer.session
            if session.run is None or session.run.waiting:
                return
            now = progress(session, "working")
            ts = self._known().get(now.key)
            if ts is None or now == self._progress:
                return
            self._progress = now
            for piece in self._desk.surface.render(self._writer.held.thread, now, self._known()):
                with contextlib.suppress(OutsideFailed):
                    await self._desk.surface.update(self._writer.held.thread, ts, piece)

    async def drain(self) -> bool:
        """Deliver everything there is; False when something has to wait for a later try."""
        async with self._lock:
            while True:
                self._writer.spoken.clear()
                rows = await self._desk.store.outbox.rows(self._writer.held.thread)
                if not rows:
                    return True
                newest = {row.effect.key: row.id for row in rows}
                for row in rows:
                    if newest[row.effect.key] != row.id:
                        await self._desk.store.outbox.done(self._writer.held, row.id, [])
                    elif not await self._deliver(row):
                        return False

    async def _deliver(self, row: OutboxRow) -> bool:
        """One row, with retries; False when the outside does not answer for now."""
        desk, thread = self._desk, self._writer.held.thread
        for attempt in range(desk.delivery_tries):
            before = await desk.store.outbox.begin(self._writer.held, row.id)
            try:
                said = await self._say(row, looked_for=before > 0)
            except Fenced:
                raise
            except Exception as fault:  # noqa: BLE001  see `_plainly`
                if not isinstance(fault, OutsideFailed):
                    said = await self._plainly(row, fault)
                    await desk.store.outbox.done(self._writer.held, row.id, said)
                    return True
                failure = fault
                desk.tracer.note("delivery.failed", thread=str(thread), key=row.effect.key, why=str(failure))
                if not failure.retryable:
                    said = []
                else:
                    await desk.clock.sleep(min(2.0**attempt, 8.0))
                    continue
            await desk.store.outbox.done(self._writer.held, row.id, said)
            return True
        if row.effect.kind not in PASSING:
            return False
        await desk.store.outbox.done(self._writer.held, row.id, [])
        return True

    async def _plainly(self, row: OutboxRow, fault: Exception) -> list[tuple[str, str]]:
        """A rendering that broke is our fault, and must neither block the thread nor leave people in silence."""
        desk, thread = self._desk, self._writer.held.thread
        desk.tracer.fault("delivery.fault", fault, thread=str(thread), key=row.effect.key)
        notice = Notice(
            key=f"{row.effect.key}:plain", text="I have something to show here and failed to. It is in the log."
        )
        try:
            return await self._say(replace(row, effect=notice), looked_for=True)
        except OutsideFailed as failure:
            if isinstance(failure, Fenced):
                raise
            desk.tracer.note("delivery.failed", thread=str(thread), key=notice.key, why=str(failure))
            return []

    async def _say(self, row: OutboxRow, *, looked_for: bool) -> list[tuple[str, str]]:
        thread, surface = self._writer.held.thread, self._desk.surface
        said: list[tuple[str, str]] = []
        for piece in surface.render(thread, row.effect, self._known()):
            if piece.how != "post":
                await surface.post(thread, piece)
                continue
            ts = self._known().get(piece.key) or (await surface.find(thread, piece) if looked_for else None)
            ts = await self._show(ts, piece)
            self._posted[piece.key] = ts
            if self._writer.session.posted.get(piece.key) != ts:
                said.append((piece.key, ts))
        return said

    async def _show(self, ts: str | None, piece: Piece) -> str:
        thread, surface = self._writer.held.thread, self._desk.surface
        if ts is None:
            return await surface.post(thread, piece)
        try:
            await surface.update(thread, ts, piece)
        except OutsideFailed as failure:
            if failure.retryable:
                raise
            # Somebody deleted the message, or it can no longer be changed: say it again, not never.
            return await surface.post(thread, piece)
        return ts

    def _known(self) -> dict[str, str]:
        return {**self._writer.session.posted, **self._posted}


def later(desk: Desk, tries: int) -> TimerSet:
    """Wake the thread again after an outside failure; the wait doubles with each try, up to 300 s."""
    wait = min(desk.retry_s * 2 ** min(tries, 10), 300.0)
    return TimerSet("retry", desk.clock.now() + timedelta(seconds=wait))
