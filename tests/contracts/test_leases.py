"""One worker at a time for each thread, on every store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bot.core.effects import Notice
from bot.core.errors import Fenced
from bot.engine.storage import Commit, Held
from tests.contracts.conftest import LEASE_S, OTHER, THREAD, Place, entries_after, until_leased


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

    held = await until_leased(place, "w2")

    assert early
    assert held.epoch == dead.epoch + 1


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

    back = {(await until_leased(place, "w2")).thread for _ in threads}

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


async def _stale(place: Place) -> tuple[Held, Held]:
    await place.arrives()
    old = await place.lease("w1")
    place.store.lease.let_go(old)
    await place.passes(LEASE_S * 1.2)
    return old, await until_leased(place, "w2")


@pytest.mark.parametrize(
    "what", ["commit", "append", "erase", "renew", "release", "out_begin", "out_done", "fx_begin", "fx_begin_all"]
)
async def test_a_worker_that_lost_its_lease_changes_nothing(place: Place, what: str) -> None:
    """Whatever it tries, it is told that it is fenced."""
    old, new = await _stale(place)
    store = place.store
    tries: dict[str, Callable[[], Awaitable[Any]]] = {
        "append": lambda: store.log.commit(old, Commit(entries=entries_after(1))),
        "commit": lambda: store.log.commit(old, Commit(entries=entries_after(1), effects=[Notice(key="n", text="x")])),
        "erase": lambda: store.log.erase(old, [1]),
        "renew": lambda: store.lease.renew(old, LEASE_S),
        "release": lambda: store.lease.release(old, parked=False),
        "out_begin": lambda: store.outbox.begin(old, "1"),
        "out_done": lambda: store.outbox.done(old, "1", [("k", "1.1")]),
        "fx_begin": lambda: store.ledger.begin(old, "c1", "key"),
        "fx_begin_all": lambda: store.ledger.begin_all(old, [("c1", "key")]),
    }

    with pytest.raises(Fenced):
        await tries[what]()

    assert await store.log.read(THREAD) == []
    assert await store.lease.renew(new, LEASE_S)
