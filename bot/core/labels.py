"""How far what a thread has read can be trusted, and who may see it.

1. A label only falls: joining takes the lowest trust and the fewest readers.
2. What is missing or cannot be read counts as untrusted and for nobody.
3. Nothing here knows where a text came from; callers bring the label with the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

MAX_SOURCES = 32
"""Sources kept beside a label for people to read; later ones are only counted (security.md 5.1)."""


class Trust(IntEnum):
    """Integrity of a text, highest last. Compare with `<`; join is `min`."""

    UNTRUSTED = 0
    """Written by somebody we cannot hold to account: customers, web pages, guests, files."""
    EXTRACTED = 1
    """A closed-type value that was read out of an untrusted text."""
    INTERNAL = 2
    """Records of our own systems, and other staff."""
    PRINCIPAL = 3
    """Typed by the authenticated person who started the run."""
    SYSTEM = 4
    """Our own code and configuration."""

    @property
    def word(self) -> str:
        """The name as events, policy files and exports spell it: lower case."""
        return self.name.lower()

    @classmethod
    def parse(cls, word: object) -> Trust:
        """The trust of that lower-case name; `UNTRUSTED` for anything else (fail closed)."""
        return _TRUST_BY_WORD.get(word, cls.UNTRUSTED) if isinstance(word, str) else cls.UNTRUSTED


_TRUST_BY_WORD = {trust.word: trust for trust in Trust}


@dataclass(frozen=True)
class Readers:
    """Who may see a text: everyone, the team, or exactly the ids given (Slack user ids)."""

    scope: str = "only"
    """`public`, `team` or `only`."""
    ids: frozenset[str] = frozenset()
    """With `only`: the people; empty means nobody."""

    @classmethod
    def of(cls, *ids: str) -> Readers:
        """Exactly these people; none given means nobody."""
        return cls("only", frozenset(ids))

    def join(self, other: Readers) -> Readers:
        """Who may see a text made from both: the intersection."""
        if self.scope == "only" and other.scope == "only":
            return Readers("only", self.ids & other.ids)
        return min(self, other, key=lambda readers: _SCOPE_RANK[readers.scope])

    def dump(self) -> str | list[str]:
        """As events hold it: `public`, `team`, or a sorted list of ids."""
        return sorted(self.ids) if self.scope == "only" else self.scope

    @classmethod
    def parse(cls, value: object) -> Readers:
        """The inverse of `dump`; nobody for anything unreadable (fail closed)."""
        if value in ("public", "team"):
            return cls(str(value))
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            return cls.of(*value)
        return NOBODY


_SCOPE_RANK = {"only": 0, "team": 1, "public": 2}
PUBLIC = Readers("public")
TEAM = Readers("team")
NOBODY = Readers("only")


@dataclass(frozen=True)
class Source:
    """Where a text that lowered a label came from, in words for people."""

    kind: str
    """What it is: `tool`, `message`, `history`, `file`."""
    name: str
    """Which one: a tool's name, a message's ts, a file's name."""
    trust: Trust


@dataclass(frozen=True)
class Label:
    """Trust and readers of everything that a session has read so far."""

    trust: Trust = Trust.SYSTEM
    readers: Readers = PUBLIC
    sources: tuple[Source, ...] = ()
    """What lowered the trust, oldest first, at most `MAX_SOURCES`."""
    more_sources: int = 0
    """How many further sources were not kept."""

    def join(self, other: Label) -> Label:
        """The label of what was made from both."""
        kept = _unique((*self.sources, *other.sources))
        dropped = max(0, len(kept) - MAX_SOURCES)
        return Label(
            min(self.trust, other.trust),
            self.readers.join(other.readers),
            kept[:MAX_SOURCES],
            self.more_sources + other.more_sources + dropped,
        )


UNREADABLE = Label(Trust.UNTRUSTED, NOBODY)
"""The label of anything whose own label is missing."""


def _unique(sources: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(sources))
