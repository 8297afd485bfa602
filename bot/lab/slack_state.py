"""What a local workspace knows: people, channels, messages. No sockets here."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any

TEAM = "T0PLIMSOLL"
OTHER_TEAM = "T0OTHER"
APP = "A0PLIMSOLL"
BOT_USER = "U0BOT"
BOT = "B0BOT"


@dataclass
class Human:
    """Somebody with a user id, human or not."""

    id: str
    name: str
    team: str = TEAM
    restricted: bool = False
    ultra_restricted: bool = False
    bot_id: str = ""
    deleted: bool = False
    stranger: bool = False

    def profile(self) -> dict[str, Any]:
        """As `users.info` answers."""
        return {
            "id": self.id,
            "team_id": self.team,
            "name": self.name.lower(),
            "real_name": self.name,
            "deleted": self.deleted,
            "is_bot": bool(self.bot_id),
            "is_restricted": self.restricted,
            "is_ultra_restricted": self.ultra_restricted,
            "is_stranger": self.stranger,
            "profile": {"display_name": self.name, "team": self.team, "bot_id": self.bot_id or None},
        }


@dataclass
class Channel:
    """A conversation; `D…` is a direct message."""

    id: str
    name: str
    members: set[str] = field(default_factory=set)
    shared: bool = False


@dataclass
class Post:
    """A message as it stands now."""

    channel: str
    ts: str
    user: str
    text: str
    bot_id: str = ""
    thread_ts: str = ""
    blocks: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    edited: str = ""
    stream: str = ""
    """`open` or `closed` for a streamed message."""

    def shown(self, *, with_metadata: bool = False) -> dict[str, Any]:
        """As the Web API and events show it."""
        found: dict[str, Any] = {
            "type": "message",
            "ts": self.ts,
            "user": self.user,
            "text": self.text,
            "team": TEAM,
        }
        if self.thread_ts:
            found["thread_ts"] = self.thread_ts
        if self.bot_id:
            found |= {"bot_id": self.bot_id, "app_id": APP}
        if self.blocks:
            found["blocks"] = self.blocks
        if self.edited:
            found["edited"] = {"user": self.user, "ts": self.edited}
        if with_metadata and self.metadata:
            found["metadata"] = self.metadata
        return found | self.extra


@dataclass
class Whisper:
    """A message that one person sees."""

    channel: str
    user: str
    text: str
    ts: str
    thread_ts: str = ""
    blocks: list[dict[str, Any]] = field(default_factory=list)


class Workspace:
    """Everything, and a signal whenever something changed."""

    def __init__(self) -> None:
        self.people = {one.id: one for one in _people()}
        self.channels = {one.id: one for one in _channels()}
        self.groups: dict[str, list[str]] = {"S0LEADS": ["U0CAROL"]}
        self.posts: list[Post] = []
        self.whispers: list[Whisper] = []
        self.statuses: dict[tuple[str, str], str] = {}
        self.titles: dict[tuple[str, str], str] = {}
        self.views: dict[str, list[dict[str, Any]]] = {}
        self.reactions: dict[tuple[str, str], set[str]] = {}
        self.version = 0
        self._changed = asyncio.Condition()
        self._last_ts = 0

    def new_ts(self) -> str:
        """Unique and rising; microseconds of now, so that a restart does not repeat one."""
        self._last_ts = max(int(time.time() * 1_000_000), self._last_ts + 1)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    async def changed(self) -> None:
        """Wake whoever waits for something."""
        async with self._changed:
            self.version += 1
            self._changed.notify_all()

    async def wait_past(self, version: int, timeout_s: float) -> int:
        """The version once it is above that one, or after the time."""
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: self.version > version), timeout_s)
            return self.version

    def find(self, channel: str, ts: str) -> Post | None:
        """The message with that ts."""
        return next((post for post in self.posts if post.channel == channel and post.ts == ts), None)

    def thread(self, channel: str, root: str) -> list[Post]:
        """Root and replies, oldest first."""
        return [post for post in self.posts if post.channel == channel and root in (post.ts, post.thread_ts)]

    def direct(self, user: str) -> Channel:
        """The conversation between that person and the bot, made on first use."""
        channel_id = "D0" + user.removeprefix("U0")
        return self.channels.setdefault(channel_id, Channel(channel_id, f"dm-{user}", {user, BOT_USER}))


def _people() -> list[Human]:
    staff = [("U0ALICE", "Alice"), ("U0BOB", "Bob"), ("U0CAROL", "Carol"), ("U0DAVE", "Dave")]
    staff += [("U0ERIN", "Erin"), ("U0MALLORY", "Mallory")]
    return [
        *(Human(user, name) for user, name in staff),
        Human("U0GUEST", "Gus (Other Ltd)", team=OTHER_TEAM, stranger=True),
        Human("U0TEMP", "Tess (guest)", restricted=True),
        Human(BOT_USER, "Plimsoll", bot_id=BOT),
        Human("U0OTHERBOT", "Otherbot", bot_id="B0OTHER"),
    ]


def _channels() -> list[Channel]:
    everyone = {
        "U0ALICE",
        "U0BOB",
        "U0CAROL",
        "U0DAVE",
        "U0ERIN",
        "U0MALLORY",
        "U0GUEST",
        "U0TEMP",
        BOT_USER,
        "U0OTHERBOT",
    }
    return [
        Channel("C0SUPPORT", "support", set(everyone)),
        Channel("C0ESCALATE", "escalations", everyone - {"U0GUEST", "U0TEMP"}),
        Channel("C0TIER2", "tier-2", everyone - {"U0GUEST", "U0TEMP"}),
        Channel("C0PRIVATE", "not-invited", everyone - {BOT_USER}),
    ]
