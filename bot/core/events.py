"""Every event of a thread's log: a closed union, in the order a run meets them.

1. What decides what a thread does next is an event here, or content pinned by a digest in one.
2. An event is written once and never changed; a new meaning needs a new field with a default, or a new type.
3. Words (trust, authority, verdicts) are lower case; people are plain Slack user ids.
"""

from __future__ import annotations

from typing import Any

from bot.core.approval_events import (
    ApprovalAttempted,
    ApprovalDecided,
    ApprovalEdited,
    ApprovalRequested,
    ApprovalVoided,
    ApprovalVoted,
)
from bot.core.event import SCHEMA_VERSION, Event, Usage
from bot.core.loop_events import (
    ContentEndorsed,
    Critiqued,
    EffectUnknown,
    Extracted,
    GateDecided,
    LabelLowered,
    ModelReplied,
    ModelRequested,
    PlanCommitted,
    Revealed,
    RouteChosen,
    Sealed,
    Shown,
    ToolRequested,
    ToolReturned,
    ToolStarted,
)
from bot.core.run_events import (
    Cancelled,
    Compacted,
    FeedbackGiven,
    HistoryImported,
    MessageDeleted,
    MessageEdited,
    MessageIgnored,
    MessageReceived,
    PayloadErased,
    Posted,
    RunFinished,
    RunStarted,
)

__all__ = [
    "EVENT_TYPES",
    "SCHEMA_VERSION",
    "AnyEvent",
    "ApprovalAttempted",
    "ApprovalDecided",
    "ApprovalEdited",
    "ApprovalRequested",
    "ApprovalVoided",
    "ApprovalVoted",
    "Cancelled",
    "Compacted",
    "ContentEndorsed",
    "Critiqued",
    "EffectUnknown",
    "Event",
    "Extracted",
    "FeedbackGiven",
    "GateDecided",
    "HistoryImported",
    "LabelLowered",
    "MessageDeleted",
    "MessageEdited",
    "MessageIgnored",
    "MessageReceived",
    "ModelReplied",
    "ModelRequested",
    "PayloadErased",
    "PlanCommitted",
    "Posted",
    "Revealed",
    "RouteChosen",
    "RunFinished",
    "RunStarted",
    "Sealed",
    "Shown",
    "ToolRequested",
    "ToolReturned",
    "ToolStarted",
    "Usage",
    "parse_event",
]

AnyEvent = (
    RunStarted | MessageReceived | MessageIgnored | MessageEdited | MessageDeleted | HistoryImported
    | RouteChosen | PlanCommitted | ModelRequested | ModelReplied | Critiqued
    | ToolRequested | GateDecided | ToolStarted | ToolReturned | EffectUnknown
    | Sealed | Extracted | Shown | Revealed | ContentEndorsed | LabelLowered
    | ApprovalRequested | ApprovalAttempted | ApprovalVoted | ApprovalEdited
    | ApprovalDecided | ApprovalVoided
    | Compacted | Cancelled | RunFinished | Posted | FeedbackGiven | PayloadErased
)  # fmt: skip
EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in AnyEvent.__args__}


def parse_event(kind: str, payload: dict[str, Any]) -> Event:
    """The event of that type; raises `KeyError` for a type this version does not know."""
    return EVENT_TYPES[kind].model_validate(payload)
