"""The one writer of a thread's log while its lease is held."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from bot.core import events as e
from bot.core.chain import Entry, genesis, seal_entry
from bot.core.effects import Effect
from bot.core.event import TrustWord
from bot.core.labels import Trust
from bot.core.session import evolve, replay
from bot.core.state import Session
from bot.core.transcript import Rendering
from bot.engine.ports import Clock, Step, Tracer
from bot.engine.storage import Commit, EventLog, Held, TimerSet

Answer = TypeVar("Answer")


@dataclass
class Writer:
    """Session and head of one leased thread; each `write` is one atomic commit.

    What may be lost with the process is staged: the session knows it, and the next `write` stores it first. Nothing
    outside may depend on a staged event: a model call, an effect, a post or a rest is preceded by a `write`.
    """

    held: Held
    log: EventLog
    clock: Clock
    tracer: Tracer
    session: Session
    seq: int
    head: str
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when somebody asked to stop; checked before each expensive or irreversible step."""
    told: set[str] = field(default_factory=set)
    """Keys of one-line notices under this lease that are not confirmed yet."""
    spoken: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is something new to deliver."""
    staged: list[tuple[Entry, Step]] = field(default_factory=list)
    """Sealed, in the session, not yet stored."""
    settled: list[str] = field(default_factory=list)
    """Calls with a row in the ledger whose results are staged; the next commit drops the rows."""
    lost: e.Usage = field(default_factory=e.Usage)
    """What attempts at a reply since the last request are known to have used up; the next request or the ending
    writes it down."""
    lost_usd: float = 0.0
    newest: str = ""
    """Id of the newest inbox item at the last commit or renewal; empty when none waited."""
    looked: str | None = None
    """Id of the newest item that was looked at; `None`: nobody looked yet."""
    left: bool = False
    """Something was looked at and left for later."""
    renderings: dict[tuple[str, int], Rendering] = field(default_factory=dict)
    """The conversation as each model is sent it, by model and branch."""

    @classmethod
    async def open(cls, held: Held, log: EventLog, clock: Clock, tracer: Tracer) -> Writer:
        """Replay the stored log under that lease."""
        entries = await log.read(held.thread)
        head = entries[-1].hash if entries else genesis(held.thread)
        return cls(held, log, clock, tracer, replay(held.thread, entries), len(entries), head)

    def stage(self, *events: e.Event) -> None:
        """Append the events to the session; a lowered label is written down with its source."""
        pending = list(events)
        while pending:
            event = pending.pop(0)
            before = self.session
            at = max(self.clock.now(), before.last_at or self.clock.now())
            after = evolve(before, event, at)
            run = "" if isinstance(event, e.MessageIgnored) else _run_id(before, after)
            entry = seal_entry(event, seq=self.seq + 1, at=stamp(at), run=run, prev=self.head, salt=self.clock.salt())
            self.staged.append((entry, Step(before, event, after, entry.seq)))
            pending[:0] = _lowering(before, after)
            self.session, self.seq, self.head = after, entry.seq, entry.hash

    async def write(
        self,
        *events: e.Event,
        consumed: Sequence[str] = (),
        effects: Sequence[Effect] = (),
        timers: Sequence[TimerSet] = (),
        pins: Mapping[str, str] | None = None,
    ) -> None:
        """Store what was staged, the events, and everything that belongs to them, or nothing.

        Raises `Fenced` when another worker took over. After a failure the session is as it was before the call.
        """
        before = (self.session, self.seq, self.head, list(self.staged))
        self.stage(*events)
        entries = [entry for entry, _ in self.staged]
        try:
            step = Commit(entries, list(consumed), list(effects), list(timers), dict(pins or {}), list(self.settled))
            self.newest = await self.log.commit(self.held, step)
        except BaseException:
            self.session, self.seq, self.head, self.staged = before
            raise
        self.settled.clear()
        written, self.staged = [step for _, step in self.staged], []
        self.tracer.seen(written)
        if effects:
            self.spoken.set()

    def conversation(self, model: str, branch: int = 0) -> Rendering:
        """The conversation as that model is sent it, as things are now."""
        found = self.renderings.setdefault((model, branch), Rendering(model, branch))
        found.of(self.session)
        return found

    def lose(self, usage: e.Usage, usd: float) -> None:
        """An attempt brought no reply and is known to have used that much."""
        self.lost, self.lost_usd = self.lost.plus(usage), self.lost_usd + usd

    def booked(self) -> None:
        """What was lost is in the log."""
        self.lost, self.lost_usd = e.Usage(), 0.0

    @property
    def news(self) -> bool:
        """Whether a look into the inbox may find something."""
        unseen = self.looked is None or (self.newest and self.newest != self.looked)
        return bool(unseen or self.left or self.stop.is_set())

    async def settle(self) -> None:
        """Store what is staged, if anything is."""
        if self.staged or self.settled:
            await self.write()


async def unless_stopped(writer: Writer, work: Coroutine[Any, Any, Answer]) -> Answer | None:
    """What the work gives, or `None` when somebody says stop first; then it is cancelled."""
    if writer.stop.is_set():
        # A task would run up to its first await, and that may be what was to be stopped.
        work.close()
        return None
    working = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(writer.stop.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        stopped.cancel()
        working.cancel()


def _run_id(before: Session, after: Session) -> str:
    run = before.run or after.run
    return run.id if run else ""


def _lowering(before: Session, after: Session) -> list[e.Event]:
    if after.trust >= before.trust or before.trust is Trust.SYSTEM:
        return []
    source = next((one for one in reversed(after.label.sources) if one.trust == after.trust), None)
    name = f"{source.kind} {source.name}" if source else "something unnamed"
    return [e.LabelLowered(before=_word(before), after=_word(after), source=name)]


def _word(session: Session) -> TrustWord:
    word: TrustWord = session.trust.word  # type: ignore[assignment]  # the enum's names are the words
    return word


def stamp(at: datetime) -> str:
    """RFC 3339 UTC with microseconds and Z, as every entry carries it."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
