"""Memory twins of the ports: a model that plays a script, people, a surface that keeps what it was told.

They raise what the real ones raise; the wire-level stand-ins beside them are for everything else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.core.effects import Effect
from bot.core.errors import OutsideFailed
from bot.core.events import Usage
from bot.core.policy import ApproverRule
from bot.core.state import Session
from bot.core.words import Person, ThreadId
from bot.engine.ports import ModelFailure, ModelReply, ModelRequest, Piece, Span, Step


@dataclass(frozen=True)
class Says:
    """One scripted turn: text, and calls as (tool, arguments)."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    thinking: str = ""
    stop_reason: str = ""
    """Empty: `tool_use` with calls, else `end_turn`."""
    usage: Usage = field(default_factory=lambda: Usage(input_tokens=100, output_tokens=20, calls=1))
    cost_usd: float = 0.001


Script = Callable[[ModelRequest], Says | ModelFailure]
"""What to say to a request, whatever order requests come in."""


class TwinModel:
    """Plays turns in order, the last one again when the script is over; or answers as the script says."""

    def __init__(self, turns: Sequence[Says | ModelFailure] | Script, *, usd_per_token: float | None = 1e-6) -> None:
        self._turns = turns if callable(turns) else list(turns)
        self._usd = usd_per_token
        self.requests: list[ModelRequest] = []
        self.by_role: dict[str, list[Says | ModelFailure]] = {}
        """Replies to side questions by role, in order; a role without any takes turns of the script."""
        self.while_asked: Callable[[ModelRequest], Awaitable[None]] | None = None
        """What happens elsewhere before the reply comes."""

    def _turn(self, request: ModelRequest) -> Says | ModelFailure:
        mine = self.by_role.get(request.role)
        script = mine or self._turns
        if callable(script):
            return script(request)
        asked = [one for one in self.requests if (one.role == request.role if mine else one.role not in self.by_role)]
        return script[min(len(asked), len(script) - 1)]

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """The next turn of the script."""
        turn = self._turn(request)
        self.requests.append(request)
        if self.while_asked is not None:
            await self.while_asked(request)
        if isinstance(turn, ModelFailure):
            raise turn
        content: list[dict[str, Any]] = []
        content += [{"type": "thinking", "thinking": turn.thinking, "signature": "s"}] if turn.thinking else []
        content += [{"type": "text", "text": turn.text}] if turn.text else []
        content += [
            {
                "type": "tool_use",
                "id": f"toolu_{len(self.requests):03d}_{place}",
                "name": tool,
                "input": dict(arguments),
            }
            for place, (tool, arguments) in enumerate(turn.calls)
        ]
        reason = turn.stop_reason or ("tool_use" if turn.calls else "end_turn")
        return ModelReply(content, reason, turn.usage, turn.cost_usd, request.model, f"req-{len(self.requests)}")

    def price(self, model: str, usage: Usage) -> float | None:
        """The same for every token; `None` when it was made without a price."""
        return None if self._usd is None else usage.total * self._usd


class TwinPeople:
    """A workspace's people; unknown ones are strangers, and it can be told to fail."""

    def __init__(self, team: str, members: Sequence[str], groups: Mapping[str, Sequence[str]] | None = None) -> None:
        self._people = {user: Person(user, team, is_member=True, name=user) for user in members}
        self._groups = dict(groups or {})
        self.away = False

    def put(self, person: Person) -> None:
        """Add or change somebody."""
        self._people[person.user] = person

    async def lookup(self, user: str) -> Person:
        """Raises `OutsideFailed` while `away`."""
        if self.away:
            raise OutsideFailed("Slack did not say who that is", retryable=True)
        return self._people.get(user, Person(user, "T0ELSEWHERE", is_member=False, is_external=True))

    async def approvers(self, rule: ApproverRule) -> frozenset[str]:
        """Members only."""
        named = set(rule.people).union(*(self._groups.get(group, ()) for group in rule.groups))
        return frozenset([user for user in named if (await self.lookup(user)).is_member])


@dataclass
class Shown:
    """A message as people see it."""

    ts: str
    thread: ThreadId
    piece: Piece
    versions: int = 1


class TwinSurface:
    """Keeps messages by ts; `losing` replies makes a post happen and its reply vanish."""

    renderer = "twin/1"

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self.whispers: list[Piece] = []
        self.statuses: list[str] = []
        self.losing = 0
        self.failing = 0
        self.earlier: list[dict[str, Any]] = []

    def render(self, thread: ThreadId, effect: Effect, posted: Mapping[str, str]) -> list[Piece]:
        """One piece an effect, its body the effect's own JSON."""
        how = {"whisper": "whisper", "status": "status"}.get(effect.kind, "post")
        channel = getattr(effect, "channel", "")
        return [Piece(effect.key, how, effect.model_dump(mode="json"), channel)]  # type: ignore[arg-type]  # a known word

    async def post(self, thread: ThreadId, piece: Piece) -> str:
        """A new message, unless told to fail."""
        if self.failing:
            self.failing -= 1
            raise OutsideFailed("Slack is away", retryable=True)
        if piece.how != "post":
            (self.whispers if piece.how == "whisper" else []).append(piece)
            if piece.how == "status":
                self.statuses.append(str(piece.body["status"]))
            return ""
        ts = f"9{len(self.shown):09d}.000100"
        self.shown.append(Shown(ts, thread, piece))
        if self.losing:
            self.losing -= 1
            raise OutsideFailed("the reply of Slack was lost", retryable=True)
        return ts

    async def update(self, thread: ThreadId, ts: str, piece: Piece) -> None:
        """Replace what that message shows."""
        for one in self.shown:
            if one.ts == ts:
                one.piece, one.versions = piece, one.versions + 1
                return
        raise OutsideFailed("message_not_found")

    async def find(self, thread: ThreadId, piece: Piece) -> str | None:
        """By key within the thread."""
        found = [one.ts for one in self.shown if one.thread == thread and one.piece.key == piece.key]
        return found[0] if found else None

    async def history(self, thread: ThreadId, before_ts: str) -> tuple[list[dict[str, Any]], int]:
        """What the test put into `earlier`."""
        return list(self.earlier), 0

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Bodies of the messages of that kind, as they stand now."""
        return [dict(one.piece.body) for one in self.shown if one.piece.body["kind"] == kind]


class Untraced:
    """A span that keeps nothing."""

    def set(self, **attributes: Any) -> None:
        """Forgotten."""

    def failed(self, error_type: str) -> None:
        """Forgotten."""


class Silent:
    """The Tracer port that keeps notes for a test to read."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[BaseException] = []

    def lease(self, session: Session) -> AbstractContextManager[None]:
        """Nothing is traced."""
        return nullcontext()

    def span(self, name: str, **attributes: Any) -> AbstractContextManager[Span]:
        """Nothing is traced."""
        return nullcontext(Untraced())

    def seen(self, steps: Sequence[Step]) -> None:
        """Nothing is counted."""

    def note(self, event: str, **fields: Any) -> None:
        """Kept."""
        self.notes.append((event, fields))

    def fault(self, event: str, error: BaseException, **fields: Any) -> None:
        """Kept; a test's guard fails on any."""
        self.faults.append(error)
        self.notes.append((event, {"error": error, **fields}))
