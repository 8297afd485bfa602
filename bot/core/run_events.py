"""Events that begin and end a run, and what came in from people."""

from __future__ import annotations

from typing import Any, Literal

from bot.core.event import Event, TrustWord, Usage


class RunStarted(Event):
    """A run begins; everything a replay needs is pinned here by digest."""

    run_id: str
    principal: str
    """Whose message started it."""
    deadline: str
    """RFC 3339; when the run must have ended unless it parks."""
    pins: dict[str, str]
    """Digests of `model`, `policy`, `prompt`, `tools` and `renderer`; the store keeps the contents."""
    fresh: bool = False
    """The asker began anew: nothing said or read before enters this run."""
    by_bot: bool = False
    """An allow-listed bot asked; at most 10 such runs in a thread."""
    tools: list[str] = []
    """Names of the tools that are offered to it; a plan may name no other."""
    policy_version: str
    """Digest of the policy without model, caps and loop settings; approvals are bound to it."""


class MessageReceived(Event):
    """An accepted message enters the run."""

    ts: str
    author: str
    trust: TrustWord
    text: str
    lowered_by: list[str] = []
    """What in it was not the author's own word: quotes, forwarded messages, attachments, files."""


class MessageIgnored(Event):
    """A message in this thread that was not for us."""

    ts: str
    reason: str
    author: str = ""


class MessageEdited(Event):
    """A message that had been accepted was changed by its author."""

    ts: str
    author: str
    text: str
    material: bool
    """False: the words are the same, and nothing follows from it."""


class MessageDeleted(Event):
    """A message that had been accepted was removed."""

    ts: str


class HistoryImported(Event):
    """What stood in the thread before we were asked."""

    messages: list[dict[str, Any]]
    """`{ts, author, text, trust}`, oldest first."""
    left_out: int = 0
    """How many older messages were not imported."""
    trust: TrustWord


class Compacted(Event):
    """Old turns were folded into a summary; the log keeps them."""

    summary: str
    """What the model sees in their place."""
    through_seq: int
    """The last entry whose words are no longer in the prompt."""
    why: Literal["threshold", "window", "repair"] = "threshold"
    """It grew past the policy's threshold; it no longer fitted into the model; it could not be sent as it stood."""
    by_model: bool = False
    """False: the summary was made by code alone."""


class Cancelled(Event):
    """A person stopped the run."""

    by: str


class RunFinished(Event):
    """The one terminal outcome of a run."""

    outcome: Literal["answered", "partial", "escalated", "refused", "cancelled", "failed"]
    stop_reason: str
    text: str
    """What people are told."""
    messages: list[str]
    """The ts of every accepted message of this run."""
    usage: Usage
    cost_usd: float
    reference: str = ""
    """Finds this ending in traces and logs."""


class Posted(Event):
    """Something was delivered to Slack."""

    ts: str
    key: str
    """Which thing to say it was; the same key again is an update of the same message."""


class FeedbackGiven(Event):
    """Somebody rated an answer."""

    by: str
    vote: Literal["up", "down"]
    ts: str = ""


class PayloadErased(Event):
    """A person's data was removed; the chain stays whole."""

    seqs: list[int]
    by: str
    why: str = ""
