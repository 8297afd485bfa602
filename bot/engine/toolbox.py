"""The tools of this installation, as the policy leaves them, and what becomes of their results.

1. The policy may raise a tool's authority, never lower it.
2. A result is never more trusted than its tool was declared; what it says of itself counts for nothing.
3. Results are capped with head and tail and a mark of what was cut; nothing is ever empty.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from bot.core.authority import Authority
from bot.core.canon import clean
from bot.core.errors import Misconfigured
from bot.core.policy import Policy, ToolPolicy
from bot.core.tool import SealedText, Tool, ToolContext, ToolError, ToolResult, ToolSpec
from bot.engine.ports import Clock, Tracer


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
        """Raises `Misconfigured` for a name that stands twice, or a policy that does not fit the tools."""
        self._resources = resources
        self._tracer = tracer
        self._clock = clock
        self._policy = policy
        self._tools: dict[str, Tool] = {}
        for one in tools:
            if one.name in self._tools:
                raise Misconfigured(f"two tools are called {one.name!r}; rename one or drop its module from [tools]")
            self._tools[one.name] = _under_policy(one, policy.tools.policy.get(one.name))
        if unknown := set(policy.tools.policy) - set(self._tools):
            raise Misconfigured(
                f"[tools.policy.{min(unknown)}] names no tool; there are: {', '.join(sorted(self._tools))}"
            )
        for channel, table in policy.channels.items():
            if missing := set(table.tools) - {"*"} - set(self._tools):
                raise Misconfigured(f"[channels.{channel}] tools names no tool: {min(missing)!r}")

    @property
    def resources(self) -> Mapping[str, Any]:
        """Lent to every call."""
        return self._resources

    def get(self, name: str) -> Tool | None:
        """By exact name."""
        return self._tools.get(name)

    def specs(self, channel: str) -> tuple[ToolSpec, ...]:
        """Offered in that channel, sorted by name."""
        allowed = self._policy.channel(channel).tools
        names = sorted(name for name in self._tools if "*" in allowed or name in allowed)
        return tuple(self._tools[name].spec for name in names)

    async def run(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """A tool's failure is a result with `ok=False`; only cancellation passes through."""
        spec = tool.spec
        left = (context.deadline - self._clock.now()).total_seconds()
        try:
            async with asyncio.timeout(max(0.0, min(spec.timeout_s, left))):
                value = await tool.run(tool.parse(arguments), context)
        except ToolError as error:
            return _failed(spec, str(error) or "The tool failed without a word.", error.retryable)
        except TimeoutError:
            return _failed(spec, f"{spec.name} did not answer in time. It may still have had its effect.", False)
        except Exception as fault:  # noqa: BLE001  whatever a tool raises, the run goes on and people learn of it
            reference = f"tool-{secrets.token_hex(6)}"
            self._tracer.note("tool.failed", tool=spec.name, reference=reference, error=repr(fault))
            return _failed(
                spec,
                f"{spec.name} failed on our side (reference {reference}). Try another way or conclude.",
                False,
            )
        return ToolResult(True, _content(value, spec.max_output_bytes), spec.output, spec.readers)


def _failed(spec: ToolSpec, text: str, retryable: bool) -> ToolResult:
    return ToolResult(False, _capped(clean(text), spec.max_output_bytes), spec.output, spec.readers, retryable)


def _under_policy(one: Tool, said: ToolPolicy | None) -> Tool:
    if said is None:
        return one
    changes: dict[str, Any] = {"always_ask": said.approve == "always"}
    if said.authority is not None:
        wanted = Authority.parse(said.authority)
        if wanted < one.spec.authority:
            raise Misconfigured(
                f"[tools.policy.{one.name}] authority = {said.authority!r} is below what the tool declares "
                f"({one.spec.authority.word}); a policy may raise it, never lower it"
            )
        changes["authority"] = wanted
        changes["parallel_safe"] = one.spec.parallel_safe and wanted <= Authority.EGRESS
    return one.restricted(**changes)


def _content(value: Any, limit: int) -> Any:
    if isinstance(value, SealedText):
        value = {"source": value.source, **value.fields, "text": value.text}
    found = clean(value)
    if found in (None, "", [], {}):
        return "(nothing: the tool ran and returned nothing)"
    if isinstance(found, str):
        return _capped(found.replace("\x00", ""), limit)
    text = json.dumps(found, ensure_ascii=False)
    return found if len(text.encode()) <= limit else _capped(text, limit)


def _capped(text: str, limit: int) -> str:
    """Head and tail within `limit` bytes, and how much is missing between them."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    head, tail = raw[: limit * 2 // 3], raw[-(limit // 4) :]
    cut = len(raw) - len(head) - len(tail)
    mark = f"\n[… {cut} of {len(raw)} bytes left out here; ask for a narrower part to see them …]\n"
    return head.decode("utf-8", "ignore") + mark + tail.decode("utf-8", "ignore")
