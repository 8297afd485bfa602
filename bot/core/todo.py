"""The list that the model keeps for itself in long tasks, and that people see as progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

TODO = "todo"
"""The name of the tool that holds it. Its calls say nothing about the world: they add no facts and verify nothing."""
_MARKS = {"open": "○", "doing": "…", "done": "✓", "dropped": "–"}


class TodoItem(BaseModel):
    """One thing to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str = Field(min_length=1, max_length=200)
    state: Literal["open", "doing", "done", "dropped"]


class TodoArgs(BaseModel):
    """The whole list, newest state."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    items: list[TodoItem] = Field(max_length=30)


def lines(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """One line an item for people, from the canonical arguments of a call."""
    items: Iterable[Mapping[str, Any]] = arguments.get("items", ())
    return tuple(f"{_MARKS.get(one['state'], '○')} {' '.join(one['text'].split())}" for one in items)
