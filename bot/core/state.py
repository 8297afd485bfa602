"""What a thread's log amounts to: frozen values that only `evolve` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from bot.core.authority import Authority
from bot.core.events import ModelReplied, Usage
from bot.core.inquiry import Inquiry
from bot.core.item import Item
from bot.core.labels import Label, Trust
from bot.core.plans import Plan
from bot.core.words import ThreadId


@dataclass(frozen=True)
class Approval:
    """A person's word on one exact call."""

    id: str
    batch: str
    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    digest: str
    expires_at: str
    approvers: tuple[str, ...]
    distinct: int
    why: str
    critical: tuple[str, ...] = ()
    """Arguments that a card shows first."""
    denial_key: str = ""
    """What a denial of it is remembered by."""
    status: Literal["open", "approved", "denied", "expired", "voided"] = "open"
    votes: tuple[str, ...] = ()
    """Who said yes so far."""
    decided_by: tuple[str, ...] = ()
    reason: str = ""
    used: bool = False
    """Its call has started: it admits nothing any more."""


@dataclass(frozen=True)
class CallState:
    """One call of the current turn."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    authority: Authority
    stage: int
    invalid: str = ""
    branch: int = 0
    """The investigation that asked for it; 0: the conversation itself."""
    verdict: str = ""
    approval: str = ""
    """Id of the newest approval that was asked for it; the approval is looked up by the call alone."""
    started: bool = False
    key: str = ""
    """The idempotency key that it started with."""
    returned: bool = False
    result: Mapping[str, Any] | None = None
    """The block the model is given, once it has returned."""
    unknown: bool = False
    """It started, and nobody knows how it ended."""


@dataclass(frozen=True)
class Tried:
    """What is remembered of a call key (tool and canonical arguments) within a run."""

    offers: int
    """How often it was asked for in its version, this one included."""
    version: int
    """World version for reads, word version for state changes."""
    free: bool = False
    """A retryable error came back: the next repeat is free."""
    forgiven: bool = False
    """The free repeat has been used."""


@dataclass(frozen=True)
class Run:
    """A live run: from an accepted message to a terminal outcome."""

    id: str
    principal: str
    policy_version: str
    budget_s: float
    """Seconds it may be active; waiting for a person does not count."""
    began: int = 0
    """Which entry of the log started it."""
    active_s: float = 0.0
    requesters: frozenset[str] = frozenset()
    messages: tuple[str, ...] = ()
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    lost_tokens: int = 0
    """Reserved for calls whose reply never came: they may have been charged."""
    lost_usd: float = 0.0
    reserved_tokens: int = 0
    """Of the model call under way; 0 when none is."""
    reserved_usd: float = 0.0
    request_bytes: int = 0
    """Size of the newest request."""
    requested_at: int = 0
    """Which entry of the log that request is."""
    pending: str = ""
    """The role of the request under way; empty when none is."""
    asked_model: str = ""
    """Whom the newest request was sent to."""
    output_limit: int = 0
    """The most that the newest request let it write, in tokens."""
    cut: int = 0
    """Replies in a row that were cut off at the output limit; the first is asked for again with more room."""
    nudged: bool = False
    """The model gave an empty reply and was asked once more."""
    window_folds: int = 0
    """How often the conversation was folded because it no longer fitted into the model."""
    known_input: tuple[int, int] = (0, 0)
    """Bytes of the last request that got a reply, and the input tokens that the service counted for it."""
    reply: ModelReplied | None = None
    """The newest complete reply, until something newer was said to the model."""
    calls: tuple[CallState, ...] = ()
    """Of the newest reply, in the model's order."""
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    asks: int = 0
    """Messages that asked a person."""
    denied: frozenset[str] = frozenset()
    """Keys of denied calls: tool, critical arguments and destination."""
    facts: frozenset[str] = frozenset()
    turn_facts: int = 0
    """New facts of the current turn."""
    turn_refused_to_conclude: bool = False
    """A call of this turn met the soft limit: the turn is not barren."""
    barren: int = 0
    """Turns in a row without a new fact."""
    tried: Mapping[str, Tried] = field(default_factory=dict)
    repeated: int = 0
    """Most offers of one call in one version."""
    world: int = 0
    """Rises with each state change and each word of a person."""
    words: int = 0
    """Rises with each word of a person."""
    cancelled_by: str = ""
    steps: tuple[str, ...] = ()
    """Tools in the order they were asked for, for progress."""
    inquiry: Inquiry | None = None
    """Investigations side by side, where the question was split."""
    unverified: tuple[str, ...] = ()
    """Changes that were made and that nothing was read after."""
    path: str = ""
    """How it works, where something chose that; empty before, and where nothing chooses."""
    tools: tuple[str, ...] = ()
    """Names of what it was offered when it began."""
    plan: Plan | None = None
    """The newest one that was committed; none before, and none once planning was given up."""
    drafting: int = 0
    """How often the plan under way was asked for; 0 when none is."""
    todo: tuple[str, ...] = ()
    """The model's own list, a line an item, for progress."""
    critiqued: bool = False
    """An answer of it was criticised: the next one is given whatever it is."""
    draft: str = ""
    """An answer that was objected to, until there is a better one."""

    def call(self, call_id: str) -> CallState | None:
        """The call of the current turn with that id."""
        return next((one for one in self.calls if one.call_id == call_id), None)

    @property
    def open_calls(self) -> tuple[CallState, ...]:
        """Calls that the model has no result for yet."""
        return tuple(call for call in self.calls if not call.returned)

    @property
    def stage(self) -> tuple[CallState, ...]:
        """The open calls whose turn it is."""
        left = self.open_calls
        return tuple(call for call in left if call.stage == left[0].stage)

    @property
    def open_approvals(self) -> tuple[Approval, ...]:
        """Questions that a person has not decided."""
        return tuple(one for one in self.approvals.values() if one.status == "open")

    @property
    def waiting(self) -> bool:
        """Nothing can go on before a person decides: no worker is held and no time counts."""
        if not self.approvals:
            return False
        asked = {one.call_id for one in self.open_approvals}
        return any(call.call_id in asked for call in self.stage)

    @property
    def tokens_spent(self) -> int:
        """What counts against the token budget, calls under way and lost ones at their worst."""
        branches = self.inquiry.branches if self.inquiry else ()
        under_way = self.reserved_tokens + sum(one.reserved_tokens for one in branches)
        return self.usage.total + self.lost_tokens + under_way

    @property
    def usd_spent(self) -> float:
        """What counts against the money budget, likewise."""
        branches = self.inquiry.branches if self.inquiry else ()
        return self.cost_usd + self.lost_usd + self.reserved_usd + sum(one.reserved_usd for one in branches)


@dataclass(frozen=True)
class Heard:
    """A message of the thread that was accepted once."""

    author: str
    text: str
    run: str
    seq: int = 0
    """Which entry of the log it came in with."""


@dataclass(frozen=True)
class Reading:
    """A text that the session has read, with its trust."""

    source: str
    """A tool's name, or words for people."""
    trust: Trust
    text: str
    run: str = ""
    """The run it was read in."""
    is_result: bool = False
    """A tool returned it."""


@dataclass(frozen=True)
class Session:
    """Everything a thread's log says, as one value."""

    thread: ThreadId
    entries: int = 0
    """How many events it was made from."""
    label: Label = field(default_factory=Label)
    transcript: tuple[Item, ...] = ()
    run: Run | None = None
    principal: str = ""
    """Whose message started the newest run."""
    heard: Mapping[str, Heard] = field(default_factory=dict)
    """ts -> accepted message."""
    spoke_since_post: frozenset[str] = frozenset()
    """Who else wrote in the thread since our last post."""
    posted: Mapping[str, str] = field(default_factory=dict)
    """Key of a thing said -> ts of its message."""
    bot_runs: int = 0
    """Runs that were started by bots."""
    last_at: datetime | None = None
    last_reply: str = ""
    """The service's id of the newest reply, for its report on the cache."""
    readings: tuple[Reading, ...] = ()
    """Every text that was read, oldest first: where a value came from, what an approver must know of."""

    @property
    def asked(self) -> tuple[str, ...]:
        """What people wrote in the live run, oldest first."""
        return tuple(one.text for one in self.heard.values() if self.run and one.run == self.run.id)

    @property
    def trust(self) -> Trust:
        """Trust of everything read so far."""
        return self.label.trust
