"""Whether a run kept its bounds: the raw log and the service's own books, never the code under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bot.core.chain import Entry, verify
from tests.properties.scripts import KINDS
from tests.properties.sea import Sea
from tests.properties.service import NOTHING, Asked

TABLE = {  # DESIGN section 5
    "answered": {"end_turn"},
    "partial": {"turn_cap", "token_budget", "cost_budget", "deadline", "context_window", "max_tokens"},
    "escalated": {"no_progress", "repetition", "approval_denied", "approval_expired", "hand_over"},
    "refused": {"refusal"},
    "cancelled": {"cancelled"},
    "failed": {"model_error", "internal_error"},
}
FAILURES = {"lost", "away", "too_long", "final", "deadline"}
LOOKS = 0.01
"""Seconds that the twin's clock may move by being looked at between a check and what it allows."""


@dataclass
class Voyage:
    """One run as the log tells it, with what the service and the tools say of the same time."""

    entries: list[Entry]
    asked: list[Asked]
    finished: list[dict[str, Any]] = field(default_factory=list)

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """Payloads of its events of those types."""
        return [dict(one.payload or {}) for one in self.entries if one.type in kinds]


def voyages(sea: Sea) -> list[Voyage]:
    """The runs of a thread, in order."""
    found: list[Voyage] = []
    for entry in sea.log:
        if entry.type == "RunStarted":
            number = len(found) + 1
            found.append(Voyage([], [one for one in sea.service.asked if one.run == number]))
        if entry.run:
            found[-1].entries.append(entry)
    for one in found:
        one.finished = one.of("RunFinished")
    return found


def check(sea: Sea) -> None:
    """Everything that must hold of any run, however it went."""
    assert sea.world.tracer.faults == [], "no fault of ours"
    assert verify(sea.world.thread, [entry.dump() for entry in sea.log]).whole, "the chain holds"
    runs = voyages(sea)
    _ends(sea, runs)
    last: dict[tuple[str, int, int, int], list[str]] = {}
    for run in runs:
        _budgets(sea, run)
        _prefixes(run, last)
        _turns(sea, run)
        _time(sea, run)
        _books(run)
        _causes(sea, run)
    _calls(sea)


def _ends(sea: Sea, runs: list[Voyage]) -> None:
    for run in runs:
        assert len(run.finished) == 1, "one ending a run"
        assert run.finished[0]["stop_reason"] in TABLE[run.finished[0]["outcome"]], "a pair of the table"
        received = [one["ts"] for one in run.of("MessageReceived")]
        assert "repair" not in [one["why"] for one in run.of("Compacted")], "no transcript has to be repaired"
        assert run.finished[0]["messages"] == received, "every accepted message is named in its run's ending"
    assert len(sea.world.answers) == len(runs), "one visible ending a run"
    assert [one["text"] for one in sea.world.answers] == [run.finished[0]["text"] for run in runs]


def _budgets(sea: Sea, run: Voyage) -> None:
    caps = sea.policy.caps
    tokens, usd = sum(one.charged.total for one in run.asked), sum(one.usd for one in run.asked)
    assert tokens <= caps.tokens, f"{tokens} tokens of {caps.tokens} were charged"
    assert usd <= caps.usd + 1e-9, f"{usd} dollars of {caps.usd} were charged"
    reserved = run.of("ModelRequested")
    assert len(reserved) == len(run.asked), "each attempt is written down before it is made"
    spent, paid = 0, 0.0
    for one, told in zip(run.asked, reserved, strict=True):
        assert one.charged.total <= told["reserved_tokens"], "no attempt costs more than was reserved for it"
        assert one.usd <= told["reserved_usd"] + 1e-9
        assert spent + told["reserved_tokens"] <= caps.tokens, "its worst case fits beside all that was charged"
        assert paid + told["reserved_usd"] <= caps.usd + 1e-9
        spent, paid = spent + one.charged.total, paid + one.usd
    seen = 0
    for entry in run.entries:
        payload: dict[str, Any] = dict(entry.payload or {})
        seen += entry.type == "ModelRequested"
        if entry.type != "GateDecided" or payload["verdict"] != "allowed" or "approved by" in payload["reason"]:
            continue
        spent = sum(one.charged.total for one in run.asked[:seen])
        paid = sum(one.usd for one in run.asked[:seen])
        assert spent < 0.8 * caps.tokens and paid < 0.8 * caps.usd, "past the soft limit no call is made"


def _turns(sea: Sea, run: Voyage) -> None:
    replies = [one for one in run.of("ModelReplied") if one["role"] == "agent"]
    numbers = {one["turn"] for one in run.of("ModelRequested") if one["role"] == "agent"}
    assert len(replies) <= sea.policy.caps.turns and len(numbers) <= sea.policy.caps.turns


def _books(run: Voyage) -> None:
    told, end = NOTHING, run.finished[0]
    for one in run.asked:
        told = told.plus(one.told)
    assert end["usage"] == told.model_dump(), "the ending names what every call is known to have used"
    assert abs(end["cost_usd"] - sum(one.told_usd for one in run.asked)) < 1e-9


def clock_of(run: Voyage) -> Iterator[tuple[datetime, float, bool]]:
    """After each entry: when, how long the run had been active, whether it waits for a person."""
    active, last, waits = 0.0, datetime.fromisoformat(run.entries[0].at), False
    open_asks, stages = dict[str, str](), dict[str, int]()
    for entry in run.entries:
        payload: dict[str, Any] = dict(entry.payload or {})
        at = datetime.fromisoformat(entry.at)
        active, last = active + (0.0 if waits else (at - last).total_seconds()), at
        match entry.type:
            case "ToolRequested":
                stages[payload["call_id"]] = payload["stage"]
            case "ToolReturned":
                stages.pop(payload["call_id"])
            case "ApprovalRequested":
                open_asks[payload["approval_id"]] = payload["call_id"]
            case "ApprovalDecided" | "ApprovalVoided":
                open_asks.pop(payload["approval_id"], None)
            case _:
                pass
        now = [call for call, stage in stages.items() if stage == min(stages.values())]
        waits = any(call in now for call in open_asks.values())
        yield at, active, waits


def _time(sea: Sea, run: Voyage) -> None:
    started = dict(run.entries[0].payload or {})
    budget = (datetime.fromisoformat(started["deadline"]) - datetime.fromisoformat(run.entries[0].at)).total_seconds()
    assert abs(budget - sea.policy.caps.deadline_s) < LOOKS
    mine = {one["call_id"] for one in run.of("ToolStarted")}
    begun = [one.at for one in run.asked] + [at for call, _, at in sea.done if call in mine]
    ticks = list(clock_of(run))
    for start in begun:
        at, active, waits = [tick for tick in ticks if tick[0] <= start][-1]
        assert not waits, "nothing begins while a person decides"
        late = active + (start - at).total_seconds() - budget
        assert late < LOOKS, f"something expensive began {late} s after the deadline"
    ended = datetime.fromisoformat(run.entries[-1].at)
    for said in (one for one in sea.stops if ticks[0][0] < one < ended):
        assert all(start < said + timedelta(seconds=2) for start in begun), "2 s after a stop nothing begins any more"
    stops = [datetime.fromisoformat(one.at) for one in run.entries if one.type == "Cancelled"]
    assert not stops or all(start <= stops[0] for start in begun), "nothing begins after a stop"


def _calls(sea: Sea) -> None:
    tool_of, allowed, results = dict[str, str](), set[str](), Counter[str]()
    for entry in sea.log:
        payload: dict[str, Any] = dict(entry.payload or {})
        match entry.type:
            case "ToolRequested":
                tool_of[payload["call_id"]] = payload["tool"]
            case "GateDecided" if payload["verdict"] == "allowed":
                allowed.add(payload["call_id"])
            case "ToolStarted":
                assert payload["call_id"] in allowed, "nothing starts that the gate has not allowed"
            case "ToolReturned":
                results[payload["call_id"]] += 1
            case _:
                pass
    assert results == Counter(dict.fromkeys(tool_of, 1)), "every call has exactly one result"
    ran = [call for call, _, _ in sea.done]
    assert len(ran) == len(set(ran)) and set(ran) <= allowed
    assert all(tool_of[call] == name and name in KINDS for call, name, _ in sea.done)


def _prefixes(run: Voyage, last: dict[tuple[str, int, int, int], list[str]]) -> None:
    """Of the conversation itself over all runs, of each investigation within its run."""
    for one, told in zip(run.asked, run.of("ModelRequested"), strict=True):
        if one.role == "agent":
            number = told.get("branch", 0)
            conversation = (one.model, one.epoch, number, one.run if number else 0)
            before = last.get(conversation, [])
            assert one.blocks[: len(before)] == before, "a request begins with the one before it"
            last[conversation] = one.blocks


def _causes(sea: Sea, run: Voyage) -> None:
    """The liveness twin: no run ends by a bound that it did not meet."""
    end, caps = run.finished[0], sea.policy.caps
    met = {one.ended for one in run.asked}
    agent = [one for one in run.asked if one.role == "agent"]
    match end["stop_reason"]:
        case "turn_cap":
            assert sum(one["role"] == "agent" for one in run.of("ModelRequested")) >= caps.turns
        case "token_budget" | "cost_budget" as which:
            assert _could_pass(sea, run, which)
        case "deadline":
            active = list(clock_of(run))[-1][1]
            assert "deadline" in met or "lost" in met or active > caps.deadline_s - LOOKS
        case "max_tokens":
            assert "max_tokens" in met
        case "context_window":
            assert met & {"model_context_window_exceeded", "too_long"}
        case "refusal":
            assert agent[-1].ended == "refusal"
        case "cancelled":
            assert sea.stopped
        case "end_turn":
            assert met & {"end_turn", "stop_sequence"} and end["text"].strip()
        case "internal_error":
            raise AssertionError("no run ends by a fault of ours")
        case _:
            pass


def _could_pass(sea: Sea, run: Voyage, which: str) -> bool:
    """Whether another call could have gone over: what was reserved so far, and a request twice the largest one."""
    size = 2 * max((one.size for one in sea.service.asked), default=8_000) + 4_000
    lost = [one for one in run.asked if one.ended in FAILURES]
    if which == "token_budget":
        worst = sum(one.charged.total for one in run.asked) + sum(one.size + 64 + one.most for one in lost)
        return worst + size + 256 > sea.policy.caps.tokens
    per_in, per_out = 2 * 5e-6, 25e-6
    paid = sum(one.usd for one in run.asked) + sum(per_in * (one.size + 64) + per_out * one.most for one in lost)
    return paid + per_in * size + 256 * per_out > sea.policy.caps.usd
