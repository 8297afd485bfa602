"""Things to say, as data. A surface renders them; nothing here knows what a block or a markup is.

Each has a `key`. The first one of a key is a new message, a later one of the same key replaces what
that message shows: an effect says how the thread should look, so delivering it twice changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Effect(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    key: str
    """Names the message within its thread."""


class Progress(_Effect):
    """What the run is doing: newest state only."""

    kind: Literal["progress"] = "progress"
    steps: list[str]
    """One line a step, oldest first, already in words for people."""
    state: Literal["working", "waiting", "done", "stopped"]
    badge: str = ""
    """Why the ceiling fell; empty while it has not."""


class Answer(_Effect):
    """The one visible outcome of a run."""

    kind: Literal["answer"] = "answer"
    outcome: str
    stop_reason: str
    text: str
    """Markdown from the model, or plain words from our code. Untrusted: escape, filter links and mentions."""
    by_model: bool
    asker: str
    trusted_urls: list[str] = []
    """URLs that stood verbatim in trusted text; only these and allowed hosts may be live links."""
    badge: str = ""
    unverified: list[str] = []
    """Changes that were made and that nothing was read after, in words: the answer may claim what nobody checked."""
    reference: str = ""


class CardCall(BaseModel):
    """One exact call on an approval card."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    approval_id: str
    tool: str
    authority: str
    arguments: dict[str, Any]
    """Canonical; every one is shown."""
    critical: list[str] = []
    """Arguments that are shown first and never cut."""
    origins: dict[str, str] = {}
    """Argument -> where its value came from, in words."""
    digest: str
    distinct: int = 1
    status: Literal["open", "approved", "denied", "expired", "voided"] = "open"
    """Only an open call has buttons."""
    decided_by: list[str] = []
    voted_by: list[str] = []
    note: str = ""
    """Why it was voided, or the reason given with a decision."""


class Card(_Effect):
    """A person is asked about the calls of one turn, together."""

    kind: Literal["card"] = "card"
    asker: str
    why: str
    read: list[str] = []
    """Untrusted content that was read, quoted, for the approver."""
    model_reason: str = ""
    """The model's own words: shown apart, marked unverified."""
    approvers: list[str]
    expires_at: str
    calls: list[CardCall]


class CardLink(_Effect):
    """Tells the approvals channel that a card waits in a thread."""

    kind: Literal["card_link"] = "card_link"
    channel: str
    card_key: str
    """Key of the card in the thread; its permalink is posted."""
    summary: str


class Notice(_Effect):
    """One line of ours to everybody in the thread."""

    kind: Literal["notice"] = "notice"
    text: str


class Whisper(_Effect):
    """One line of ours that only one person sees."""

    kind: Literal["whisper"] = "whisper"
    user: str
    text: str


class SessionStatus(_Effect):
    """What Slack shows beside the thread."""

    kind: Literal["status"] = "status"
    status: Literal["processing", "active", "suspended", "closed"]


Effect = Annotated[Progress | Answer | Card | CardLink | Notice | Whisper | SessionStatus, Field(discriminator="kind")]
EffectAdapter: TypeAdapter[Effect] = TypeAdapter(Effect)
