"""One suite for every store: the twin in memory and a real Valkey keep the same promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.chain import verify
from bot.core.effects import Notice, Progress
from bot.core.errors import Fenced
from bot.engine.storage import Commit, InboxItem, TimerSet
from bot.lab.clock import LabClock
from tests.contracts.conftest import LEASE_S, OTHER, THREAD, Place, entries_after, until_leased


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


async def test_a_commit_that_is_sent_again_changes_nothing(place: Place) -> None:
    """A lost reply is no fault of the writer."""
    await place.arrives()
    held = await place.lease()
    step = Commit(entries=entries_after(2), effects=[Notice(key="n", text="x")])

    await place.store.log.commit(held, step)
    await place.store.log.commit(held, step)

    assert len(await place.store.log.read(THREAD)) == 2
    assert len(await place.store.outbox.rows(THREAD)) == 1


async def test_a_commit_moves_log_inbox_outbox_timers_ledger_and_pins_together(place: Place) -> None:
    """And everything is there when it is read back."""
    await place.arrives()
    held = await place.lease()
    [item] = await place.store.inbox.pending(THREAD)
    entries = entries_after(3)
    await place.store.ledger.begin(held, "c1", "key")

    await place.store.log.commit(
        held,
        Commit(
            entries=entries,
            consumed=[item.id],
            effects=[Notice(key="n", text="ü"), Progress(key="p", steps=["x"], state="working")],
            timers=[TimerSet("u", None), TimerSet("t", datetime(2000, 1, 1, tzinfo=UTC), {"approval_id": "a"})],
            pins={"d1": "content", "d3": "other"},
            settled=["c1"],
        ),
    )

    assert await place.store.log.read(THREAD) == entries
    assert await place.store.log.read(THREAD, after=2) == entries[2:]
    assert verify(THREAD, [entry.dump() for entry in entries]).whole
    assert await place.store.inbox.pending(THREAD) == []
    assert [row.effect.key for row in await place.store.outbox.rows(THREAD)] == ["n", "p"]
    pinned = [await place.store.archive.pinned(digest) for digest in ("d1", "d2", "d3")]
    assert pinned == ["content", None, "other"]
    assert await place.store.ledger.begin(held, "c1", "key") == ("new", None)
    assert await place.store.timers.fire_due() == 1


@pytest.mark.parametrize("effects", [[], [Notice(key="n", text="x")]])
async def test_a_commit_says_which_inbox_item_is_the_newest(place: Place, effects: list[Notice]) -> None:
    """As renewing does, so that a writer need not look; also when it is a repeat, and nothing once all is read in."""
    await place.arrives()
    held = await place.lease()
    first, second, third, *_ = entries_after(3)
    [item] = await place.store.inbox.pending(THREAD)

    alone = await place.store.log.commit(held, Commit(entries=[first], effects=effects))
    await place.arrives(claim="m2")
    waiting = await place.store.inbox.peek(THREAD)
    both = [await place.store.log.commit(held, Commit(entries=[second], effects=effects)) for _ in range(2)]
    none = await place.store.log.commit(held, Commit(consumed=[one.id for one in waiting], effects=effects))
    still_none = await place.store.log.commit(held, Commit(entries=[third], effects=effects))

    assert alone == item.id
    assert both == [waiting[-1].id] * 2
    assert (none, still_none) == ("", "")


async def test_a_payload_can_be_erased_alone_and_the_chain_stays_whole(place: Place) -> None:
    """In the middle of a commit, all of a commit, one that is gone already: heads, digests and neighbours stay."""
    await place.arrives()
    held = await place.lease()
    entries = entries_after(6)
    for step in (entries[:3], entries[3:5], entries[5:]):
        await place.store.log.commit(held, Commit(entries=step))

    for seqs in ([2], [4, 5], [2, 99], []):
        await place.store.log.erase(held, seqs)

    gone = {2, 4, 5}
    expected = [replace(one, payload=None, salt=None) if one.seq in gone else one for one in entries]
    found = await place.store.log.read(THREAD)
    assert found == expected
    assert verify(THREAD, [entry.dump() for entry in found]).erased == len(gone)
    assert verify(THREAD, [entry.dump() for entry in found], head=entries[-1].hash).whole
    await place.store.log.commit(held, Commit(entries=entries_after(1, after=entries[-1])))
    assert len(await place.store.log.read(THREAD, after=4)) == 3


async def test_entries_that_do_not_follow_the_head_are_refused_whole(place: Place) -> None:
    """A gap, a repeat or a fork: nothing of that commit happens."""
    await place.arrives()
    held = await place.lease()
    first = entries_after(2)
    await place.store.log.commit(held, Commit(entries=first))
    gap = entries_after(1, after=replace(first[-1], seq=5))
    fork = entries_after(1, after=replace(first[-1], hash="0" * 64))

    for wrong in (gap, fork, entries_after(1)):
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
    await place.store.log.commit(held, Commit(settled=["c1", "c2"]))

    assert (first, again, done) == (("new", None), ("started", None), ("done", {"ok": True, "content": "é"}))
    assert await ledger.begin(held, "c1", "key") == ("new", None)


async def test_calls_that_start_side_by_side_are_begun_in_one_step(place: Place) -> None:
    """Each as if it were alone, in their order."""
    await place.arrives()
    held = await place.lease()
    ledger = place.store.ledger
    await ledger.begin(held, "c1", "key")
    await ledger.begin(held, "c2", "key")
    await ledger.end(held, "c2", {"ok": True})

    found = await ledger.begin_all(held, [("c3", "k3"), ("c2", "k2"), ("c1", "k1"), ("c4", "k4")])

    assert found == [("new", None), ("done", {"ok": True}), ("started", None), ("new", None)]
    assert await ledger.begin(held, "c3", "k3") == ("started", None)
    assert await ledger.begin_all(held, []) == []


async def test_the_result_of_a_stale_worker_is_kept_for_the_next_one(place: Place) -> None:
    """The effect happened: forgetting it would do it twice."""
    await place.arrives()
    old = await place.lease("w1")
    place.store.lease.let_go(old)
    await place.store.ledger.begin(old, "c1", "key")
    await place.passes(LEASE_S * 1.2)
    new = await until_leased(place, "w2")

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
        await place.store.log.commit(held, Commit(entries=entries_after(2, thread=held.thread)))
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


async def test_timers_are_counted_by_the_beginning_of_their_names_in_all_threads(place: Place) -> None:
    """Moved ones once, cancelled and fired ones not at all."""
    far, past = datetime(2100, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)
    for thread in (THREAD, OTHER):
        await place.arrives(thread, claim=str(thread))
    for held in (await place.lease(), await place.lease()):
        timers = [TimerSet("expire:a", far), TimerSet("expire:b", far), TimerSet("expire:c", past), TimerSet("re", far)]
        await place.store.log.commit(held, Commit(timers=timers))
        await place.store.log.commit(held, Commit(timers=[TimerSet("expire:a", far), TimerSet("expire:b", None)]))
    before = await place.store.timers.count("expire:")
    await place.store.timers.fire_due()

    assert before == 4
    assert await place.store.timers.count("expire:") == 2
    assert await place.store.timers.count("re") == 2
    assert await place.store.timers.count("xpire:") == 0
