"""A log as model messages: byte-stable, so that each request's messages begin with the last one's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.core.state import Item, Session

Message = dict[str, Any]


def messages(session: Session) -> list[Message]:
    """The whole conversation as the Messages API takes it.

    Results and what people said right after them share one user message, results first.
    """
    rendered: list[Message] = []
    for item in session.transcript:
        role = "assistant" if item.role == "assistant" else "user"
        if rendered and rendered[-1]["role"] == role:
            rendered[-1]["content"].extend(_blocks(item))
        else:
            rendered.append({"role": role, "content": _blocks(item)})
    return rendered


def faults(conversation: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the service would refuse, each in one line; empty for a conversation that can be sent."""
    found: list[str] = []
    if not conversation or conversation[0]["role"] != "user":
        found.append("it does not start with a person")
    if conversation and conversation[-1]["role"] != "user":
        found.append("it does not end with something for the model to answer")
    open_calls: list[str] = []
    for place, message in enumerate(conversation):
        answered = [block["tool_use_id"] for block in message["content"] if block.get("type") == "tool_result"]
        if sorted(answered) != sorted(open_calls):
            found.append(f"message {place}: calls {open_calls} are answered by {answered}")
        open_calls = [block["id"] for block in message["content"] if block.get("type") == "tool_use"]
        if any(block.get("type") == "text" and not block["text"].strip() for block in message["content"]):
            found.append(f"message {place}: an empty text")
    return found


def _blocks(item: Item) -> list[Any]:
    return [dict(block) for block in item.content]
