"""One suite for every store: the twin in memory and a real Valkey keep the same promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.app.clock import SystemClock
from bot.core.chain import Entry, genesis, seal_entry, verify
from bot.core.effects import Notice, Progress
from bot.core.errors import Fenced
from bot.core.events import MessageIgnored
from bot.core.words import ThreadId
from bot.engine.storage import Commit, Held, InboxItem, TimerSet
from bot.lab.clock import LabClock
from bot.lab.memory import MemoryStore
from tests.valkey import fresh_store

THREAD = ThreadId("T0PLIMSOLL", "C0SUPPORT", "1780000000.000100")
OTHER = replace(THREAD, root_ts="1780000000.000200")
LEASE_S = 0.3


@dataclass
class Place:
    """A store and its time."""

    store: Any
    clock: Any
    passes: Callable[[float], Awaitable[None]]

    async def lease(self, owner: str = "w1", lease_s: float = LEASE_S) -> Held:
        """The next thread, which must be there."""
        held = await self.store.lease.next_ready(owner, wait_s=1.0, lease_s=lease_s)
        assert held is not None, "no thread was ready"
        return held

    async def idle(self, owner: str = "w9") -> bool:
        """Nothing is ready."""
        return await self.store.lease.next_ready(owner, wait_s=0.02, lease_s=LEASE_S) is None

    async def arrives(self, thread: ThreadId = THREAD, claim: str = "m1", kind: Any = "message", **body: Any) -> str:
        """Something for that thread."""
        return str(await self.store.inbox.enqueue(InboxItem(thread, kind, body or {"ts": claim}), claim=claim))


@pytest.fixture(params=["memory", pytest.param("valkey", marks=pytest.mark.wire)])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """Each test runs on both."""
    if request.param == "memory":
        clock = LabClock()

        async def moves(seconds: float) -> None:
            clock.advance(seconds)

        yield Place(MemoryStore(clock), clock, moves)
        return
    async with fresh_store(request.getfixturevalue("valkey")) as store:
        yield Place(store, SystemClock(), asyncio.sleep)


def _entries(count: int, after: Entry | None = None, thread: ThreadId = THREAD) -> list[Entry]:
    entries: list[Entry] = []
    seq, prev = (after.seq, after.hash) if after else (0, genesis(thread))
    for number in range(seq + 1, seq + count + 1):
        event = MessageIgnored(ts=f"1.{number}", reason="ä\n" * 3, author="U0BOB")
        at = f"2026-12-01T09:00:00.{number:06d}Z"
        entries.append(seal_entry(event, seq=number, at=at, run="", prev=prev, salt=b"0123456789abcdef"))
        prev = entries[-1].hash
    return entries


async def test_an_event_is_taken_in_once_however_often_it_arrives(place: Place) -> None:
    """Four deliveries at the same moment are one item."""
    answers = await asyncio.gather(*(place.arrives() for _ in range(4)))

    held = await place.lease()
    waiting = await place.store.inbox.pending(THREAD)

    assert sorted(answers) == ["accepted", "duplicate", "duplicate", "duplicate"]
    assert [item.body for item in waiting] == [{"ts": "m1"}]
    assert await place.idle()
    assert held.thread == THREAD


async def test_what_arrives_keeps_its_order_and_says_when_it_came(place: Place) -> None:
    """Oldest first; the time is RFC 3339."""
    for number in range(5):
        await place.arrives(claim=f"m{number}")

    items = await place.store.inbox.pending(THREAD)

    assert [item.body["ts"] for item in items] == [f"m{number}" for number in range(5)]
    assert all(datetime.fromisoformat(item.at).tzinfo for item in items)
    assert [item.id for item in items] == sorted(
        (item.id for item in items), key=lambda one: [int(n) for n in one.split("-")]
    )


async def test_talk_in_a_thread_we_do_not_know_is_neither_stored_nor_claimed(place: Place) -> None:
    """And the mention that follows is not taken for a repeat of it."""
    item = InboxItem(THREAD, "message", {"ts": "m1"})

    first = await place.store.inbox.enqueue(item, claim="m1", only_known=True)
    second = await place.store.inbox.enqueue(item, claim="m1")
    third = await place.store.inbox.enqueue(replace(item, body={"ts": "m2"}), claim="m2", only_known=True)

    assert (first, second, third) == ("unknown_thread", "accepted", "accepted")


async def test_a_thread_has_one_worker_at_a_time(place: Place) -> None:
    """More work for a leased thread waits for its holder."""
    await place.arrives()
    await place.lease("w1")
    await place.arrives(claim="m2")

    assert await place.idle("w2")


async def test_threads_are_worked_on_side_by_side(place: Place) -> None:
    """A lease on one is none on another."""
    await place.arrives()
    await place.arrives(OTHER, claim="o1")

    assert {(await place.lease("w1")).thread, (await place.lease("w2")).thread} == {THREAD, OTHER}


async def test_a_thread_given_back_with_unread_work_is_ready_again(place: Place) -> None:
    """No wake-up is lost between the last look and the release."""
    await place.arrives()
    held = await place.lease()
    await place.store.inbox.pending(THREAD)
    await place.arrives(claim="m2")

    await place.store.lease.release(held, parked=True)

    assert (await place.lease()).epoch == held.epoch + 1


async def test_what_was_read_and_left_does_not_spin_a_parked_thread(place: Place) -> None:
    """Messages held while a person decides wait quietly, until something new comes."""
    await place.arrives()
    held = await place.lease()
    await place.store.inbox.pending(THREAD)
    await place.store.lease.release(held, parked=True)
    quiet = await place.idle()

    await place.arrives(claim="m2")

    assert quiet
    assert (await place.lease()).thread == THREAD
    assert len(await place.store.inbox.pending(THREAD)) == 2


async def test_a_dead_worker_s_thread_is_taken_over_with_no_further_traffic(place: Place) -> None:
    """On an idle queue, once the lease has run out."""
    await place.arrives()
    dead = await place.lease("w1")
    place.store.lease.let_go(dead)  # its process is gone
    early = await place.idle("w2")
    await place.passes(LEASE_S * 1.2)

    held = await _until_leased(place, "w2")

    assert early
    assert held.epoch == dead.epoch + 1


async def _until_leased(place: Place, owner: str) -> Held:
    for _ in range(50):
        held = await place.store.lease.next_ready(owner, wait_s=0.05, lease_s=LEASE_S)
        if held is not None:
            return held
    raise AssertionError("nobody took the thread over")


async def test_a_renewed_lease_does_not_run_out(place: Place) -> None:
    """And renewing says how much waits."""
    await place.arrives()
    held = await place.lease("w1")
    for _ in range(3):
        await place.passes(LEASE_S * 0.6)
        waiting = await place.store.lease.renew(held, LEASE_S)
        assert await place.idle("w2")

    assert waiting == (await place.store.inbox.peek(THREAD))[-1].id


async def test_a_live_worker_s_thread_is_never_leased_again_not_even_to_itself(place: Place) -> None:
    """However long it holds it, as long as it renews."""
    await place.arrives()
    held = await place.lease("w1")
    for _ in range(4):
        await place.passes(LEASE_S * 0.6)
        await place.store.lease.renew(held, LEASE_S)
        assert await place.idle("w1")


async def test_all_threads_of_a_dead_worker_come_back_one_after_the_other(place: Place) -> None:
    """Not one in each lease."""
    threads = [replace(THREAD, root_ts=f"17800000{number:02d}.000100") for number in range(7)]
    for thread in threads:
        await place.arrives(thread, claim=str(thread))
        place.store.lease.let_go(await place.lease("w1"))
    await place.passes(LEASE_S * 1.2)

    back = {(await _until_leased(place, "w2")).thread for _ in threads}

    assert back == set(threads)


async def test_a_look_that_does_not_count_as_reading_loses_no_wake_up(place: Place) -> None:
    """A keeper that looks for a stop must not swallow a click."""
    await place.arrives()
    held = await place.lease()
    await place.store.inbox.pending(THREAD)
    await place.arrives(claim="m2")
    await place.store.inbox.peek(THREAD)

    await place.store.lease.release(held, parked=True)

    assert (await place.lease()).thread == THREAD


async def test_a_commit_that_is_sent_again_changes_nothing(place: Place) -> None:
    """A lost reply is no fault of the writer."""
    await place.arrives()
    held = await place.lease()
    step = Commit(entries=_entries(2), effects=[Notice(key="n", text="x")])

    await place.store.log.commit(held, step)
    await place.store.log.commit(held, step)

    assert len(await place.store.log.read(THREAD)) == 2
    assert len(await place.store.outbox.rows(THREAD)) == 1


async def _stale(place: Place) -> tuple[Held, Held]:
    await place.arrives()
    old = await place.lease("w1")
    place.store.lease.let_go(old)
    await place.passes(LEASE_S * 1.2)
    return old, await _until_leased(place, "w2")


@pytest.mark.parametrize("what", ["commit", "renew", "release", "out_begin", "out_done", "fx_begin", "fx_forget"])
async def test_a_worker_that_lost_its_lease_changes_nothing(place: Place, what: str) -> None:
    """Whatever it tries, it is told that it is fenced."""
    old, new = await _stale(place)
    store = place.store
    tries: dict[str, Callable[[], Awaitable[Any]]] = {
        "commit": lambda: store.log.commit(old, Commit(entries=_entries(1))),
        "renew": lambda: store.lease.renew(old, LEASE_S),
        "release": lambda: store.lease.release(old, parked=False),
        "out_begin": lambda: store.outbox.begin(old, "1"),
        "out_done": lambda: store.outbox.done(old, "1", [("k", "1.1")]),
        "fx_begin": lambda: store.ledger.begin(old, "c1", "key"),
        "fx_forget": lambda: store.ledger.forget(old, ["c1"]),
    }

    with pytest.raises(Fenced):
        await tries[what]()

    assert await store.log.read(THREAD) == []
    assert await store.lease.renew(new, LEASE_S)


async def test_a_commit_moves_log_inbox_outbox_and_timers_together(place: Place) -> None:
    """And everything is there when it is read back."""
    await place.arrives()
    held = await place.lease()
    [item] = await place.store.inbox.pending(THREAD)
    entries = _entries(3)

    await place.store.log.commit(
        held,
        Commit(
            entries=entries,
            consumed=[item.id],
            effects=[Notice(key="n", text="ü"), Progress(key="p", steps=["x"], state="working")],
            timers=[TimerSet("t", datetime(2000, 1, 1, tzinfo=UTC), {"approval_id": "a"})],
            pins={"d1": "content"},
        ),
    )

    assert await place.store.log.read(THREAD) == entries
    assert await place.store.log.read(THREAD, after=2) == entries[2:]
    assert verify(THREAD, [entry.dump() for entry in entries]).whole
    assert await place.store.inbox.pending(THREAD) == []
    assert [row.effect.key for row in await place.store.outbox.rows(THREAD)] == ["n", "p"]
    assert await place.store.archive.pinned("d1") == "content"
    assert await place.store.archive.pinned("d2") is None
    assert await place.store.timers.fire_due() == 1


async def test_entries_that_do_not_follow_the_head_are_refused_whole(place: Place) -> None:
    """A gap, a repeat or a fork: nothing of that commit happens."""
    await place.arrives()
    held = await place.lease()
    first = _entries(2)
    await place.store.log.commit(held, Commit(entries=first))
    gap = _entries(1, after=replace(first[-1], seq=5))
    fork = _entries(1, after=replace(first[-1], hash="0" * 64))

    for wrong in (gap, fork, _entries(1)):
        with pytest.raises(Fenced):
            await place.store.log.commit(held, Commit(entries=wrong, effects=[Notice(key="n", text="x")]))

    assert await place.store.log.read(THREAD) == first
    assert await place.store.outbox.rows(THREAD) == []


async def test_rows_of_the_outbox_count_their_attempts_and_come_back_as_posted(place: Place) -> None:
    """Delivered rows go; what was posted returns through the inbox."""
    await place.arrives()
    held = await place.lease()
    [item] = await place.store.inbox.pending(THREAD)
    notices = [Notice(key=f"n{number}", text="x") for number in range(11)]
    await place.store.log.commit(held, Commit(consumed=[item.id], effects=notices))
    rows = await place.store.outbox.rows(THREAD)

    attempts = [await place.store.outbox.begin(held, rows[0].id) for _ in range(3)]
    seen = (await place.store.outbox.rows(THREAD))[0].attempts
    await place.store.outbox.done(held, rows[0].id, [("n0", "5.1")])
    await place.store.outbox.done(held, rows[0].id, [("n0", "5.1")])
    await place.store.outbox.done(held, rows[1].id, [])

    assert [row.effect.key for row in rows] == [f"n{number}" for number in range(11)]
    assert (attempts, seen) == ([0, 1, 2], 3)
    assert len(await place.store.outbox.rows(THREAD)) == 9
    assert [one.body for one in await place.store.inbox.pending(THREAD)] == [{"keys": [["n0", "5.1"]]}]


async def test_an_effect_is_begun_once_and_its_result_is_kept(place: Place) -> None:
    """Whoever comes next replays it."""
    await place.arrives()
    held = await place.lease()
    ledger = place.store.ledger

    first = await ledger.begin(held, "c1", "key")
    again = await ledger.begin(held, "c1", "key")
    await ledger.end(held, "c1", {"ok": True, "content": "é"})
    done = await ledger.begin(held, "c1", "key")
    await ledger.forget(held, ["c1", "c2"])

    assert (first, again, done) == (("new", None), ("started", None), ("done", {"ok": True, "content": "é"}))
    assert await ledger.begin(held, "c1", "key") == ("new", None)


async def test_the_result_of_a_stale_worker_is_kept_for_the_next_one(place: Place) -> None:
    """The effect happened: forgetting it would do it twice."""
    await place.arrives()
    old = await place.lease("w1")
    place.store.lease.let_go(old)
    await place.store.ledger.begin(old, "c1", "key")
    await place.passes(LEASE_S * 1.2)
    new = await _until_leased(place, "w2")

    with pytest.raises(Fenced):
        await place.store.ledger.end(old, "c1", {"ok": True})

    assert await place.store.ledger.begin(new, "c1", "key") == ("done", {"ok": True})


async def test_a_timer_fires_once_into_a_parked_thread(place: Place) -> None:
    """However many look for it at once."""
    await place.arrives()
    held = await place.lease()
    [item] = await place.store.inbox.pending(THREAD)
    soon = datetime.now(UTC) if not isinstance(place.clock, LabClock) else place.clock.now()
    timers = [
        TimerSet("a", soon + timedelta(seconds=0.05), {"n": 1}),
        TimerSet("b", soon + timedelta(hours=1), {"n": 2}),
        TimerSet("c", soon + timedelta(seconds=0.05), {"n": 3}),
    ]
    await place.store.log.commit(held, Commit(consumed=[item.id], timers=timers))
    await place.store.log.commit(held, Commit(timers=[TimerSet("c", None)]))
    await place.store.lease.release(held, parked=True)
    early = await place.store.timers.fire_due()
    await place.passes(0.08)

    fired = await asyncio.gather(*(place.store.timers.fire_due() for _ in range(4)))

    assert (early, sum(fired)) == (0, 1)
    assert (await place.lease()).thread == THREAD
    assert [one.body for one in await place.store.inbox.pending(THREAD)] == [{"name": "a", "n": 1}]


async def test_threads_are_listed_most_recent_first(place: Place) -> None:
    """With their length and head."""
    for thread in (THREAD, OTHER):
        await place.arrives(thread, claim=str(thread))
        held = await place.lease()
        await place.store.inbox.pending(held.thread)
        await place.store.log.commit(held, Commit(entries=_entries(2, thread=held.thread)))
        await place.store.lease.release(held, parked=False)

    found = await place.store.archive.threads()

    assert {one.thread for one in found} == {THREAD, OTHER}
    assert [one.entries for one in found] == [2, 2]
    assert found[0].head == (await place.store.archive.read(found[0].thread))[-1].hash
    assert await place.store.archive.read(replace(THREAD, channel="C0NONE")) == []


async def test_releasing_twice_is_releasing_once(place: Place) -> None:
    """A repeat after a lost reply is no fault."""
    await place.arrives()
    held = await place.lease()
    await place.store.inbox.pending(THREAD)

    await place.store.lease.release(held, parked=False)
    await place.store.lease.release(held, parked=False)

    assert await place.idle()
