"""The support desk on records of its own, and what is owed by somebody else's arithmetic."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from bot.core.tool import Tool, ToolContext
from tests.builders import THREAD
from tools.helpdesk import build
from tools.helpdesk.seed_orders import ORDERS, SHIPMENTS
from tools.helpdesk.seed_tickets import POLICIES

PRICES = {row[0]: row[4] for row in ORDERS}
DAMAGED = {row[0]: row[3] for row in SHIPMENTS}
WORDS = dict(POLICIES)["damage"]
CLAIMABLE = sorted(order for order, units in DAMAGED.items() if units)


def owed(order: str, units: int) -> int:
    """The independent oracle: the price of the seed, and the figures that stand in the policy's own sentences."""
    percent = Fraction(re.search(r"credited at (\d+) %", WORDS)[1]) / 100  # type: ignore[index]  # it is written there
    handling = Fraction(re.search(r"handling amount of ([\d.]+)", WORDS)[1]) * 100  # type: ignore[index]  # as above
    value = PRICES[order] * units
    return int(min(value * percent + handling, value))


class HelpDesk:
    """The tools on records of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.tools: dict[str, Tool] = {one.name: one for one in build({"home": home})}

    async def do(self, name: str, key: str = "key-1", /, **arguments: Any) -> Any:
        """Run a tool as the toolbox does, on strictly validated arguments."""
        one = self.tools[name]
        return await one.run(one.parse(one.validate(arguments)), self.context(key))

    def context(self, key: str = "key-1") -> ToolContext:
        """Of a call with that idempotency key."""
        deadline = datetime.now(UTC) + timedelta(minutes=1)
        return ToolContext(THREAD, "U0ALICE", "run-1", "call-1", key, deadline, {"home": self.home})

    async def credit(self, order: str, units: int, key: str = "key-1") -> Any:
        """Calculate and issue, as the model should."""
        found = await self.do("calculate_credit", order_id=order, units=units)
        return await self.do("issue_credit", key, **figures(found))

    async def ledger(self, order: str) -> Any:
        """What get_credits says."""
        return await self.do("get_credits", order_id=order)

    def change(self, statement: str, *values: Any) -> None:
        """Somebody else changes the records."""
        with sqlite3.connect(self.home / "helpdesk.db") as connection:
            connection.execute(statement, values)


def figures(calculation: Any) -> dict[str, Any]:
    """What issue_credit takes of a calculation."""
    return {name: calculation[name] for name in ("order_id", "units", "calculation_id", "amount_cents")}
