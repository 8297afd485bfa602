"""A support desk to try Plimsoll with: orders, shipments, tickets, policies, credits. Exports `build`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.tool import Run, SealedText, Tool, ToolContext, ToolError, tool
from tools.helpdesk.credit import calculate, ledger_state
from tools.helpdesk.records import Records, one, rows


class OrderArgs(BaseModel):
    """Names an order."""

    order_id: str = Field(pattern=r"^\d{4,8}$", description="Order number, digits only")


class TicketArgs(BaseModel):
    """Names a ticket."""

    ticket_id: str = Field(pattern=r"^T-\d{4,8}$", description="Ticket number such as T-2041")


class FindArgs(BaseModel):
    """What to look for."""

    order_id: str | None = Field(None, pattern=r"^\d{4,8}$", description="Only tickets of this order")
    state: str | None = Field(None, pattern=r"^(open|closed)$", description="open or closed")


class PolicyArgs(BaseModel):
    """Names a policy."""

    name: str = Field(min_length=1, max_length=60, description="Name as list_policies gives it")


class NoArgs(BaseModel):
    """Needs nothing."""


class CalculateArgs(OrderArgs):
    """Damaged units of an order."""

    units: int = Field(ge=1, le=1000, description="How many units are damaged")


class CreditArgs(CalculateArgs):
    """A credit exactly as it was calculated."""

    calculation_id: str = Field(pattern=r"^calc-[0-9a-f]{12}$", description="From calculate_credit")
    amount_cents: int = Field(gt=0, description="From calculate_credit")


class TextArgs(TicketArgs):
    """A text about a ticket."""

    text: str = Field(min_length=1, max_length=4000)


def build(resources: Mapping[str, Any]) -> list[Tool]:
    """The tools, on the records under `resources["home"]`."""
    records = Records(Path(resources["home"]))
    return [*_reading(records), *_credits(records), *_writing(records)]


def _look(function: Run) -> Tool:
    """A tool that reads our own records."""
    return tool(authority=Authority.OBSERVE, output=Trust.INTERNAL, parallel_safe=True)(function)


async def _ask(records: Records, work: Callable[[sqlite3.Connection], Any], *, writes: bool = False) -> Any:
    return await asyncio.to_thread(lambda: records.use(work, writes=writes))


def _found(value: Any, what: str, hint: str) -> Any:
    if not value:
        raise ToolError(f"There is no {what}. {hint}")
    return value


def _ticket(db: sqlite3.Connection, ticket_id: str) -> Any:
    row = one(db, "select * from tickets where id = ?", ticket_id)
    return _found(row, f"ticket {ticket_id}", "find_tickets lists them.")


def _reading(records: Records) -> list[Tool]:
    @_look
    async def find_tickets(args: FindArgs, context: ToolContext) -> Any:
        """List tickets by order or state: number, order, day, state. What customers wrote is in get_ticket."""
        query = (
            "select id as ticket_id, order_id, opened_on, state from tickets "
            "where (?1 is null or order_id = ?1) and (?2 is null or state = ?2) order by id"
        )
        found = await _ask(records, lambda db: rows(db, query, args.order_id, args.state))
        return {"tickets": found, "count": len(found)}

    @tool(authority=Authority.OBSERVE, output=Trust.UNTRUSTED)
    async def get_ticket(args: TicketArgs, context: ToolContext) -> SealedText:
        """Read one ticket: what the customer wrote, in their words."""
        row = await _ask(records, lambda db: _ticket(db, args.ticket_id))
        fields = {name: row[name] for name in ("order_id", "opened_on", "state")}
        text = str(row["text"])
        return context.seal(text, source=f"ticket {args.ticket_id}", ticket_id=args.ticket_id, size=len(text), **fields)

    @_look
    async def get_order(args: OrderArgs, context: ToolContext) -> Any:
        """Look up an order: customer, item, units, price of one unit in cents, day."""
        query = (
            "select orders.id as order_id, customers.name as customer, item, units, unit_cents, ordered_on "
            "from orders join customers on customers.id = orders.customer where orders.id = ?"
        )
        row = await _ask(records, lambda db: one(db, query, args.order_id))
        return _found(row, f"order {args.order_id}", "Ask for the right number.")

    @_look
    async def get_shipment(args: OrderArgs, context: ToolContext) -> Any:
        """Look up the shipment of an order: state, day of delivery, damaged units in the carrier's report."""
        row = await _ask(records, lambda db: one(db, "select * from shipments where order_id = ?", args.order_id))
        return _found(row, f"shipment of order {args.order_id}", "Ask for the right number.")

    @_look
    async def list_policies(args: NoArgs, context: ToolContext) -> Any:
        """List the names of our policies."""
        found = await _ask(records, lambda db: rows(db, "select name from policies order by name"))
        return {"policies": [row["name"] for row in found]}

    @_look
    async def get_policy(args: PolicyArgs, context: ToolContext) -> Any:
        """Read one of our policies."""
        row = await _ask(records, lambda db: one(db, "select * from policies where name = ?", args.name.lower()))
        return _found(row, f"policy {args.name!r}", "list_policies names them.")

    return [find_tickets, get_ticket, get_order, get_shipment, list_policies, get_policy]


def _credits(records: Records) -> list[Tool]:
    async def state(args: CreditArgs, context: ToolContext) -> Any:
        return await _ask(records, lambda db: ledger_state(db, args.order_id))

    @_look
    async def calculate_credit(args: CalculateArgs, context: ToolContext) -> Any:
        """Work out what is owed for damaged units of an order, from our records and the damage policy."""
        return await _ask(records, lambda db: calculate(db, args.order_id, args.units))

    @_look
    async def get_credits(args: OrderArgs, context: ToolContext) -> Any:
        """Read the credit ledger of an order: every credit that was issued."""
        query = "select calculation_id, units, amount_cents, issued_by from credits where order_id = ? order by rowid"
        found = await _ask(records, lambda db: rows(db, query, args.order_id))
        total = sum(row["amount_cents"] for row in found)
        return {"order_id": args.order_id, "credits": found, "total_cents": total, "count": len(found)}

    @tool(
        authority=Authority.CRITICAL,
        output=Trust.INTERNAL,
        idempotent=True,
        critical_args=("amount_cents", "order_id", "units"),
        precondition=state,
    )
    async def issue_credit(args: CreditArgs, context: ToolContext) -> Any:
        """Credit an order's customer with exactly what calculate_credit worked out. Cannot be undone."""
        return await _ask(records, lambda db: _issue(db, args, context), writes=True)

    return [calculate_credit, get_credits, issue_credit]


def _issue(db: sqlite3.Connection, args: CreditArgs, context: ToolContext) -> dict[str, Any]:
    """In one transaction: the same key again gives the same answer and changes nothing."""
    key, wanted = context.idempotency_key, (args.order_id, args.calculation_id, args.units, args.amount_cents)
    before = one(db, "select order_id, calculation_id, units, amount_cents from credits where key = ?", key)
    if before is None:
        _supported(db, args)
        db.execute("insert into credits values (?, ?, ?, ?, ?, ?)", (key, *wanted, context.principal))
    elif tuple(before.values()) != wanted:
        raise ToolError("This call was made before with other figures. Read get_credits; a new credit is a new call.")
    return {
        "order_id": args.order_id,
        "credited_cents": args.amount_cents,
        "units": args.units,
        "issued": True,
    }


def _supported(db: sqlite3.Connection, args: CreditArgs) -> None:
    """Raises `ToolError` unless these are the figures of the calculation as the records stand now."""
    owed = calculate(db, args.order_id, args.units)
    if args.calculation_id != owed["calculation_id"] or args.amount_cents != owed["amount_cents"]:
        raise ToolError(
            f"{args.amount_cents} is not what the records support for {args.units} units of order {args.order_id}. "
            "Call calculate_credit and use its calculation_id and amount_cents."
        )


def _writing(records: Records) -> list[Tool]:
    @tool(authority=Authority.LOCAL_WRITE, output=Trust.INTERNAL, critical_args=("ticket_id",))
    async def draft_note(args: TextArgs, context: ToolContext) -> Any:
        """Leave an internal note at a ticket; only the team sees it, and it can be removed."""

        def write(db: sqlite3.Connection) -> dict[str, Any]:
            _ticket(db, args.ticket_id)
            db.execute("insert into notes (ticket_id, text) values (?, ?)", (args.ticket_id, args.text))
            return {"ticket_id": args.ticket_id, "noted": True}

        return await _ask(records, write, writes=True)

    @tool(
        authority=Authority.SEND,
        output=Trust.INTERNAL,
        idempotent=True,
        critical_args=("ticket_id", "text"),
        destination=("ticket_id",),
    )
    async def reply_to_customer(args: TextArgs, context: ToolContext) -> Any:
        """Send a reply to the customer of a ticket."""

        def send(db: sqlite3.Connection) -> dict[str, Any]:
            _ticket(db, args.ticket_id)
            values = (context.idempotency_key, args.ticket_id, args.text)
            db.execute("insert or ignore into replies values (?, ?, ?)", values)
            return {"ticket_id": args.ticket_id, "sent": True}

        return await _ask(records, send, writes=True)

    return [draft_note, reply_to_customer]
