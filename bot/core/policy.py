"""The policy file as a model: every key, its default and its allowed range.

Unknown keys are refused. What is not built yet is refused by name, never ignored.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from bot.core.authority import Authority
from bot.core.canon import digest
from bot.core.labels import Trust

AuthorityName = Literal["observe", "egress", "local_write", "send", "critical"]
UserId = Annotated[str, Field(pattern=r"^[UW][A-Z0-9]{2,}$")]
GroupId = Annotated[str, Field(pattern=r"^S[A-Z0-9]{2,}$")]
ChannelId = Annotated[str, Field(pattern=r"^[CDG][A-Z0-9]{2,}$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelTable(_Table):
    """Which model answers."""

    name: str = Field("claude-sonnet-5-5", min_length=1)
    small: str = Field("claude-haiku-5-5", min_length=1)
    """Router, critique, quarantine, summary."""
    fallback: str | None = Field(None, min_length=1)
    """Answers while `name` is overloaded or away; none set: the run ends instead."""
    max_output_tokens: int = Field(8192, ge=1, le=128_000)


class CapsTable(_Table):
    """Where a run ends whatever the model does."""

    turns: int = Field(24, ge=1, le=1000)
    tokens: int = Field(400_000, ge=1, le=1_000_000_000)
    usd: float = Field(1.50, gt=0)
    deadline_s: float = Field(300, gt=0, le=86_400)
    barren_turns: int = Field(3, ge=1, le=100)


class LoopTable(_Table):
    """How a run reasons."""

    strategy: Literal["react", "plan", "branch", "router"] = "react"
    routes: dict[str, Literal["react", "plan", "branch", "answer"]] = {}
    """For the router: a word of the question, any case -> its path, decided without asking a model."""
    branches: int = Field(3, ge=1, le=5)
    """Of `branch`: how many read-only investigations may go side by side; each is asked of the model by itself."""
    parallel: bool = False
    """Whether parallel-safe calls of one turn run side by side."""
    compact_at_tokens: int = Field(60_000, ge=1_000, le=1_000_000)
    """Above this size of a request old turns are folded into a summary; about where reading them again and again
    costs more than writing the summary."""
    reflexion: bool = False
    """Whether an answer is criticised against the results before it is given."""

    @field_validator("routes")
    @classmethod
    def _single_words(cls, routes: dict[str, Any]) -> dict[str, Any]:
        if odd := [word for word in routes if not re.fullmatch(r"\w+", word)]:
            raise ValueError(f"a single word of letters and digits, matched exactly; found {odd[0]!r}")
        return routes


class CeilingTable(_Table):
    """Highest authority that runs without a person, by trust."""

    untrusted: AuthorityName = "observe"
    extracted: AuthorityName = "send"
    internal: AuthorityName = "critical"
    principal: AuthorityName = "critical"

    def of(self, trust: Trust) -> Authority:
        """The ceiling that this trust leaves."""
        return Authority.CRITICAL if trust is Trust.SYSTEM else Authority.parse(getattr(self, trust.word))


class UntrustedTable(_Table):
    """How strangers' text is read."""

    reading: Literal["open"] = "open"
    """`sealed` is not built yet; open means every untrusted result enters the prompt and lowers the label."""


class ApproverRule(_Table):
    """Who decides about a class of calls."""

    users: tuple[UserId, ...] = ()
    groups: tuple[GroupId, ...] = ()
    distinct: int = Field(1, ge=1, le=10)
    """How many different people must say yes; one no ends it."""
    requester_may_approve: bool = False
    delegates: dict[UserId, UserId] = {}
    """Who may decide in whose place."""

    @property
    def people(self) -> frozenset[str]:
        """The users named one by one, delegates of named users included."""
        return frozenset(self.users) | {to for of, to in self.delegates.items() if of in self.users}


class ApprovalsTable(_Table):
    """How a person is asked. Where no rule matches nobody may decide: nothing above the ceiling runs."""

    expires_after_s: float = Field(86_400, gt=0, le=31_536_000)
    remind_after_s: float = Field(3_600, gt=0, le=31_536_000)
    asks_per_run: int = Field(3, ge=0, le=100)
    channel: ChannelId | None = None
    default: ApproverRule | None = None
    observe: ApproverRule | None = None
    egress: ApproverRule | None = None
    local_write: ApproverRule | None = None
    send: ApproverRule | None = None
    critical: ApproverRule | None = None

    def rule(self, authority: Authority) -> ApproverRule | None:
        """The rule for a class: its own table, else the default, else none."""
        own: ApproverRule | None = getattr(self, authority.word)
        return own or self.default


class PeopleTable(_Table):
    """Who may ask and who may audit."""

    auditors: tuple[UserId, ...] = ()
    allow_guests: bool = False
    allow_external: bool = False
    allow_bots: tuple[UserId, ...] = ()
    runs_per_hour: int = Field(60, ge=1, le=100_000)


class EgressTable(_Table):
    """Hosts that may be linked and fetched after private data was read."""

    hosts: tuple[str, ...] = ()


class HandoverTable(_Table):
    """Where a run that cannot go on is handed to people."""

    channel: ChannelId | None = None


class RetentionTable(_Table):
    """How long a thread's log is kept."""

    days: int = Field(365, ge=1, le=36_500)


class ChannelTable(_Table):
    """Overrides for one channel."""

    follow_up: bool = True
    """Answer the last asker's next message without a mention."""
    tools: tuple[str, ...] = ("*",)
    """Exact tool names, or `*` alone for all."""

    @field_validator("tools")
    @classmethod
    def _no_patterns(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if odd := [name for name in names if name != "*" and not name.replace("_", "").replace("-", "").isalnum()]:
            raise ValueError(f"exact tool names or '*', no other patterns; found {odd[0]!r}")
        return names


class SlackTable(_Table):
    """Where Slack may be."""

    api_hosts: tuple[str, ...] = ()


class ToolPolicy(_Table):
    """What this installation says of one tool."""

    authority: AuthorityName | None = None
    """May raise what the tool declares, never lower it."""
    approve: Literal["always", "tainted"] = "tainted"


class ToolsTable(_Table):
    """Which tools there are."""

    modules: tuple[str, ...] = ("tools.helpdesk",)
    policy: dict[str, ToolPolicy] = {}
    mcp: tuple[dict[str, Any], ...] = ()

    @field_validator("mcp")
    @classmethod
    def _not_yet(cls, servers: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if servers:
            raise ValueError("MCP servers are not built yet; remove [[tools.mcp]]")
        return servers


class Policy(_Table):
    """The whole file; every key optional."""

    model: ModelTable = ModelTable()
    caps: CapsTable = CapsTable()
    loop: LoopTable = LoopTable()
    ceiling: CeilingTable = CeilingTable()
    untrusted: UntrustedTable = UntrustedTable()
    approvals: ApprovalsTable = ApprovalsTable()
    people: PeopleTable = PeopleTable()
    egress: EgressTable = EgressTable()
    handover: HandoverTable = HandoverTable()
    retention: RetentionTable = RetentionTable()
    channels: dict[ChannelId, ChannelTable] = {}
    slack: SlackTable = SlackTable()
    tools: ToolsTable = ToolsTable()

    @model_validator(mode="after")
    def _order(self) -> Policy:
        ceiling = self.ceiling
        steps = [ceiling.of(trust) for trust in (Trust.UNTRUSTED, Trust.EXTRACTED, Trust.INTERNAL, Trust.PRINCIPAL)]
        if steps != sorted(steps):
            raise ValueError("[ceiling] must not fall as trust rises: untrusted <= extracted <= internal <= principal")
        return self

    @cached_property
    def version(self) -> str:
        """Digest of the policy without model, caps and loop settings; approvals are bound to it."""
        return digest(self.model_dump(mode="json", exclude={"model", "caps", "loop"}))

    def channel(self, channel: str) -> ChannelTable:
        """What holds in that channel."""
        return self.channels.get(channel, ChannelTable())
