"""Events of an approval, from the question to the answer."""

from __future__ import annotations

from typing import Any, Literal

from bot.core.event import Event


class ApprovalRequested(Event):
    """A person is asked about one exact call."""

    approval_id: str
    batch: str
    """The message it stands in; calls of one turn are asked together."""
    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    """Binds tool, definition, arguments, precondition, thread, principal, label and policy version."""
    binding: dict[str, Any]
    """What the digest was taken over."""
    expires_at: str
    why: str
    """Why it is held."""
    read: list[str] = []
    """What untrusted content had been read."""
    approvers: list[str] = []
    """Who could decide it when it was asked."""
    distinct: int = 1
    """How many different people must say yes."""
    critical: list[str] = []
    """Arguments that the card shows first and never cuts."""
    denial_key: str = ""
    """What a denial is remembered by for the rest of the run."""


class ApprovalAttempted(Event):
    """Somebody clicked who may not decide, or too late."""

    approval_id: str
    by: str
    refused_because: str


class ApprovalVoted(Event):
    """Somebody entitled said yes or no."""

    approval_id: str
    by: str
    vote: Literal["approve", "deny"]


class ApprovalEdited(Event):
    """An approver changed the arguments before approving."""

    approval_id: str
    by: str
    before: dict[str, Any]
    after: dict[str, Any]
    digest: str


class ApprovalDecided(Event):
    """The question is closed."""

    approval_id: str
    decision: Literal["approved", "denied", "expired"]
    by: list[str]
    """Empty on expiry."""
    reason: str = ""


class ApprovalVoided(Event):
    """Something it was bound to changed; it can never be used."""

    approval_id: str
    why: str
