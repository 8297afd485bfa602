"""The tools of this installation, as the policy leaves them, and what becomes of their results.

1. The policy may raise a tool's authority, never lower it.
2. A result is never more trusted than its tool was declared, and what a tool seals is a stranger's; whatever
   else a result says of itself counts for nothing.
3. Results are capped with head and tail and a mark of what was cut; nothing is ever empty.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.core.authority import Authority
from bot.core.canon import clean, without_hidden
from bot.core.errors import Misconfigured
from bot.core.labels import Trust
from bot.core.policy import Policy, ToolPolicy
from bot.core.tool import SealedText, Tool, ToolContext, ToolError, ToolResult, ToolSpec
from bot.engine.own_tools import OWN_TOOLS
from bot.engine.ports import Clock, Tracer

NOTHING = "(nothing: the tool ran and returned nothing)"
"""An empty result would be refused by the Messages API, and tells a model less."""


class LocalToolbox:
    """The Toolbox port for tools that run in this process."""

    def __init__(
        self,
        tools: Sequence[Tool],
        policy: Policy,
        resources: Mapping[str, Any],
        tracer: Tracer,
        clock: Clock,
    ) -> None:
        """Raises `Misconfigured` with every name that stands twice and every setting that does not fit the tools."""
        self._resources = resources
        self._tracer = tracer
        self._clock = clock
        self._policy = policy
        self._tools: dict[str, Tool] = {}
        faults: list[str] = []
        for one in (*tools, *OWN_TOOLS):
            if one.name in self._tools:
                faults.append(f"two tools are called {one.name!r}; rename one or drop its module from [tools]")
            self._tools[one.name] = one
        faults += _unfit(self._tools, policy)
        if faults:
            raise Misconfigured("\n".join(faults))
        self._tools = {name: _under_policy(one, policy.tools.policy.get(name)) for name, one in self._tools.items()}
        self._offered: dict[str, tuple[ToolSpec, ...]] = {}
        self._sizes: dict[str, int] = {}

    @property
    def resources(self) -> Mapping[str, Any]:
        """Lent to every call."""
        return self._resources

    def get(self, name: str) -> Tool | None:
        """By exact name."""
        return self._tools.get(name)

    def specs(self, channel: str) -> tuple[ToolSpec, ...]:
        """Offered in that channel, sorted by name."""
        # Asked for with each request, and the same for as long as this process lives.
        if channel not in self._offered:
            allowed = self._policy.channel(channel).tools
            names = sorted(name for name in self._tools if "*" in allowed or name in allowed)
            self._offered[channel] = tuple(self._tools[name].spec for name in names)
        return self._offered[channel]

    def size(self, channel: str) -> int:
        """As the Messages API takes them."""
        if channel not in self._sizes:
            told = [
                {"name": spec.name, "description": spec.description, "input_schema": dict(spec.input_schema)}
                for spec in self.specs(channel)
            ]
            self._sizes[channel] = len(json.dumps(told))
        return self._sizes[channel]

    async def run(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """A tool's failure is a result with `ok=False`; only cancellation passes through."""
        spec = tool.spec
        left = (context.deadline - self._clock.now()).total_seconds()
        if left <= 0:
            # Under a timeout of 0 a tool would still run up to its first await, and that may be its effect.
            return _failed(spec, f"{spec.name} was not run: no time is left. Conclude with what you have.")
        try:
            async with asyncio.timeout(min(spec.timeout_s, left)):
                value = await tool.run(tool.parse(arguments), context)
            return _result(spec, value)
        except ToolError as error:
            return _failed(spec, _told(error), retryable=error.retryable)
        except TimeoutError:
            if spec.authority <= Authority.EGRESS:
                return _failed(spec, f"{spec.name} did not answer in time; nothing was read.", retryable=True)
            return _unsure(spec, f"{spec.name} did not answer in time. It may still have had its effect.")
        except asyncio.CancelledError as fault:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled us: something inside the tool was cancelled, and that is the tool's failure.
            return self._crashed(spec, fault)
        except BaseException as fault:  # noqa: BLE001  whatever a tool raises, the run goes on; signals have handlers
            return self._crashed(spec, fault)

    def _crashed(self, spec: ToolSpec, fault: BaseException) -> ToolResult:
        """What happened is for operators; the model gets a reference that leads them to it."""
        reference = f"tool-{secrets.token_hex(6)}"
        self._tracer.note("tool.failed", tool=spec.name, reference=reference, error=_told(fault))
        said = f"{spec.name} failed on our side (reference {reference}). Try another way or conclude."
        return _failed(spec, said) if spec.authority <= Authority.EGRESS else _unsure(spec, said)


def _unfit(tools: Mapping[str, Tool], policy: Policy) -> list[str]:
    """Everything that the policy says of tools which cannot be."""
    faults: list[str] = []
    there = f"there are: {', '.join(sorted(tools))}"
    for name, said in policy.tools.policy.items():
        if name not in tools:
            faults.append(f"[tools.policy.{name}] names no tool; {there}")
        elif said.authority is not None and Authority.parse(said.authority) < (own := tools[name].spec.authority):
            faults.append(
                f"[tools.policy.{name}] authority = {said.authority!r} is below what the tool declares ({own.word}); "
                "a policy may raise it, never lower it"
            )
    for channel, table in policy.channels.items():
        if missing := sorted(set(table.tools) - {"*"} - set(tools)):
            faults.append(f"[channels.{channel}] tools names no tool: {', '.join(map(repr, missing))}; {there}")
    return faults


def _under_policy(one: Tool, said: ToolPolicy | None) -> Tool:
    if said is None:
        return one
    changes: dict[str, Any] = {"always_ask": one.spec.always_ask or said.approve == "always"}
    if said.authority is not None:
        wanted = Authority.parse(said.authority)
        changes["authority"] = wanted
        changes["parallel_safe"] = one.spec.parallel_safe and wanted <= Authority.EGRESS
    return one.restricted(**changes)


def _failed(spec: ToolSpec, text: str, *, retryable: bool = False) -> ToolResult:
    said = _plain(text) if text.strip() else "The tool failed without a word."
    return ToolResult(False, _capped(said, spec.max_output_bytes), spec.output, spec.readers, retryable)


def _told(fault: BaseException) -> str:
    """In the error's own words, which may be broken too."""
    try:
        return str(fault) if isinstance(fault, ToolError) else repr(fault)
    except Exception:  # noqa: BLE001  the words of a stranger's error class
        return type(fault).__name__


def _unsure(spec: ToolSpec, text: str) -> ToolResult:
    """Begun, and nobody knows how it ended; an idempotent tool has its key to find out."""
    return replace(_failed(spec, text), unknown=not spec.idempotent)


def _result(spec: ToolSpec, value: Any) -> ToolResult:
    if isinstance(value, SealedText):
        # Whatever the tool is declared as: its author says that a stranger wrote this.
        return ToolResult(True, _unsealed(value, spec.max_output_bytes), Trust.UNTRUSTED, spec.readers)
    return ToolResult(True, _content(value, spec.max_output_bytes), spec.output, spec.readers)


def _unsealed(value: SealedText, limit: int) -> Any:
    """The text is cut before the fields are: those are ours, and a plan may rest on them."""
    fields, text = _plain({"source": value.source, **value.fields}), _plain(value.text)
    if not text.strip():
        return _content({**fields, "text": NOTHING}, limit)
    frame = _size({**fields, "text": ""}) + len("\\n\\n")
    # In JSON a text of many lines is longer than it is; `_content` still holds the limit where this is off.
    room = max(0, limit - frame) * len(text.encode()) // _size(text)
    return _content({**fields, "text": _capped(text, room)}, limit)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _content(value: Any, limit: int) -> Any:
    found = _plain(value)
    if found in (None, [], {}) or (isinstance(found, str) and not found.strip()):
        return NOTHING
    if isinstance(found, str):
        return _capped(found, limit)
    return found if _size(found) <= limit else _capped(json.dumps(found, ensure_ascii=False), limit)


def _plain(value: Any) -> Any:
    """`clean`, and nothing in it that a person would not see: what hides from people must not reach the model."""
    return _visible(clean(value))


def _visible(value: Any) -> Any:
    match value:
        case str():
            return without_hidden(value.replace("\x00", "\ufffd").replace("\r\n", "\n"))
        case dict():
            return {_visible(key): _visible(item) for key, item in value.items()}
        case list():
            return [_visible(item) for item in value]
        case _:
            return value


def _capped(text: str, limit: int) -> str:
    """Head and tail within `limit` bytes, and how much is missing between them.

    The mark is never cut: a limit below its own hundred bytes leaves the mark alone.
    """
    raw = text.encode()
    if len(raw) <= limit:
        return text
    room = max(0, limit - len(_mark(len(raw), len(raw)).encode()))
    head = raw[: room * 2 // 3].decode("utf-8", "ignore")
    tail = raw[len(raw) - (room - room * 2 // 3) :].decode("utf-8", "ignore")
    return head + _mark(len(raw) - len(head.encode()) - len(tail.encode()), len(raw)) + tail


def _mark(cut: int, whole: int) -> str:
    return f"\n[… {cut} of {whole} bytes left out here; ask for a narrower part to see them …]\n"
