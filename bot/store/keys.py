"""Every key of the store, named once, with its type and how long it lives.

All keys of a partition share a hash tag, so that one Function call changes them together (redis.md 3.3).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

from bot.core.words import ThreadId

CLAIM_MS = 3 * 24 * 3600 * 1000
"""How long a claimed event is remembered: Slack repeats within minutes, people's clicks within days."""
GROUP = "workers"


@lru_cache(maxsize=4096)
def _tag(thread: ThreadId, partitions: int) -> str:
    return f"{{p{zlib.crc32(str(thread).encode()) % partitions:02d}}}"


@dataclass(frozen=True)
class Keys:
    """Names of one deployment's keys; `partitions` is fixed at its first start."""

    partitions: int = 1

    def tag(self, thread: ThreadId) -> str:
        """The hash tag of a thread's partition."""
        return _tag(thread, self.partitions)

    def tags(self) -> list[str]:
        """All partitions."""
        return [f"{{p{number:02d}}}" for number in range(self.partitions)]

    def state(self, thread: ThreadId) -> str:
        """hash: ep, own, until, rdy, seq, head, cid, outseq. As long as the thread's log."""
        return f"{self.tag(thread)}:st:{thread}"

    def log(self, thread: ThreadId) -> str:
        """stream, a block of heads for each commit under the seq of its last entry. Until retention removes it."""
        return f"{self.tag(thread)}:log:{thread}"

    def payloads(self, thread: ThreadId) -> str:
        """hash: seq of a block -> its salts and payloads. As long as the log, unless erased."""
        return f"{self.tag(thread)}:pl:{thread}"

    def inbox(self, thread: ThreadId) -> str:
        """stream: what waits. Entries go when they are in the log."""
        return f"{self.tag(thread)}:in:{thread}"

    def outbox(self, thread: ThreadId) -> str:
        """hash: number -> effect, number:a -> attempts. Rows go when they are delivered."""
        return f"{self.tag(thread)}:out:{thread}"

    def effects(self, thread: ThreadId) -> str:
        """hash: call id -> S:token or D:result. Fields go when the result is in the log."""
        return f"{self.tag(thread)}:fx:{thread}"

    def old_claim(self, thread: ThreadId, claim: str) -> str:
        """string: this event was taken in, as the first version said so. `CLAIM_MS`; none is made any more."""
        return f"{self.tag(thread)}:d:{claim}"

    def pin(self, tag: str, digest: str) -> str:
        """string: content that a log entry pins by digest. As long as any log."""
        return f"{tag}:pin:{digest}"

    @staticmethod
    def ready(tag: str) -> str:
        """stream + group `workers`: one entry for each thread that has work."""
        return f"{tag}:ready"

    @staticmethod
    def claims(tag: str) -> str:
        """zset: events that were taken in, by when that may be forgotten in ms. Each for `CLAIM_MS`."""
        return f"{tag}:claims"

    @staticmethod
    def timers(tag: str) -> str:
        """zset: thread and timer name by due time in ms."""
        return f"{tag}:timers"

    @staticmethod
    def timer_bodies(tag: str) -> str:
        """hash: thread and timer name -> JSON. Fields go when the timer fires."""
        return f"{tag}:timerbody"

    @staticmethod
    def index(tag: str) -> str:
        """zset: threads by the time of their last entry in ms."""
        return f"{tag}:index"
