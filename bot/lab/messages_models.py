"""What the service knows of its models, and how the stand-in counts tokens: always the same for the same text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Known:
    """One model (model.md section 2.4)."""

    max_output: int = 128_000
    context_tokens: int = 1_000_000
    least_cached_tokens: int = 512
    """A shorter prefix is not cached, and nothing says so."""
    thinking: frozenset[str] = frozenset({"adaptive"})
    """Values of `thinking.type` that are accepted."""
    steerable: bool = False
    """Takes a prefilled answer and a forced `tool_choice`."""
    display: str = "omitted"
    """How thinking is shown unless the request says otherwise."""


_OLDER = Known(
    thinking=frozenset({"adaptive", "enabled", "disabled", "between_tools"}), steerable=True, display="summarized"
)
MODELS = {
    "claude-sonnet-5-5": Known(thinking=frozenset({"adaptive", "between_tools"})),
    "claude-haiku-5-5": Known(),
    "claude-opus-5-5": Known(),
    "claude-fable-5-2": Known(steerable=True, display="summarized"),
    "claude-opus-5": _OLDER,
    "claude-sonnet-5": _OLDER,
}


def tokens_of_bytes(size: int) -> int:
    """A token for each four bytes, rounded up."""
    return -(-size // 4)


def tokens_of_text(text: str) -> int:
    """What that text costs as output."""
    return tokens_of_bytes(len(text.encode("utf-8", "surrogatepass")))


_PLAIN = json.JSONEncoder(ensure_ascii=False)


def json_of(value: Any) -> bytes:
    """As the prompt cache and the counters see a value: keys in the order given, nothing escaped that need not be."""
    return _PLAIN.encode(value).encode("utf-8", "surrogatepass")


def tokens_of(value: Any) -> int:
    """What that value costs as input."""
    return tokens_of_bytes(len(json_of(value)))
