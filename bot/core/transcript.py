"""A log as model messages: byte-stable, so that each request's messages begin with the last one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from bot.core.item import Item, Message
from bot.core.state import Session

Side = Literal["user", "assistant"]


def messages(session: Session, model: str = "", branch: int = 0) -> list[Message]:
    """The whole conversation as the Messages API takes it; another model's thinking is left out.

    Results and what people said right after them share one user message, results first. An investigation begins with
    the conversation as it was then and goes on alone; its turns never stand in the conversation itself.
    """
    return Rendering(model, branch).of(session)


def faults(conversation: Sequence[Message]) -> list[str]:
    """What the service would refuse, each in one line; empty for a conversation that can be sent."""
    check = _Check()
    for message in conversation[:-1]:
        check.pass_on(message)
    return check.at_end(conversation[-1] if conversation else None)


@dataclass
class _Check:
    """What is known of the messages that were passed on."""

    place: int = 0
    open_calls: tuple[str, ...] = ()
    ids: set[str] = field(default_factory=set)
    found: list[str] = field(default_factory=list)

    def pass_on(self, message: Message) -> None:
        """A message that others follow."""
        self.found += self._of(message)
        self.place, self.open_calls = self.place + 1, message.calls
        self.ids.update(message.calls)

    def at_end(self, last: Message | None) -> list[str]:
        """Everything, when that message is the last one."""
        if last is None:
            return ["it does not start with a person", "it does not end with something for the model to answer"]
        found = [*self.found, *self._of(last)]
        if last.role != "user" and last.items[-1].ended != "pause_turn":
            found.append("it does not end with something for the model to answer")
        return [*found, f"calls {list(last.calls)} have no result"] if last.calls else found

    def _of(self, message: Message) -> list[str]:
        at = f"message {self.place}"
        found = [f"{at}: {fault}" for item in message.items for fault in item.faults]
        if not self.place and message.role != "user":
            found.append("it does not start with a person")
        if message.answers != self.open_calls and sorted(message.answers) != sorted(self.open_calls):
            found.append(f"{at}: calls {list(self.open_calls)} are answered by {list(message.answers)}")
        if any(item.answers for item in message.items[1:]):
            found.append(f"{at}: results do not come first")
        if len(set(message.calls)) < len(message.calls) or self.ids.intersection(message.calls):
            found.append(f"{at}: the id of a call stands twice")
        return found


@dataclass
class Rendering:
    """A growing conversation, rendered and checked at the price of what is new.

    Nothing but a cache: it notices by itself when another epoch began, and a fresh one says the same.
    """

    model: str = ""
    """To whom it is sent; empty: whose thinking is kept does not matter."""
    branch: int = 0
    _messages: list[Message] = field(default_factory=list)
    _check: _Check = field(default_factory=_Check)
    _items: tuple[Item, ...] = ()
    _split: bool = False
    """Investigations have begun."""

    def of(self, session: Session) -> list[Message]:
        """The conversation now; what was there before are the same objects."""
        items, known = session.transcript, len(self._items)
        if known and (len(items) < known or items[0] is not self._items[0] or items[known - 1] is not self._items[-1]):
            self._messages, self._check, self._split, known = [], _Check(), False, 0
        for item in items[known:]:
            # An investigation begins with what the conversation was when the first piece of any was written.
            self._split = self._split or bool(item.branch)
            if item.branch == self.branch or not self._split:
                self._add(_for(item, self.model))
        self._items = items
        return list(self._messages)

    def faults(self) -> list[str]:
        """What the service would refuse in it, each in one line."""
        return self._check.at_end(self._messages[-1] if self._messages else None)

    def _add(self, item: Item) -> None:
        if not item.content:
            return
        side: Side = "assistant" if item.role == "assistant" else "user"
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == side:
            self._messages[-1] = Message(side, (*last.items, item))
            return
        if last is not None:
            self._check.pass_on(last)
        self._messages.append(Message(side, (item,)))


def _for(item: Item, model: str) -> Item:
    foreign = model and item.model and item.model != model
    return item.without_thinking if foreign else item
