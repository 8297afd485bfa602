"""Our nouns as OpenTelemetry's GenAI conventions spell them; what they have no name for is `plimsoll.NOUN`.

No text that somebody wrote is ever given to a span: traces leave the house.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.core.events import Usage

AGENT, PROVIDER = "plimsoll", "anthropic"
ERROR = "error.type"
NAMES = {
    "thread": "gen_ai.conversation.id",
    "model": "gen_ai.request.model",
    "answered_by": "gen_ai.response.model",
    "response": "gen_ai.response.id",
    "finish_reasons": "gen_ai.response.finish_reasons",
    "tool": "gen_ai.tool.name",
    "call": "gen_ai.tool.call.id",
    "run": "plimsoll.run.id",
    "seq": "plimsoll.log.seq",
}
OPERATIONS = ("invoke_agent", "chat", "execute_tool")
"""First words of span names that the conventions know; `turn` is ours."""

Value = str | bool | int | float | list[str]


def operation(name: str) -> dict[str, Value]:
    """What follows from a span's name alone."""
    first = name.partition(" ")[0]
    if first not in OPERATIONS:
        return {}
    found: dict[str, Value] = {"gen_ai.operation.name": first}
    if first != "execute_tool":
        found["gen_ai.provider.name"] = PROVIDER
    if first == "invoke_agent":
        found["gen_ai.agent.name"] = AGENT
    return found


def named(nouns: Mapping[str, Any]) -> dict[str, Value]:
    """Attributes with their real types; `None` is left out."""
    return dict(_attributes(nouns))


def _attributes(nouns: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for noun, value in nouns.items():
        name = NAMES.get(noun, f"plimsoll.{noun}")
        match value:
            case None:
                continue
            case Usage():
                yield from _tokens(value)
            case str() | bool() | int() | float():
                yield name, value
            case list() | tuple():
                yield name, [str(one) for one in value]
            case _:
                yield name, str(value)


def _tokens(usage: Usage) -> Iterator[tuple[str, Value]]:
    """The conventions count cached input as input; our log keeps the three apart."""
    yield "gen_ai.usage.input_tokens", usage.total - usage.output_tokens
    yield "gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens
    yield "gen_ai.usage.cache_write.input_tokens", usage.cache_write_tokens
    yield "gen_ai.usage.output_tokens", usage.output_tokens
