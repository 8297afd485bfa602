"""What a tool can do to the world, and how much of that a label leaves without a person."""

from __future__ import annotations

from enum import IntEnum


class Authority(IntEnum):
    """Class of a tool by its worst effect, lowest first. Compare with `<`."""

    OBSERVE = 0
    """Sees our own data."""
    EGRESS = 1
    """Lets a query or a URL leave us."""
    LOCAL_WRITE = 2
    """Makes a reversible change that is seen only in this session."""
    SEND = 3
    """Lets text or access reach other people."""
    CRITICAL = 4
    """Money, deletion, credentials, anything irreversible."""

    @property
    def word(self) -> str:
        """The name as events, policy files and exports spell it: lower case."""
        return self.name.lower()

    @classmethod
    def parse(cls, word: object) -> Authority:
        """The class of that lower-case name; `CRITICAL` for anything else (fail closed)."""
        return _AUTHORITY_BY_WORD.get(word, cls.CRITICAL) if isinstance(word, str) else cls.CRITICAL


_AUTHORITY_BY_WORD = {authority.word: authority for authority in Authority}
