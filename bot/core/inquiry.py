"""A question that was split into investigations side by side, as the log amounts to it.

| phase | what is under way |
|---|---|
| asked | the model was asked which independent questions to look into |
| running | the investigations go on, each in a conversation of its own, in rounds |
| judging | their conclusions are in the main conversation, and the model judges |
| citing | it judged without naming an investigation, and was asked once to cite |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bot.core.events import ModelReplied
from bot.core.frozen import replace

Phase = Literal["asked", "running", "judging", "citing"]
CONCLUDED = "concluded"


@dataclass(frozen=True)
class Branch:
    """One investigation."""

    number: int
    """Counts from 1; what a judgement cites it by."""
    question: str
    rounds: int
    """How many replies it may have."""
    asked_model: str
    """Whom its newest request was sent to."""
    known_input: tuple[int, int]
    """Bytes of its last request that got a reply, and the tokens that were counted for it; at first those of the
    main conversation, which its own one begins with."""
    request_bytes: int = 0
    """Size of its newest request."""
    turn: int = 0
    """Turn of its newest request within the run."""
    pending: bool = False
    """Its newest request has no reply yet."""
    reserved_tokens: int = 0
    reserved_usd: float = 0.0
    reply: ModelReplied | None = None
    replies: int = 0
    looked: tuple[str, ...] = ()
    """Calls that brought it something, as people read them."""
    ended: str = ""
    """Why it goes no further; empty while it does."""
    conclusion: str = ""
    """What it last said, once it has ended."""


@dataclass(frozen=True)
class Inquiry:
    """All investigations of a run."""

    phase: Phase = "asked"
    branches: tuple[Branch, ...] = ()
    revision: int = 0
    """Of the plan that names them."""
    call_ids: frozenset[str] = frozenset()
    """Of every call they made; none may be used again."""
    uncited: str = ""
    """The judgement that was given without citing, while it is asked for again."""

    def branch(self, number: int) -> Branch:
        """The investigation of that number."""
        return next(one for one in self.branches if one.number == number)

    @property
    def unfinished(self) -> tuple[int, ...]:
        """Numbers of those that go on, in order."""
        return tuple(one.number for one in self.branches if not one.ended)

    def with_branch(self, changed: Branch) -> Inquiry:
        """The same with that investigation as it is now."""
        branches = tuple(changed if one.number == changed.number else one for one in self.branches)
        return replace(self, branches=branches)

    def with_call(self, call_id: str) -> Inquiry:
        """The same once that call was asked for."""
        return replace(self, call_ids=self.call_ids | {call_id})
