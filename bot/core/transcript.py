"""A log as model messages: byte-stable, so that each request's messages begin with the last one's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal

from bot.core.item import Item, Message
from bot.core.state import Session

Side = Literal["user", "assistant"]


def messages(session: Session, model: str = "", branch: int = 0) -> list[Message]:
    """The whole conversation as the Messages API takes it; another model's thinking is left out.

    Results and what people said right after them share one user message, results first.
    """
    items = [_for(item, model) for item in session.transcript if item.branch in (0, branch)]
    return [Message(side, tuple(found)) for side, found in groupby((one for one in items if one.content), _side)]


def faults(conversation: Sequence[Message]) -> list[str]:
    """What the service would refuse, each in one line; empty for a conversation that can be sent."""
    found: list[str] = []
    if not conversation or conversation[0].role != "user":
        found.append("it does not start with a person")
    if conversation and conversation[-1].role != "user" and conversation[-1].items[-1].ended != "pause_turn":
        found.append("it does not end with something for the model to answer")
    open_calls: tuple[str, ...] = ()
    ids: set[str] = set()
    for place, message in enumerate(conversation):
        found += _in_message(place, message, open_calls)
        open_calls = tuple(call for item in message.items for call in item.calls)
        if len(set(open_calls)) < len(open_calls) or ids.intersection(open_calls):
            found.append(f"message {place}: the id of a call stands twice")
        ids.update(open_calls)
    if open_calls:
        found.append(f"calls {list(open_calls)} have no result")
    return found


def _in_message(place: int, message: Message, open_calls: tuple[str, ...]) -> list[str]:
    found = [f"message {place}: {fault}" for item in message.items for fault in item.faults]
    answered = tuple(one for item in message.items for one in item.answers)
    if answered != open_calls and sorted(answered) != sorted(open_calls):
        found.append(f"message {place}: calls {list(open_calls)} are answered by {list(answered)}")
    if any(item.answers for item in message.items[1:]):
        found.append(f"message {place}: results do not come first")
    return found


def _for(item: Item, model: str) -> Item:
    foreign = model and item.model and item.model != model
    return item.without_thinking if foreign else item


def _side(item: Item) -> Side:
    return "assistant" if item.role == "assistant" else "user"
