"""Small Block Kit parts, each within Slack's limits."""

from __future__ import annotations

from typing import Any

SECTION = 2_900
"""Characters of one section; Slack takes 3,000."""
MESSAGE = 11_000
"""Characters of all blocks of one message; Slack refuses from about 13,200, and 12,000 is the held line."""
MESSAGE_BLOCKS = 45
"""Blocks of one message; Slack takes 50."""
FALLBACK = 3_500
"""Characters of the plain text beside blocks; an update takes 4,000."""

HARD = 3_000
"""What Slack takes of one text; callers cut at `SECTION` where the rest must follow elsewhere."""

Block = dict[str, Any]


def cut(text: str, limit: int) -> str:
    """At most that many characters, with a mark where something is missing."""
    return text if len(text) <= limit else text[: limit - 2] + " …"


def mrkdwn(text: str) -> Block:
    """A section of our own markup; plain URLs in it are not made into links."""
    return {"type": "section", "expand": True, "text": {"type": "mrkdwn", "text": cut(text, HARD), "verbatim": True}}


def plain_section(text: str) -> Block:
    """A section in which nothing is markup."""
    return {"type": "section", "expand": True, "text": {"type": "plain_text", "text": cut(text, HARD), "emoji": False}}


def header(text: str) -> Block:
    """A title of at most 150 characters."""
    return {"type": "header", "text": {"type": "plain_text", "text": text[:150], "emoji": False}}


def context(*texts: str) -> Block:
    """Small print, plain."""
    return {
        "type": "context",
        "elements": [{"type": "plain_text", "text": cut(one, HARD), "emoji": False} for one in texts],
    }


def button(text: str, action_id: str, value: str, style: str | None = None) -> Block:
    """One button."""
    made: Block = {
        "type": "button",
        "text": {"type": "plain_text", "text": text, "emoji": False},
        "action_id": action_id,
        "value": value,
    }
    return made | ({"style": style} if style else {})


def pieces_of(text: str, limit: int) -> list[str]:
    """Cut at line ends, else at spaces, else anywhere; joined they are the text again."""
    parts: list[str] = []
    while len(text) > limit:
        cut = text.rfind("\n", 1, limit)
        cut = cut + 1 if cut > limit // 2 else text.rfind(" ", 1, limit) + 1
        cut = cut if cut > limit // 2 else limit
        cut = _not_inside_entity(text, _not_inside_link(text, cut, limit))
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text] if text else parts


def _not_inside_link(text: str, cut: int, limit: int) -> int:
    # In escaped text a bare `<` opens a link or a mention of ours.
    start = text.rfind("<", limit // 2, cut)
    return start if start > 0 and ">" not in text[start:cut] else cut


def _not_inside_entity(text: str, cut: int) -> int:
    # &amp; and its like must not be torn apart.
    start = text.rfind("&", max(0, cut - 5), cut)
    return start if start > 0 and ";" not in text[start:cut] else cut


def size(block: Block) -> int:
    """Characters that count against a message."""
    text = block.get("text")
    own = len(text["text"]) if isinstance(text, dict) else 0
    return own + sum(len(one["text"]) for one in block.get("elements", []) if isinstance(one.get("text"), str))


def packed(groups: list[list[Block]]) -> list[list[Block]]:
    """Blocks in messages that Slack takes, order kept; a group stays together wherever it fits one message."""
    messages: list[list[Block]] = [[]]
    for group in groups:
        if not _fits([*messages[-1], *group]) and messages[-1]:
            messages.append([])
        for block in group:
            if not _fits([*messages[-1], block]) and messages[-1]:
                messages.append([])
            messages[-1].append(block)
    return [message for message in messages if message]


def _fits(message: list[Block]) -> bool:
    return len(message) <= MESSAGE_BLOCKS and sum(size(block) for block in message) <= MESSAGE


def fallback(text: str) -> str:
    """The plain text beside blocks, for notifications and screen readers."""
    return text if len(text) <= FALLBACK else text[: FALLBACK - 1] + "…"
