"""The one place that writes to Slack: validated, paced, marked, recorded.

1. No other code calls chat.*; nothing is ever unfurled, and everything of a thread carries its thread_ts.
2. Each post carries its key in message metadata, so that one of unknown outcome can be looked up.
3. What Slack refuses for its shape is said in plain words instead, once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.core.effects import Effect
from bot.core.errors import OutsideFailed
from bot.core.words import ThreadId
from bot.engine.ports import Piece, Tracer
from bot.slack.blocks import context, fallback
from bot.slack.calls import SaidNo, calling, patiently
from bot.slack.inbound import Us, message_body
from bot.slack.pace import Pace
from bot.slack.render import RENDERER, render

MARKER = "plimsoll_post"
"""event_type of the metadata that our posts carry; holds no secret: any app in the workspace can read it."""
HISTORY = 200
"""Earlier messages that are imported at most; the root and the newest ones."""
HISTORY_CHARACTERS = 60_000
"""Characters of them together; the root and the newest come first."""
PAGE = 200
_NEWS = frozenset({"channel_join", "channel_leave", "group_join", "group_leave"})
_SHAPE = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"})
_CANNOT_DECIDE = "Slack did not take all of this card, so it cannot be decided here; the log has it whole."


class SlackSurface:
    """The Surface port."""

    renderer = RENDERER

    def __init__(self, client: AsyncWebClient, us: Us, tracer: Tracer, *, hosts: Iterable[str] = ()) -> None:
        self._client = client
        self._us = us
        self._tracer = tracer
        self._hosts = tuple(hosts)
        self._pace = Pace()
        self._refused: set[tuple[ThreadId, str]] = set()

    def render(self, thread: ThreadId, effect: Effect, posted: Mapping[str, str]) -> list[Piece]:
        """Pure."""
        return render(effect, posted, self._hosts)

    async def post(self, thread: ThreadId, piece: Piece) -> str:
        """The ts; empty for what has none. Raises `OutsideFailed`."""
        if piece.how == "status":
            await self._status(thread, str(piece.body["status"]))
            return ""
        if piece.how == "whisper":
            await self._whisper(thread, piece)
            return ""
        channel = piece.channel or thread.channel
        await self._pace.post(channel)
        message = await self._message(thread, piece)
        message |= {"unfurl_links": False, "unfurl_media": False, "metadata": _marker(piece)}
        message |= {} if piece.channel else {"thread_ts": thread.root_ts}
        answer = await self._shaped("chat.postMessage", {"channel": channel, **message}, _shown_by(thread, piece))
        return str(answer["ts"])

    async def update(self, thread: ThreadId, ts: str, piece: Piece) -> None:
        """Replace what that message shows."""
        if not await self._pace.update(skippable=bool(piece.body.get("skippable"))):
            return
        message = await self._message(thread, piece)
        channel = piece.channel or thread.channel
        message |= {"channel": channel, "ts": ts, "metadata": _marker(piece)}
        await self._shaped("chat.update", message, _shown_by(thread, piece))

    async def _message(self, thread: ThreadId, piece: Piece) -> dict[str, Any]:
        text = str(piece.body["text"])
        if link_ts := piece.body.get("link_ts"):
            async with calling("chat.getPermalink"):
                answer = await self._client.chat_getPermalink(channel=thread.channel, message_ts=str(link_ts))
            text = f"{text}: <{answer['permalink']}|open the request>"
        blocks: list[dict[str, Any]] = piece.body.get("blocks") or []
        if _shown_by(thread, piece) in self._refused and _decides(blocks):
            # Part of it could not be shown, and nobody decides about what they were not shown.
            blocks = [block for block in blocks if block["type"] != "actions"]
            blocks.append(context(_CANNOT_DECIDE))
        return {"text": text, "blocks": blocks} if blocks else {"text": text}

    async def _shaped(self, method: str, arguments: dict[str, Any], shown: tuple[ThreadId, str]) -> dict[str, Any]:
        try:
            return await self._call(method, arguments)
        except SaidNo as refusal:
            if refusal.code not in _SHAPE or "blocks" not in arguments:
                raise
            self._tracer.fault("surface.shape_refused", refusal, method=method)
        self._refused.add(shown)
        text = arguments["text"]
        text = fallback(f"{_CANNOT_DECIDE} {text}") if _decides(arguments["blocks"]) else text
        return await self._call(method, {**arguments, "text": text, "blocks": []})

    async def _call(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = await patiently(method, lambda: self._client.api_call(method, json=arguments))
        return dict(answer.data) if isinstance(answer.data, dict) else {}

    async def _whisper(self, thread: ThreadId, piece: Piece) -> None:
        arguments = {"channel": thread.channel, "user": piece.body["user"], "text": piece.body["text"]}
        await self._call("chat.postEphemeral", {**arguments, "thread_ts": thread.root_ts})

    async def _status(self, thread: ThreadId, status: str) -> None:
        arguments = {"channel_id": thread.channel, "thread_ts": thread.root_ts, "status": status}
        try:
            await self._call("agents.sessions.setStatus", arguments)
        except OutsideFailed as failure:
            # Answers still come; what Slack shows beside the thread is not worth waiting for.
            self._tracer.note("surface.no_status", why=str(failure))

    async def find(self, thread: ThreadId, piece: Piece) -> str | None:
        """The ts of an earlier post with this piece's key."""
        if piece.channel:
            return await self._find_elsewhere(piece)
        try:
            async for messages in self._pages(thread):
                if ts := _marked(messages, piece.key):
                    return ts
        except SaidNo as refusal:
            self._cannot_look_up(refusal)
        return None

    def _cannot_look_up(self, refusal: SaidNo) -> None:
        """Without the right to read, posting again is better than silence; what passes is waited for instead."""
        if refusal.retryable:
            raise refusal
        self._tracer.note("surface.cannot_look_up", why=str(refusal))

    async def _find_elsewhere(self, piece: Piece) -> str | None:
        try:
            answer = await patiently(
                "conversations.history",
                lambda: self._client.conversations_history(
                    channel=piece.channel, limit=PAGE, include_all_metadata=True
                ),
            )
        except SaidNo as refusal:
            self._cannot_look_up(refusal)
            return None
        return _marked(answer["messages"], piece.key)

    async def _pages(self, thread: ThreadId) -> Any:
        cursor = ""
        while True:
            asked: dict[str, Any] = {"channel": thread.channel, "ts": thread.root_ts, "limit": PAGE, "cursor": cursor}
            read = functools.partial(self._client.conversations_replies, **asked, include_all_metadata=True)
            answer = await patiently("conversations.replies", read)
            yield answer["messages"]
            cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return

    async def history(self, thread: ThreadId, before_ts: str) -> tuple[list[dict[str, Any]], int]:
        """Root and newest messages before that one; how many between them were left out."""
        found: list[dict[str, Any]] = []
        async for messages in self._pages(thread):
            earlier = [one for one in messages if str(one.get("ts")) < before_ts and one.get("subtype") not in _NEWS]
            found += [_earlier(one, self._us) for one in earlier]
        found = [one for one in found if one["author"] not in (self._us.user, self._us.bot)]
        kept, room = list[dict[str, Any]](), HISTORY_CHARACTERS
        for one in [found[0], *reversed(found[1:])][:HISTORY] if found else []:
            room -= len(one["text"])
            if room < 0 and kept:
                break
            kept.append(one)
        return sorted(kept, key=lambda one: str(one["ts"])), len(found) - len(kept)


def _shown_by(thread: ThreadId, piece: Piece) -> tuple[ThreadId, str]:
    """The effect that this piece is part of."""
    return thread, piece.key.partition("#")[0]


def _decides(blocks: list[dict[str, Any]]) -> bool:
    return any(block["type"] == "actions" for block in blocks)


def _marker(piece: Piece) -> dict[str, Any]:
    return {"event_type": MARKER, "event_payload": {"key": piece.key}}


def _marked(messages: list[dict[str, Any]], key: str) -> str | None:
    for one in messages:
        metadata = one.get("metadata") or {}
        if metadata.get("event_type") == MARKER and (metadata.get("event_payload") or {}).get("key") == key:
            return str(one["ts"])
    return None


def _earlier(message: dict[str, Any], us: Us) -> dict[str, Any]:
    read = message_body(message, us)
    return {name: read[name] for name in ("ts", "author", "text", "bot")} | {
        "quoted": bool(read["quoted"] or read["files"])
    }
