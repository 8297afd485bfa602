"""Where the service may cache a conversation: never more than four marks, by rule.

1. The system prompt, for an hour: tools and system are the same for every thread.
2. The last block of the last two user messages: the earlier one is what the last request wrote, the later one what the
   next request reads. For an hour when a person may have to decide in between, else for five minutes.
3. One more inside a wide turn, because a mark looks back over twenty blocks only.
4. No later request reads on where a side question ended: only its system prompt is marked.

Longer lives come first, as the service demands: the marks of the messages all live alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from bot.core.item import Message
from bot.engine.ports import ModelRequest

LONG = b'{"type":"ephemeral","ttl":"1h"}'
SHORT = b'{"type":"ephemeral"}'
WIDE = 15
"""More blocks than this between two marks want a third there: a mark looks back over 20 (model.md section 2.2)."""

Places = Mapping[int, frozenset[int]]
"""Message -> blocks of it, both counted from 0."""


def places(request: ModelRequest) -> Places:
    """The marked blocks of the messages."""
    messages = request.messages
    if request.role != "agent":
        return {}
    users = list(islice((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user"), 2))
    found = {at: {messages[at].width - 1} for at in users}
    if len(users) == 2:
        for at, block in _between(messages, users[1], users[0]):
            found.setdefault(at, set()).add(block)
    return {at: frozenset(blocks) for at, blocks in found.items()}


def life(request: ModelRequest) -> bytes:
    """How long what the messages' marks write should live."""
    return LONG if request.wait_likely else SHORT


def _between(messages: Sequence[Message], earlier: int, later: int) -> list[tuple[int, int]]:
    """The block furthest from the earlier mark that still reaches back to it; none in a turn that is not wide."""
    if sum(one.width for one in messages[earlier + 1 : later + 1]) <= WIDE:
        return []
    spread = [
        (at, number, block.get("type"))
        for at in range(earlier + 1, later + 1)
        for number, block in enumerate(messages[at].content)
    ]
    able = [(at, number) for at, number, kind in spread[:WIDE] if kind in ("text", "tool_use", "tool_result")]
    return able[-1:]
