"""The nouns that every storey shares: a thread and who is in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bot.core.errors import Misconfigured

_PART = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
_PERMALINK = re.compile(
    r"^https://[A-Za-z0-9.-]+/archives/(?P<channel>[A-Z0-9]+)/p(?P<ts>\d{7,})(?:\?(?:.*&)?thread_ts=(?P<root>[\d.]+))?"
)


@dataclass(frozen=True, order=True)
class ThreadId:
    """One Slack thread: one session, one log. Written as TEAM/CHANNEL/TS."""

    team: str
    channel: str
    root_ts: str

    def __str__(self) -> str:
        return f"{self.team}/{self.channel}/{self.root_ts}"

    @classmethod
    def parse(cls, text: str) -> ThreadId:
        """From `TEAM/CHANNEL/TS` or a Slack permalink (team then is `*`: any).

        Raises `Misconfigured` for anything else.
        """
        if found := _PERMALINK.match(text.strip()):
            stamp = found["ts"]
            return cls("*", found["channel"], found["root"] or f"{stamp[:-6]}.{stamp[-6:]}")
        parts = text.strip().split("/")
        if len(parts) == 3 and all(_PART.match(part) for part in parts[1:]) and re.match(r"^[\w*-]+$", parts[0]):
            return cls(*parts)
        raise Misconfigured(f"{text!r} is no thread; write TEAM/CHANNEL/TS or paste a Slack permalink")


@dataclass(frozen=True)
class Person:
    """What the workspace says of a user id, looked up when it matters."""

    user: str
    team: str
    is_member: bool
    """A full member of our workspace: not a guest, bot, deactivated or from elsewhere."""
    is_guest: bool = False
    is_bot: bool = False
    is_external: bool = False
    name: str = ""
    """For display only; never decides anything."""
