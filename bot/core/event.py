"""What all events of a log share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1
"""Version of the payloads below; written as `v` into each entry."""

TrustWord = Literal["untrusted", "extracted", "internal", "principal", "system"]
AuthorityWord = Literal["observe", "egress", "local_write", "send", "critical"]
Role = Literal["agent", "router", "critique", "quarantine", "summary"]
Verdict = Literal["allowed", "needs_approval", "refused"]
ReadersWord = Literal["public", "team"] | list[str]


class Usage(BaseModel):
    """Tokens of one model call, or of all calls of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    input_tokens: int = 0
    """Input that was neither read from nor written to the cache."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0

    @property
    def total(self) -> int:
        """What the token budget counts: everything in and out."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens

    def plus(self, other: Usage) -> Usage:
        """The sum, field by field."""
        mine, theirs = self.model_dump(), other.model_dump()
        return Usage(**{name: mine[name] + theirs[name] for name in mine})


class Event(BaseModel):
    """The common base; `type` is the class name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def type(self) -> str:
        """The event's name as the log spells it."""
        return type(self).__name__
