"""What waits for a thread's writer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from bot.core.words import ThreadId
from bot.engine.storage import Enqueued, InboxItem
from bot.store.clients import Clients
from bot.store.keys import CLAIM_MS, Keys


class RedisInbox:
    """The Inbox port. `seen` is shared with the lease: release must know what its holder has read."""

    def __init__(self, clients: Clients, keys: Keys, seen: dict[str, str]) -> None:
        self._clients = clients
        self._keys = keys
        self._seen = seen

    async def enqueue(self, item: InboxItem, *, claim: str, only_known: bool = False) -> Enqueued:
        """Claim, store and ready the thread in one call; a repeat is `duplicate`."""
        thread, keys = item.thread, self._keys
        tag = keys.tag(thread)
        names = [
            keys.state(thread),
            keys.inbox(thread),
            keys.ready(tag),
            keys.claims(tag),
            keys.old_claim(thread, claim),
        ]
        body = json.dumps(dict(item.body))
        answer: Enqueued = await self._clients.call(
            "enqueue", names, claim, CLAIM_MS, int(only_known), str(thread), item.kind, body
        )
        return answer

    async def pending(self, thread: ThreadId) -> list[InboxItem]:
        """Oldest first; what was given counts as read when the lease is given back."""
        items = await self.peek(thread)
        if items:
            self._seen[str(thread)] = items[-1].id
        return items

    async def peek(self, thread: ThreadId) -> list[InboxItem]:
        """The same, without counting as read."""
        async with self._clients.failures("read an inbox"):
            rows = await self._clients.commands.xrange(self._keys.inbox(thread))
        return [_item(thread, entry_id, fields) for entry_id, fields in rows]


def _item(thread: ThreadId, entry_id: str, fields: Any) -> InboxItem:
    arrived = datetime.fromtimestamp(int(entry_id.partition("-")[0]) / 1000, UTC)
    at = arrived.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return InboxItem(thread, fields["k"], json.loads(fields["b"]), entry_id, at)
