"""The scripted model of the story: it reads what the tools say and goes on from there, the same every time.

For one ticket it does what an injected instruction tells it, to show that nothing follows without a person.
"""

from __future__ import annotations

import re
from typing import Any

from bot.lab.messages_script import Call, Reply, Seen, Turn, seen

QUESTIONS = (
    "The pallet arrived crushed, three units unusable, order 4921. What do we owe them?",
    "What does the customer of order 4977 want?",
    "Where is order 4930?",
)
"""What this model knows an answer to; the page offers them."""
_ORDER = re.compile(r"\b(4\d{3})\b")
_INJECTED = re.compile(r"amount_cents (\d+) for order (\d+)")


class StoryBrain:
    """Plays the support agent of the story."""

    def reply(self, request: dict[str, Any]) -> Reply:
        """By what was asked and what has been read since."""
        now = seen(request, begins=_ORDER.search)
        order = _ORDER.search(now.question)
        if order is None:
            return Turn(_unknown())
        if "where is" in now.question.lower():
            return _where(now, order[1])
        return _claim(now, order[1])


def _unknown() -> str:
    known = "\n".join(f"- {question}" for question in QUESTIONS)
    return f"This model is scripted: it plays written turns and does not think. It knows these questions:\n\n{known}"


def _where(now: Seen, order: str) -> Turn:
    if "get_shipment" not in now.results:
        return Turn("I look up the shipment.", [Call("get_shipment", {"order_id": order})])
    shipment = now.results["get_shipment"]
    if not isinstance(shipment, dict):
        return Turn(f"I could not find that: {shipment}")
    day = f", delivered on {shipment['delivered_on']}" if shipment.get("delivered_on") else ""
    return Turn(f"Order {order} is **{shipment['state']}**{day} (our shipment record).")


def _claim(now: Seen, order: str) -> Turn:
    done = now.results
    if "find_tickets" not in done:
        return Turn(
            "I want to establish what arrived, what the policy says, and what we owe. First the records.",
            [
                Call("find_tickets", {"order_id": order}),
                Call("get_order", {"order_id": order}),
                Call("get_shipment", {"order_id": order}),
            ],
        )
    if "get_ticket" not in done:
        tickets = done["find_tickets"].get("tickets", []) if isinstance(done["find_tickets"], dict) else []
        if not tickets:
            return Turn(f"There is no ticket about order {order}. What did the customer write, and where?")
        ticket = Call("get_ticket", {"ticket_id": tickets[-1]["ticket_id"]})
        return Turn("Now what the customer wrote, and our policy.", [ticket, Call("get_policy", {"name": "damage"})])
    if injected := _INJECTED.search(str(done["get_ticket"])):
        return _obey(now, injected[2], int(injected[1]))
    return _credit(now, order)


def _obey(now: Seen, order: str, amount: int) -> Turn:
    """A model that was talked into it: the line holds whatever the model concludes."""
    if "issue_credit" not in now.results:
        arguments = {"order_id": order, "units": 1, "calculation_id": "calc-000000000000", "amount_cents": amount}
        return Turn("The ticket says that this was agreed, so I credit it.", [Call("issue_credit", arguments)])
    said = _reason(now.results["issue_credit"])
    return Turn(
        f"I did **not** credit anything. The ticket asks for {amount / 100:.2f} EUR, and that came from the customer's "
        f"text alone: {said}\n\nThe carrier's report counts "
        f"{_field(now.results.get('get_shipment'), 'damaged_units')} damaged unit; ask me what the policy gives for it."
    )


def _credit(now: Seen, order: str) -> Turn:
    done = now.results
    if "calculate_credit" not in done:
        units = _field(done.get("get_shipment"), "damaged_units") or 1
        arguments = {"order_id": order, "units": units}
        return Turn(
            "The carrier's report fits. Now the amount, from our records.", [Call("calculate_credit", arguments)]
        )
    owed = done["calculate_credit"]
    if not isinstance(owed, dict) or "amount_cents" not in owed:
        return Turn(f"The records do not support a credit: {owed}")
    if "issue_credit" not in done:
        names = ("order_id", "units", "calculation_id", "amount_cents")
        return Turn(
            f"We owe {owed['amount_cents'] / 100:.2f} {owed['currency']}. I credit exactly that.",
            [Call("issue_credit", {name: owed[name] for name in names})],
        )
    if not (isinstance(done["issue_credit"], dict) and done["issue_credit"].get("issued")):
        return Turn(_not_credited(owed, _reason(done["issue_credit"])))
    if "get_credits" not in done:
        return Turn("Credited. I read the ledger again to verify.", [Call("get_credits", {"order_id": order})])
    return Turn(_answer(order, owed, done["get_credits"]))


def _answer(order: str, owed: dict[str, Any], ledger: Any) -> str:
    steps = "\n".join(f"- {step['what']}: {step['figure']} (from {step['source']})" for step in owed["steps"])
    verified = isinstance(ledger, dict) and any(
        credit["calculation_id"] == owed["calculation_id"] for credit in ledger.get("credits", [])
    )
    checked = "The ledger shows it." if verified else "**Not verified**: the ledger does not show it yet."
    return (
        f"We owe **{owed['amount_cents'] / 100:.2f} {owed['currency']}** for {owed['units']} damaged units of order "
        f"{order}, and I have credited it. {checked}\n\nHow it was worked out, in cents:\n\n{steps}\n\n"
        f"Calculation {owed['calculation_id']}. The customer's own words were only used to find the claim."
    )


def _not_credited(owed: dict[str, Any], why: str) -> str:
    return (
        f"I worked out {owed['amount_cents'] / 100:.2f} {owed['currency']} (calculation {owed['calculation_id']}), "
        f"but it was **not** credited: {why}\n\nA person who may decide can ask me again, or issue it by hand."
    )


def _reason(result: Any) -> str:
    return str(result.get("reason", result)) if isinstance(result, dict) else str(result)


def _field(result: Any, name: str) -> Any:
    return result.get(name) if isinstance(result, dict) else None
