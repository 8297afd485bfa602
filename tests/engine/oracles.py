"""What the raw log and the sent requests say, asked of nothing else."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from bot.core.policy import Policy
from tests.builders import POLICY
from tests.world import World

OWN = ("at", "prev", "hash", "salt", "payload_digest")


def policy_with(**tables: Any) -> Policy:
    """The policy of the tests with other tables."""
    return Policy.model_validate({**POLICY.model_dump(), **tables})


def log_of(world: World) -> list[dict[str, Any]]:
    """Every entry, without what differs from run to run by itself."""
    return [{name: value for name, value in one.dump().items() if name not in OWN} for one in world.log]


def sent(world: World, role: str = "agent") -> list[list[bytes]]:
    """The blocks of each request of that role, with their side, as bytes."""
    found = []
    for request in world.model.requests:
        if request.role == role:
            told = [message.dump() for message in request.messages]
            found.append([json.dumps([one["role"], block]).encode() for one in told for block in one["content"]])
    return found


def is_append_only(world: World) -> bool:
    """Each request of the agent begins with all of the last one (no fold may be in the log)."""
    assert "Compacted" not in world.kinds
    requests = sent(world)
    return all(later[: len(earlier)] == earlier for earlier, later in pairwise(requests))


async def ends(world: World, text: str = "What do we owe for order 4921?") -> dict[str, Any]:
    """Ask, let it run, and give the one ending; nothing else may have gone wrong on the way."""
    await world.says(text)
    await world.settle()
    [finished] = world.of("RunFinished")
    [answer] = world.answers
    assert answer["text"] == finished["text"]
    assert world.tracer.faults == []
    assert is_append_only(world)
    return finished
