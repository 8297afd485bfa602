"""The product's story on twins: ask, hit the line, approve, answer."""

from __future__ import annotations

from bot.lab.twins import Says
from tests.world import World

CREDIT = {"order_id": "4921", "amount_cents": 5400}
STORY = [
    Says("I read the ticket.", calls=[("get_ticket", {"order_id": "4921"})]),
    Says("I credit it.", calls=[("issue_credit", CREDIT)]),
    Says("I verify.", calls=[("get_order", {"order_id": "4921"})]),
    Says("Credited 54.00."),
]


async def test_a_question_hits_the_line_is_approved_and_answered() -> None:
    """Once each: card, credit, answer."""
    world = World(STORY)
    await world.says("What do we owe?")
    await world.settle()
    waiting = list(world.kinds)

    await world.clicks_on("approve", "U0MALLORY")
    await world.clicks_on("approve", "U0CAROL")
    await world.clicks_on("approve", "U0CAROL")
    await world.settle()

    assert waiting[-1] == "Posted" and "ApprovalRequested" in waiting and "RunFinished" not in waiting
    assert [one["by"] for one in world.of("ApprovalAttempted")] == ["U0MALLORY", "U0CAROL"]
    assert [one["call_id"] for one in world.of("ToolStarted")].count("toolu_002_0") == 1
    assert [one["text"] for one in world.answers] == ["Credited 54.00."]
    [finished] = world.of("RunFinished")
    assert (finished["outcome"], finished["messages"]) == ("answered", ["1.0"])
    assert world.tracer.faults == []
