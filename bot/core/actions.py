"""What a strategy may propose: values that the engine carries out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bot.core.event import Event, Role
from bot.core.item import Message
from bot.core.state import CallState


@dataclass(frozen=True)
class AskModel:
    """Ask a model: by default the agent's own about the conversation; else the small one about `messages`."""

    role: Role = "agent"
    system: str = ""
    """Empty: the thread's own system prompt and tools."""
    messages: tuple[Message, ...] = ()
    """Empty: the thread's conversation."""
    read: Callable[[str | None], Event] | None = None
    """What the reply's words become in the log; `None` is given when no reply could be had. Only of a side question
    (a role other than `agent`): such a question is never a reason for a run to end."""
    max_output_tokens: int = 0
    """0: as the policy says."""


@dataclass(frozen=True)
class AskBranches:
    """Ask for one reply of each of these investigations, side by side."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class RunTools:
    """Bring these calls, one stage, before the gate and run what it allows."""

    calls: tuple[CallState, ...]


@dataclass(frozen=True)
class Note:
    """Write down what the strategy itself decided."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class Wait:
    """Nothing to do before something comes in."""

    why: str


@dataclass(frozen=True)
class Finish:
    """End the run."""

    outcome: str
    stop_reason: str
    text: str = ""
    """The model's answer; empty where code says what happened."""
    detail: str = ""
    """What code adds for people."""


Action = AskModel | AskBranches | RunTools | Note | Wait | Finish
