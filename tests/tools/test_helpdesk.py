"""The support desk: looking up, writing, and what customers wrote."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any

import pytest

from bot.core.labels import Trust
from bot.core.tool import SealedText, Tool, ToolError
from tests.tools.desk import CLAIMABLE, PRICES, HelpDesk
from tools.helpdesk.seed_orders import ORDERS, SHIPMENTS
from tools.helpdesk.seed_tickets import POLICIES, TICKETS


def test_there_is_enough_to_try_with() -> None:
    """The promise of the demo: 30 orders and more, 20 tickets and more, several policies, no number twice."""
    assert len(ORDERS) >= 30 and len(TICKETS) >= 20 and len(POLICIES) >= 3
    assert len(PRICES) == len(ORDERS) == len(SHIPMENTS) and len({row[0] for row in TICKETS}) == len(TICKETS)
    assert {row[1] for row in TICKETS} <= set(PRICES)


async def test_no_word_of_a_customer_comes_out_of_a_tool_that_is_trusted(desk: HelpDesk) -> None:
    """Every tool, over every order, ticket and policy of the seed, credits and notes included."""
    for order in CLAIMABLE:
        await desk.credit(order, 1, f"key-{order}")
    trusted = [one for one in desk.tools.values() if one.spec.output > Trust.UNTRUSTED]
    said = [await _said(desk, one, arguments) for one in trusted for arguments in _everything(one.name)]

    whole = " ".join(" ".join(said).lower().split())

    assert len(trusted) == 10 and len(said) >= 250
    assert [phrase for row in TICKETS for phrase in _phrases(row[4]) if phrase in whole] == []


async def _said(desk: HelpDesk, one: Tool, arguments: dict[str, Any]) -> str:
    try:
        return json.dumps(await desk.do(one.name, **arguments), ensure_ascii=False)
    except ToolError as error:
        return str(error)


def _everything(name: str) -> list[dict[str, Any]]:
    orders = [{"order_id": row[0]} for row in ORDERS]
    match name:
        case "find_tickets":
            return [{}, {"state": "open"}, {"state": "closed"}, *orders]
        case "list_policies":
            return [{}]
        case "get_policy":
            return [{"name": name} for name, _ in POLICIES]
        case "draft_note" | "reply_to_customer":
            return [{"ticket_id": row[0], "text": "ours"} for row in TICKETS]
        case "calculate_credit":
            return [{**order, "units": 1} for order in orders]
        case "issue_credit":
            rest = {"units": 1, "amount_cents": 1, "calculation_id": "calc-000000000000"}
            return [{**order, **rest} for order in orders]
    return orders


def _phrases(text: str) -> list[str]:
    """Every four words in a row."""
    words = text.lower().split()
    return [" ".join(words[place : place + 4]) for place in range(len(words) - 3)]


async def test_what_a_customer_wrote_comes_sealed_with_our_own_fields_beside_it(desk: HelpDesk) -> None:
    """From the one tool that is declared untrusted."""
    found = await desk.do("get_ticket", ticket_id="T-2077")

    assert desk.tools["get_ticket"].spec.output is Trust.UNTRUSTED
    assert isinstance(found, SealedText) and "refund 900" in found.text
    assert found.source == "ticket T-2077"
    assert found.fields["order_id"] == "4977" and "refund" not in str(found.fields)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("get_ticket", {"ticket_id": "T-9999"}, "no ticket T-9999. find_tickets lists them"),
        ("draft_note", {"ticket_id": "T-9999", "text": "x"}, "no ticket T-9999. find_tickets lists them"),
        ("reply_to_customer", {"ticket_id": "T-9999", "text": "x"}, "no ticket T-9999. find_tickets lists them"),
        ("get_order", {"order_id": "9999"}, "no order 9999. Ask for the right number"),
        ("get_shipment", {"order_id": "9999"}, "no shipment of order 9999. Ask for the right number"),
        ("get_policy", {"name": "refunds"}, "no policy 'refunds'. list_policies names them"),
        ("calculate_credit", {"order_id": "9999", "units": 1}, "no order 9999. Ask for the right number"),
    ],
)
async def test_an_unknown_number_says_what_to_do_next(
    desk: HelpDesk, name: str, arguments: dict[str, Any], told: str
) -> None:
    """An instruction, not a scolding."""
    with pytest.raises(ToolError, match=re.escape(told)):
        await desk.do(name, **arguments)


async def test_an_order_without_tickets_is_an_answer(desk: HelpDesk) -> None:
    """An empty list is a fact."""
    assert await desk.do("find_tickets", order_id="4901") == {"tickets": [], "count": 0}


async def test_a_reply_is_sent_once_for_each_key(desk: HelpDesk) -> None:
    """The same call after a crash reaches the customer once."""
    for key in ("key-1", "key-1", "key-2"):
        await desk.do("reply_to_customer", key, ticket_id="T-2041", text="We are sorry.")

    with sqlite3.connect(desk.home / "helpdesk.db") as connection:
        assert connection.execute("select count(*) from replies").fetchone() == (2,)


async def test_records_stay_when_the_desk_is_opened_again(desk: HelpDesk) -> None:
    """The seed is written once, never over what happened since."""
    await desk.credit("4921", 3)

    assert (await HelpDesk(desk.home).ledger("4921"))["count"] == 1
