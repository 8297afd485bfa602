"""Events of the loop: reason, act, observe."""

from __future__ import annotations

from typing import Any

from bot.core.event import AuthorityWord, Event, ReadersWord, Role, TrustWord, Usage, Verdict


class RouteChosen(Event):
    """How the run works from here on: a rule or a router picked it, or a strategy gave up."""

    path: str
    why: str = ""
    """In the router's own words where a model picked it."""
    instruction: str = ""
    """What the model is told of it, as it enters the conversation; empty: nothing."""


class PlanCommitted(Event):
    """A plan was written down; the first of a run before any of its calls was made."""

    steps: list[dict[str, Any]]
    """Each with tool, arguments (values, or where they come from) and why, in order.

    Of investigations: `branch` (its number), `question` and `rounds` (replies it may have); in a later revision
    `branch`, why it `ended` without a conclusion, and the usage that was `lost` with it.
    """
    revision: int = 0
    """Counts the surprises that led to another plan."""


class ModelRequested(Event):
    """A model call is about to be made; its worst case is reserved against the budgets."""

    turn: int
    """Counts from 1 within the run."""
    role: Role = "agent"
    branch: int = 0
    """The investigation that is asked; 0: the conversation itself."""
    reserved_tokens: int
    reserved_usd: float = 0.0
    model: str
    max_output_tokens: int = 0
    """The most it may write."""
    lost: Usage = Usage()
    """What attempts since the last request or reply are known to have used up without a reply."""
    lost_usd: float = 0.0
    request_bytes: int = 0
    """Size of system, tools and messages as JSON; bounds the input before the service counts it."""
    request_digest: str = ""
    """Digest of the messages sent, so that a replay can prove it sends the same."""


class ModelReplied(Event):
    """A complete reply. An incomplete one is never logged as a reply."""

    turn: int
    role: Role = "agent"
    branch: int = 0
    """The investigation that replied; 0: the conversation itself."""
    content: list[dict[str, Any]]
    """Blocks as received, in order."""
    stop_reason: str
    usage: Usage
    cost_usd: float
    model: str = ""
    request_id: str = ""
    cache_miss_reason: str = ""
    """Why the service could not read from its cache what it had before; its own word, empty when it did."""
    invalid_calls: dict[str, str] = {}
    """Call id -> why its arguments could not be read; such a call never runs."""


class Critiqued(Event):
    """A second reading of an answer against the results."""

    ok: bool
    """False: the model was asked to answer once more, with the notes."""
    notes: str = ""
    usable: bool = True
    """False: there was no verdict to go by, so the answer stands unread."""


class ToolRequested(Event):
    """The model asked for a call; arguments are canonical, or cleaned where they were invalid."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    authority: AuthorityWord
    stage: int = 0
    """Calls of one turn with the same number run side by side; stages in rising order."""
    invalid: str = ""
    """Why it can never run as asked; empty when it fits the tool's schema."""
    branch: int = 0
    """The investigation that asked for it; 0: the conversation itself."""


class GateDecided(Event):
    """The gate's word on one call, with its reason."""

    call_id: str
    verdict: Verdict
    reason: str
    ceiling: AuthorityWord


class ToolStarted(Event):
    """From here on the effect may have happened."""

    call_id: str
    idempotency_key: str


class ToolReturned(Event):
    """What the model is given for a call, whether it ran or not."""

    call_id: str
    ok: bool
    content: Any
    trust: TrustWord
    readers: ReadersWord = "team"
    facts_added: int = 0
    """New facts, counted by code; a turn that adds none is barren."""
    ran: bool = True
    """False: the call was refused, denied or expired, and had no effect."""
    retryable: bool = False


class EffectUnknown(Event):
    """A call started, and nobody knows whether it had its effect."""

    call_id: str


class Sealed(Event):
    """A stranger's text was put behind a handle."""

    handle: str
    source: str
    kind: str = "text"
    size: int = 0


class Extracted(Event):
    """Closed-type values were read out of a sealed text."""

    handle: str
    fields: dict[str, Any]


class Shown(Event):
    """A sealed text was shown to people in the thread."""

    handle: str
    how: str


class Revealed(Event):
    """A sealed text entered the prompt raw."""

    handle: str
    why: str


class ContentEndorsed(Event):
    """An approver read the quoted text of one handle and vouched for it."""

    handle: str
    by: str


class LabelLowered(Event):
    """The session now knows something less trusted."""

    before: TrustWord
    after: TrustWord
    source: str
    """What lowered it, in words for people."""
