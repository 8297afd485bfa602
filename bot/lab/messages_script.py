"""What a scripted model says: turns, brains that choose them, and faults of the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.lab.messages_blocks import blocks_of


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    raw: str | None = None
    """Arguments as sent, when they are not what JSON would make of `arguments`."""


@dataclass(frozen=True)
class Turn:
    """One reply."""

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""
    stop_reason: str = ""
    """Empty: `tool_use` with calls, else `end_turn`."""
    latency_s: float = 0.0
    """Before the first byte."""
    redacted_thinking: str = ""
    """Not empty: a block that nobody can read, which costs what this text costs."""
    frame_latency_s: float = 0.0
    """Between frames."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Figures of the usage that are told instead of the true ones."""
    stop_details: Mapping[str, Any] = field(default_factory=dict)
    """Of a refusal: `category`, `explanation`."""


@dataclass(frozen=True)
class Status:
    """An error answer instead of a reply."""

    status: int
    kind: str = "api_error"
    message: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict)
    error_code: str = ""
    body: str | None = None
    """Sent instead of the service's own JSON: what a proxy in between would say."""


@dataclass(frozen=True)
class Broken:
    """The reply's stream is damaged."""

    turn: Turn
    after_frames: int
    """Frames that still arrive whole; the next one is where the fault acts."""
    how: str = "cut"
    """The fault's name in `messages_faults.FAULTS`."""


Reply = Turn | Status | Broken


class Brain(Protocol):
    """Chooses the reply to a request."""

    def reply(self, request: dict[str, Any]) -> Reply:
        """`request` is the body, already checked."""
        ...


class InOrder:
    """Replies in order; the last one again when they are over."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self.asked = 0

    def reply(self, request: dict[str, Any]) -> Reply:
        """The next one."""
        found = self._replies[min(self.asked, len(self._replies) - 1)]
        self.asked += 1
        return found


class ByWord:
    """The first rule whose word stands in the conversation's first question; each keeps its own place."""

    def __init__(self, scripts: Mapping[str, Sequence[Reply]]) -> None:
        self._scripts = {word: InOrder(replies) for word, replies in scripts.items()}

    def reply(self, request: dict[str, Any]) -> Reply:
        """Raises `KeyError` when no word fits: a script must be whole."""
        text = json.dumps(request["messages"][0], ensure_ascii=False)
        for word, script in self._scripts.items():
            if word in text:
                return script.reply(request)
        raise KeyError(f"no script for {text[:200]}")


class ByRole:
    """A brain for each role that the model plays: agent, router, critique, summary."""

    def __init__(
        self, agent: Brain, *, toolless: Brain | None = None, by_system: Mapping[str, Brain] | None = None
    ) -> None:
        """`by_system`: words of a system prompt -> who answers; then `toolless` where no tools are offered."""
        self._agent = agent
        self._toolless = toolless
        self._by_system = dict(by_system or {})

    def reply(self, request: dict[str, Any]) -> Reply:
        """By the first words that stand in the system prompt, by the lack of tools, else the agent's."""
        system = request.get("system") or ""
        text = system if isinstance(system, str) else "\n".join(str(block["text"]) for block in system)
        for words, brain in self._by_system.items():
            if words in text:
                return brain.reply(request)
        return (self._agent if request.get("tools") or self._toolless is None else self._toolless).reply(request)


@dataclass(frozen=True)
class Seen:
    """What a brain needs of a request: the newest question, and what tools have said since."""

    question: str
    results: Mapping[str, Any]
    """Tool name -> newest result since the question, parsed where it is JSON."""
    calls: tuple[str, ...]
    """Tools called since the question, in order."""
    tools: frozenset[str]


def seen(request: dict[str, Any], begins: Callable[[str], object] = bool) -> Seen:
    """Read a request as the story's brain does.

    Words of a person while the model is at work are a new question only when `begins` says so of them.
    """
    question, results, calls, names = "", dict[str, Any](), list[str](), dict[str, str]()
    at_work = True
    for message in request["messages"]:
        blocks = blocks_of(message)
        if message["role"] == "assistant":
            at_work = any(block["type"] == "tool_use" for block in blocks)
        for block in blocks:
            kind = block.get("type")
            if kind == "text" and message["role"] == "user":
                if begins(block["text"]) or not (question and at_work):
                    question, results, calls = str(block["text"]), {}, []
            elif kind == "tool_use":
                calls.append(str(block["name"]))
                names[str(block["id"])] = str(block["name"])
            elif kind == "tool_result":
                results[names.get(str(block["tool_use_id"]), "?")] = _parsed(block.get("content"))
    offered = frozenset(str(tool["name"]) for tool in request.get("tools") or [])
    return Seen(question, results, tuple(calls), offered)


def _parsed(content: Any) -> Any:
    if isinstance(content, list):
        content = "".join(str(block.get("text", "")) for block in content)
    try:
        return json.loads(content)
    except (TypeError, ValueError):
        return content
