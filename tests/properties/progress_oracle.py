"""The rules of progress and repetition (DESIGN section 5) once more, in their own words, over the raw log.

It decides for itself what a fact is, which world a call was made in, and how often it was offered there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.core.chain import Entry
from tests.properties.scripts import KINDS

WRITES = {"local_write", "send", "critical"}
NO_FACTS = {"handle", "call_id", "request_id", "reference", "at", "now"}


def facts(where: str, value: Any) -> Iterator[str]:
    """`path=value` of structured results, normalised lines of text; no handle, no timestamp, nothing empty."""
    if isinstance(value, dict):
        for key in value.keys() - NO_FACTS:
            yield from facts(f"{where}.{key}", value[key])
    elif isinstance(value, list):
        for item in value:
            yield from facts(f"{where}[]", item)
    elif isinstance(value, str):
        lines = (line.split() for line in value.splitlines())
        yield from (f"{where}={' '.join(words).casefold()}" for words in lines if words and not _moment(words))
    elif value is not None:
        yield f"{where}={value!r}"


def _moment(words: list[str]) -> bool:
    try:
        return bool(datetime.fromisoformat(" ".join(words))) and len(" ".join(words)) > len("2026-12-01")
    except ValueError:
        return False


def same_call(tool: str, arguments: Mapping[str, Any], branch: int) -> Any:
    """Equal for equal calls: the order of keys is nothing, the type of a value is something."""

    def frozen(value: Any) -> Any:
        if isinstance(value, dict):
            return frozenset((key, frozen(item)) for key, item in value.items())
        return tuple(map(frozen, value)) if isinstance(value, list) else (type(value).__name__, value)

    return tool, branch, frozen(dict(arguments))


@dataclass
class Offer:
    """How often a call was asked for in one world."""

    world: tuple[str, int]
    times: int = 0
    forgiven: int = 0
    """Repeats that did not count, of at most one, after an error that said to try again."""
    pardon: bool = False


@dataclass
class Count:
    """One run so far."""

    kinds: Mapping[str, tuple[str, str, bool]] = field(default_factory=lambda: KINDS)
    known: set[str] = field(default_factory=set)
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    offers: dict[Any, Offer] = field(default_factory=dict)
    repeats: set[str] = field(default_factory=set)
    """Calls that had been made in the same world before."""
    judged: set[str] = field(default_factory=set)
    changes: int = 0
    words: int = 0
    folds: int = 0
    fruitful: bool = False
    barren: int = 0
    most: int = 0

    def key(self, call_id: str) -> Any:
        """What is the same of the same call."""
        call = self.calls[call_id]
        return same_call(call["tool"], call["arguments"], call.get("branch", 0))

    def writes(self, call_id: str) -> bool:
        """Whether it changes something; an unknown tool is taken to."""
        return self.kinds.get(self.calls[call_id]["tool"], ("critical",))[0] in WRITES

    def offered(self, call_id: str) -> None:
        """The gate looks at it for the first time."""
        world = ("words", self.words) if self.writes(call_id) else ("all", self.words + self.changes + self.folds)
        offer = self.offers.get(self.key(call_id))
        if offer is None or offer.world != world:
            offer = self.offers[self.key(call_id)] = Offer(world)
        if offer.pardon and not offer.forgiven:
            offer.forgiven += 1
        else:
            offer.times += 1
        offer.pardon = False
        if offer.times > 1:
            self.repeats.add(call_id)
        self.most = max(self.most, offer.times)

    def returned(self, payload: dict[str, Any]) -> None:
        """A result: what it adds, what it changes, whether its turn is over."""
        call_id, content = payload["call_id"], payload["content"]
        found = set(facts(self.calls[call_id]["tool"], content)) - self.known if payload["ok"] else set()
        assert payload["facts_added"] == len(found), f"{payload['facts_added']} facts, not {sorted(found)}"
        self.known |= found
        changed = payload["ok"] and payload["ran"] and self.writes(call_id)
        told = content.get("refused") if isinstance(content, dict) and not payload["ran"] else ""
        self.changes += payload["ran"] and self.writes(call_id)
        self.fruitful |= bool(found) or changed or told == "conclude now"
        if payload["retryable"] and (offer := self.offers.get(self.key(call_id))):
            offer.pardon = True
        if told == "repetition":
            assert call_id in self.repeats, "only a repeat is refused as one"
        if call_id in self.repeats:
            assert not payload["ran"], "a repeat in the same world does not run"
        self.open.discard(call_id)
        if not self.open:
            self.barren, self.fruitful = 0 if self.fruitful else self.barren + 1, False


def check(log: Iterable[Entry], barren_turns: int, kinds: Mapping[str, tuple[str, str, bool]] = KINDS) -> int:
    """Walk the log; returns how many repeats there were."""
    now, repeats = Count(kinds), 0
    for entry in log:
        payload: dict[str, Any] = dict(entry.payload or {})
        match entry.type:
            case "RunStarted":
                now, repeats = Count(kinds), repeats + len(now.repeats)
            case "MessageReceived":
                now.words, now.barren = now.words + 1, 0
            case "Compacted":
                now.folds += 1
            case "ModelRequested" if payload["role"] == "agent":
                assert now.barren < barren_turns, "no question after so many barren turns"
                assert now.most < 3, "no question after a third offer"
            case "ToolRequested":
                now.calls[payload["call_id"]] = payload
                now.open.add(payload["call_id"])
            case "GateDecided":
                call_id = payload["call_id"]
                if call_id not in now.judged and not now.calls[call_id]["invalid"]:
                    now.offered(call_id)
                now.judged.add(call_id)
            case "ToolReturned":
                now.returned(payload)
            case "RunFinished":
                assert payload["stop_reason"] != "no_progress" or now.barren >= barren_turns
                assert payload["stop_reason"] != "repetition" or now.most >= 3
            case _:
                pass
    return repeats + len(now.repeats)
