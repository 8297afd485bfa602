"""What is owed for damaged goods, derived from our records alone; integer cents, rounded down."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from datetime import date
from typing import Any

from bot.core.tool import ToolError
from tools.helpdesk.records import one
from tools.helpdesk.seed_tickets import CLAIM_DAYS, DAMAGE_PERCENT, HANDLING_CENTS


def calculate(connection: sqlite3.Connection, order_id: str, units: int) -> dict[str, Any]:
    """The credit for that many damaged units, each step with its source. Raises `ToolError` with what to do."""
    order = one(connection, "select * from orders where id = ?", order_id)
    shipment = one(connection, "select * from shipments where order_id = ?", order_id)
    if order is None or shipment is None:
        raise ToolError(f"There is no order {order_id}. Ask for the right number.")
    _creditable(connection, order_id, shipment, units)
    unit_cents = int(order["unit_cents"])
    ledger = ledger_state(connection, order_id)
    # A claim credited in parts is still one claim: its handling amount and its limit count once.
    all_units = units + int(ledger["credited_units"])
    goods = unit_cents * all_units * DAMAGE_PERCENT // 100
    amount = min(goods + HANDLING_CENTS, unit_cents * all_units) - int(ledger["credited_cents"])
    if amount <= 0:
        raise ToolError(f"Nothing is left to credit on order {order_id}; see get_credits. A person must look.")
    inputs = [order_id, units, unit_cents, int(shipment["damaged_units"]), ledger]
    return {
        "calculation_id": "calc-" + hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:12],
        "order_id": order_id,
        "units": units,
        "amount_cents": amount,
        "currency": "EUR",
        "steps": _steps(order_id, unit_cents, all_units, goods, ledger),
        "claim_until": _claim_until(shipment),
    }


def _steps(order_id: str, unit_cents: int, units: int, goods: int, ledger: dict[str, Any]) -> list[dict[str, Any]]:
    """Each figure with where it comes from; what was credited before only where there was any."""
    steps: list[dict[str, Any]] = [
        {"what": "price of one unit", "figure": unit_cents, "source": f"order {order_id}"},
        {"what": "damaged units claimed", "figure": units, "source": f"carrier's report of order {order_id}"},
        {"what": f"{DAMAGE_PERCENT} % of {units} x {unit_cents}", "figure": goods, "source": "policy damage"},
        {"what": "handling amount", "figure": HANDLING_CENTS, "source": "policy damage"},
        {"what": "at most the value of the units", "figure": unit_cents * units, "source": "policy damage"},
    ]
    if before := ledger["credited_units"]:
        what = f"less what was credited for {before} of these units"
        steps.append({"what": what, "figure": ledger["credited_cents"], "source": "get_credits"})
    return steps


def _creditable(connection: sqlite3.Connection, order_id: str, shipment: Any, units: int) -> None:
    if shipment["state"] != "delivered":
        raise ToolError(f"Order {order_id} is {shipment['state']}; damage is credited after delivery.")
    damaged = int(shipment["damaged_units"])
    if damaged == 0:
        raise ToolError(f"The carrier's report of order {order_id} counts no damaged unit. A person must look.")
    _in_time(connection, order_id, shipment)
    left = damaged - int(ledger_state(connection, order_id)["credited_units"])
    if left == 0:
        raise ToolError(f"All {damaged} damaged units of order {order_id} are credited already; see get_credits.")
    if units > left:
        raise ToolError(
            f"The carrier's report counts {damaged} damaged units of order {order_id}, {left} not credited yet; "
            f"{units} is more. Use {left} at most."
        )


def _in_time(connection: sqlite3.Connection, order_id: str, shipment: Any) -> None:
    """The claim is the first ticket since delivery; its day is set by our system, not by the customer."""
    query = "select min(opened_on) as day from tickets where order_id = ? and opened_on >= ?"
    found = one(connection, query, order_id, shipment["delivered_on"])
    if found is None or found["day"] is None:
        raise ToolError(f"There is no ticket about order {order_id} since its delivery, so nobody has claimed damage.")
    if found["day"] > (until := _claim_until(shipment)):
        raise ToolError(
            f"Damage of order {order_id} was claimed on {found['day']}, after {until}. A person must decide."
        )


def _claim_until(shipment: Any) -> str:
    delivered = date.fromisoformat(shipment["delivered_on"])
    return date.fromordinal(delivered.toordinal() + CLAIM_DAYS).isoformat()


def ledger_state(connection: sqlite3.Connection, order_id: str) -> dict[str, Any]:
    """What an approval of a credit is bound to: the order's ledger as it stands."""
    query = (
        "select coalesce(sum(units), 0) as credited_units, coalesce(sum(amount_cents), 0) as credited_cents "
        "from credits where order_id = ?"
    )
    return {"order_id": order_id, **(one(connection, query, order_id) or {})}
