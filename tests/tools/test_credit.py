"""What is owed comes from the records and the policy's words, and is credited once."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.tool import ToolError
from tests.tools.desk import CLAIMABLE, DAMAGED, WORDS, HelpDesk, figures, owed
from tools.helpdesk.seed_orders import SHIPMENTS


async def test_three_units_of_order_4921_are_19500_cents(desk: HelpDesk) -> None:
    """The figure of the story, recomputed from the seed and the policy's words."""
    found = await desk.do("calculate_credit", order_id="4921", units=3)

    assert found["amount_cents"] == owed("4921", 3) == 19500
    assert found["currency"] == "EUR"
    assert all(step["source"] for step in found["steps"])


@pytest.mark.parametrize("order", CLAIMABLE)
async def test_every_claim_of_the_seed_is_worth_what_the_policy_says(desk: HelpDesk, order: str) -> None:
    """Rounded down, handling once, never more than the units are worth."""
    for units in range(1, DAMAGED[order] + 1):
        found = await desk.do("calculate_credit", order_id=order, units=units)

        assert found["amount_cents"] == owed(order, units)


async def test_days_to_claim_are_those_of_the_policy(desk: HelpDesk) -> None:
    """The last day is counted from the delivery, with the number that stands in the text."""
    days = int(re.search(r"within (\d+) days of delivery", WORDS)[1])  # type: ignore[index]  # it is written there
    found = await desk.do("calculate_credit", order_id="4921", units=1)

    delivered = next(row[2] for row in SHIPMENTS if row[0] == "4921")
    assert date.fromisoformat(found["claim_until"]) - date.fromisoformat(delivered) == timedelta(days=days)


async def test_a_credit_stands_in_the_ledger_with_who_asked(desk: HelpDesk) -> None:
    """Re-reading after the write shows it."""
    issued = await desk.credit("4921", 3)

    ledger = await desk.ledger("4921")
    assert issued == {"order_id": "4921", "credited_cents": 19500, "units": 3, "issued": True}
    assert (ledger["total_cents"], ledger["count"], ledger["credits"][0]["issued_by"]) == (19500, 1, "U0ALICE")


async def test_the_same_key_gives_the_same_answer_and_one_row(desk: HelpDesk) -> None:
    """A retry after a crash, when the calculation itself would already say that all is credited."""
    found = figures(await desk.do("calculate_credit", order_id="4921", units=3))
    first = await desk.do("issue_credit", "key-1", **found)

    again = await desk.do("issue_credit", "key-1", **found)

    assert again == first
    assert (await desk.ledger("4921"))["count"] == 1


async def test_the_same_key_with_other_figures_is_refused(desk: HelpDesk) -> None:
    """It must never be told that something was credited which was not."""
    await desk.credit("4921", 3, "key-1")
    other = figures(await desk.do("calculate_credit", order_id="4941", units=1))

    with pytest.raises(ToolError, match="new credit is a new call"):
        await desk.do("issue_credit", "key-1", **other)


async def test_one_key_from_many_threads_at_once_credits_once(desk: HelpDesk) -> None:
    """On records that nobody has opened before, so that the first use is raced for too."""
    seeded = HelpDesk(desk.home / "elsewhere")
    found = figures(await seeded.do("calculate_credit", order_id="4921", units=3))

    with ThreadPoolExecutor(16) as pool:
        work = [pool.submit(asyncio.run, desk.do("issue_credit", "key-1", **found)) for _ in range(16)]
    answers = [one.result() for one in work]

    assert all(one == answers[0] and one["issued"] for one in answers)
    assert (await desk.ledger("4921"))["count"] == 1


async def test_many_keys_at_once_never_credit_a_unit_twice(desk: HelpDesk) -> None:
    """Two runs that both hold the same approved calculation: one wins, the others are told."""
    found = figures(await desk.do("calculate_credit", order_id="4921", units=3))

    work = [desk.do("issue_credit", f"key-{number}", **found) for number in range(8)]
    answers = await asyncio.gather(*work, return_exceptions=True)

    assert sum(isinstance(one, dict) for one in answers) == 1
    assert sum(isinstance(one, ToolError) for one in answers) == 7
    assert (await desk.ledger("4921"))["total_cents"] == 19500


RACER = """
import asyncio, json, sys
from pathlib import Path
from tests.tools.desk import HelpDesk
desk = HelpDesk(Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.readline()
print(json.dumps(asyncio.run(desk.do("issue_credit", "key-1", **json.loads(sys.argv[2])))))
"""


@pytest.mark.wire
async def test_one_key_from_two_processes_at_once_credits_once(desk: HelpDesk) -> None:
    """A worker that was thought dead and the one that took over."""
    found = figures(await HelpDesk(desk.home / "elsewhere").do("calculate_credit", order_id="4921", units=3))
    command = [sys.executable, "-c", RACER, str(desk.home), json.dumps(found)]
    place = Path(__file__).parents[2]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [await asyncio.to_thread(subprocess.Popen, command, cwd=place, **pipes) for _ in range(2)]
    ready = [await asyncio.to_thread(one.stdout.readline) for one in racers]

    answers = await asyncio.gather(*(asyncio.to_thread(one.communicate, "go\n", 20) for one in racers))

    assert ready == ["up\n", "up\n"]
    assert json.loads(answers[0][0]) == json.loads(answers[1][0])
    assert (await desk.ledger("4921"))["count"] == 1


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"amount_cents": 19501}, "Call calculate_credit and use"),
        ({"amount_cents": 19499}, "Call calculate_credit and use"),
        ({"amount_cents": 90000}, "Call calculate_credit and use"),
        ({"calculation_id": "calc-000000000000"}, "Call calculate_credit and use"),
        ({"units": 2}, "Call calculate_credit and use"),
        ({"units": 4}, "Use 3 at most"),
        ({"order_id": "4941"}, "Call calculate_credit and use"),
        ({"order_id": "4930"}, "credited after delivery"),
        ({"order_id": "4901"}, "A person must look"),
        ({"order_id": "9999"}, "Ask for the right number"),
    ],
)
async def test_what_the_calculation_does_not_support_is_refused(
    desk: HelpDesk, changed: dict[str, Any], told: str
) -> None:
    """With an instruction, and with an unchanged ledger."""
    found = figures(await desk.do("calculate_credit", order_id="4921", units=3))

    with pytest.raises(ToolError, match=told):
        await desk.do("issue_credit", **{**found, **changed})

    assert (await desk.ledger(str({**found, **changed}["order_id"])))["count"] == 0


async def test_units_that_are_credited_are_not_credited_again(desk: HelpDesk) -> None:
    """The policy: once for each damaged unit."""
    await desk.credit("4921", 3)

    with pytest.raises(ToolError, match="credited already; see get_credits"):
        await desk.do("calculate_credit", order_id="4921", units=1)


async def test_a_claim_in_parts_is_worth_no_more_than_the_claim(desk: HelpDesk) -> None:
    """The handling amount is for each claim: three credits of one unit must not earn it three times."""
    for number in range(3):
        await desk.credit("4921", 1, f"key-{number}")

    assert (await desk.ledger("4921"))["total_cents"] == owed("4921", 3)


async def test_a_late_claim_needs_a_person(desk: HelpDesk) -> None:
    """The day is the ticket's, set by our system; the last day itself is in time."""
    until = (await desk.do("calculate_credit", order_id="4921", units=3))["claim_until"]
    desk.change("update tickets set opened_on = ? where order_id = '4921'", until)
    await desk.do("calculate_credit", order_id="4921", units=3)
    late = (date.fromisoformat(until) + timedelta(days=1)).isoformat()
    desk.change("update tickets set opened_on = ? where order_id = '4921'", late)

    with pytest.raises(ToolError, match=f"claimed on {late}, after {until}. A person must decide"):
        await desk.do("calculate_credit", order_id="4921", units=3)


async def test_damage_that_nobody_claimed_is_not_credited(desk: HelpDesk) -> None:
    """No ticket, no claim."""
    await desk.ledger("4921")
    desk.change("delete from tickets where order_id = '4921'")

    with pytest.raises(ToolError, match="nobody has claimed damage"):
        await desk.do("calculate_credit", order_id="4921", units=3)


async def test_what_an_approval_is_bound_to_changes_with_the_ledger(desk: HelpDesk) -> None:
    """A card that was shown before another credit was issued no longer holds."""
    issue = desk.tools["issue_credit"]
    assert issue.precondition is not None
    arguments = issue.parse(figures(await desk.do("calculate_credit", order_id="4941", units=2)))
    before = await issue.precondition(arguments, desk.context())
    same = await issue.precondition(arguments, desk.context())

    await desk.credit("4941", 1)

    assert before == same
    assert await issue.precondition(arguments, desk.context()) != before


CALLS = st.lists(
    st.tuples(
        st.sampled_from(CLAIMABLE[:4]),
        st.integers(1, 7),
        st.integers(1, 4),
        st.sampled_from(["fresh", "first", "wrong amount"]),
    ),
    max_size=12,
)


@given(CALLS)
@settings(max_examples=40, deadline=None)
def test_no_sequence_of_calls_credits_more_than_report_and_policy_give(calls: list[Any]) -> None:
    """Whatever is tried, in whatever order, with old calculations and keys used before."""
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(_try_all(HelpDesk(Path(home)), calls))


async def _try_all(desk: HelpDesk, calls: list[Any]) -> None:
    known: dict[tuple[str, int], dict[str, Any]] = {}
    for order, units, key, how in calls:
        try:
            found = figures(await desk.do("calculate_credit", order_id=order, units=units))
            first = known.setdefault((order, units), found)
            given_figures = first if how == "first" else found
            if how == "wrong amount":
                given_figures = {**found, "amount_cents": found["amount_cents"] + 1}
            await desk.do("issue_credit", f"key-{key}", **given_figures)
        except ToolError:
            continue
    for order in CLAIMABLE:
        ledger = await desk.ledger(order)
        units = sum(one["units"] for one in ledger["credits"])
        assert units <= DAMAGED[order]
        assert ledger["total_cents"] == (owed(order, units) if units else 0)
