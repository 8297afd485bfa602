"""The page of a local workspace: one person plays asker, approver and auditor, with the real buttons.

1. Everything shown is escaped text; a hostile message never becomes markup of the page.
2. Only this page may post to it: requests from elsewhere are refused by Host and Origin.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from bot.lab.slack_server import LocalSlack
from bot.lab.slack_state import BOT_USER, Post, Whisper

ROLES = {
    "U0ALICE": "Alice asks",
    "U0BOB": "Bob asks too",
    "U0CAROL": "Carol approves",
    "U0DAVE": "Dave approves",
    "U0MALLORY": "Mallory may not approve",
    "U0ERIN": "Erin audits",
    "U0GUEST": "Gus, another company",
}
POLL_S = 20.0
Audit = Callable[[str], Awaitable[str]]
_USER = re.compile(r"&lt;@([UW][A-Z0-9]+)&gt;")
_LINK = re.compile(r"&lt;(https?://(?:[^|&\s]|&amp;)+)(?:\|((?:[^&]|&(?!gt;))*))?&gt;")
_FENCE = re.compile(r"```\n?(.*?)\n?```", re.DOTALL)
_BOLD, _ITALIC, _CODE = re.compile(r"\*([^*\n]+)\*"), re.compile(r"\b_([^_\n]+)_\b"), re.compile(r"`([^`\n]+)`")


class Page:
    """Handlers of the page, bound to one workspace."""

    def __init__(self, slack: LocalSlack, suggestions: Sequence[str], scripted: bool, audit: Audit | None) -> None:
        self._slack = slack
        self._suggestions = list(suggestions)
        self._scripted = scripted
        self._audit = audit

    async def index(self, _: web.Request) -> web.Response:
        """The page itself; everything on it comes from /page/state."""
        html = files("bot.lab").joinpath("templates", "page.html").read_text()
        return web.Response(text=html, content_type="text/html", headers=_HEADERS)

    async def state(self, request: web.Request) -> web.Response:
        """What the person sees, once it is newer than `after`."""
        text = request.query.get("after", "-1")
        after = int(text) if text.lstrip("-").isdecimal() else -1
        user = request.query.get("user", "U0ALICE")
        version = self._slack.workspace.version
        if version <= after:
            version = await self._slack.workspace.wait_past(after, POLL_S)
        return web.json_response({"version": version, **self._shown(user)}, headers=_HEADERS)

    def _shown(self, user: str) -> dict[str, Any]:
        workspace = self._slack.workspace
        channels = [
            {"id": one.id, "name": one.name}
            for one in workspace.channels.values()
            if user in one.members and BOT_USER in one.members
        ]
        seen = {one["id"] for one in channels}
        posts = [self._post(post, user) for post in workspace.posts if post.channel in seen]
        whispers = [self._whisper(one) for one in workspace.whispers if one.user == user]
        statuses = {f"{channel}/{ts}": status for (channel, ts), status in workspace.statuses.items()}
        return {
            "channels": channels,
            "posts": sorted([*posts, *whispers], key=lambda one: str(one["ts"])),
            "statuses": statuses,
            "roles": ROLES,
            "suggestions": self._suggestions,
            "scripted": self._scripted,
        }

    def _post(self, post: Post, user: str) -> dict[str, Any]:
        human = self._slack.workspace.people[post.user]
        return {
            "channel": post.channel,
            "ts": post.ts,
            "thread": post.thread_ts,
            "name": human.name,
            "bot": bool(post.bot_id),
            "html": self._html(post.blocks, post.text),
            "buttons": [
                {"text": one["text"]["text"], "action": one.get("action_id", ""), "style": one.get("style", "")}
                for one in self._slack.buttons(post.channel, post.ts, user)
            ],
        }

    def _whisper(self, one: Whisper) -> dict[str, Any]:
        shown = {"channel": one.channel, "ts": one.ts, "thread": one.thread_ts, "name": "Plimsoll", "bot": True}
        return shown | {"html": self._html(one.blocks, one.text), "buttons": [], "whisper": True}

    def _html(self, blocks: list[dict[str, Any]], text: str) -> str:
        if not blocks:
            return f"<p>{self._mrkdwn(text)}</p>"
        return "".join(self._block(block) for block in blocks)

    def _block(self, block: dict[str, Any]) -> str:
        text = block.get("text")
        match block.get("type"):
            case "header" if isinstance(text, dict):
                return f"<h3>{escape(text['text'])}</h3>"
            case "section" if isinstance(text, dict):
                plain = text["type"] == "plain_text"
                return f"<p>{escape(text['text']) if plain else self._mrkdwn(text['text'])}</p>"
            case "context":
                parts = [one for one in block.get("elements", []) if isinstance(one.get("text"), str)]
                return "".join(f"<small>{escape(one['text'])}</small>" for one in parts)
            case "markdown":
                return f"<p>{self._mrkdwn(str(text))}</p>"
            case "actions":
                return ""
            case kind:
                return f"<small>({escape(str(kind))} block)</small>"

    def _mrkdwn(self, text: str) -> str:
        """Slack's own three escapes are undone and the page's put on; then the few marks that Slack knows."""
        bare = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        live = text != bare
        safe = escape(text.replace("&amp;", "&amp;amp;")) if live else escape(text)
        safe = safe.replace("&amp;lt;", "‹lt›").replace("&amp;gt;", "‹gt›").replace("&amp;amp;amp;", "&amp;")
        safe = _FENCE.sub(lambda found: f"<pre>{found[1]}</pre>", safe)
        safe = _USER.sub(lambda found: f"<b>@{escape(self._name(found[1]))}</b>", safe)
        safe = _LINK.sub(lambda found: f'<a href="{found[1]}" rel="noreferrer">{found[2] or found[1]}</a>', safe)
        safe = _CODE.sub(r"<code>\1</code>", _BOLD.sub(r"<b>\1</b>", _ITALIC.sub(r"<i>\1</i>", safe)))
        return safe.replace("‹lt›", "&lt;").replace("‹gt›", "&gt;")

    def _name(self, user: str) -> str:
        found = self._slack.workspace.people.get(user)
        return found.name if found else user

    async def act(self, request: web.Request) -> web.Response:
        """Type, click or stop as that person."""
        body = await _json(request)
        user, channel, thread = (str(body.get(name) or "") for name in ("user", "channel", "thread"))
        place = self._slack.workspace.channels.get(channel)
        if user not in ROLES or place is None or user not in place.members:
            raise web.HTTPBadRequest(text="no such person or channel")
        match body.get("what"):
            case "say" if text := str(body.get("text") or "").strip():
                text = re.sub(r"@plimsoll\b", f"<@{BOT_USER}>", _slack_text(text), flags=re.IGNORECASE)
                await self._slack.say(user, text, channel, thread)
            case "click":
                await self._click(user, channel, str(body.get("ts")), str(body.get("action")))
            case "stop":
                await self._slack.stop(user, thread, channel)
            case _:
                raise web.HTTPBadRequest(text="nothing to do")
        return web.json_response({"ok": True})

    async def _click(self, user: str, channel: str, ts: str, action: str) -> None:
        try:
            await self._slack.click(user, ts, action, channel)
        except AssertionError as gone:
            raise web.HTTPConflict(text=str(gone)) from None

    async def audit(self, request: web.Request) -> web.Response:
        """The thread's log in sentences, as plain text."""
        channel, thread = request.query.get("channel", ""), request.query.get("thread", "")
        if self._audit is None or not re.fullmatch(r"[A-Z0-9]+", channel) or not re.fullmatch(r"\d+\.\d+", thread):
            raise web.HTTPNotFound(text="nothing to audit")
        return web.Response(text=await self._audit(f"{channel}/{thread}"), headers=_HEADERS)


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        raise web.HTTPBadRequest(text="not JSON") from None
    return body if isinstance(body, dict) else {}


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@web.middleware
async def _only_from_here(request: web.Request, handler: Any) -> web.StreamResponse:
    """A page of somebody else must not drive this one (it knows the tokens of the lab)."""
    if request.path.startswith(("/page", "/audit")) or request.path == "/":
        host = urlsplit(f"//{request.host}").hostname
        origin = request.headers.get("Origin")
        if host not in ("127.0.0.1", "localhost") or (origin and origin != f"http://{request.host}"):
            raise web.HTTPForbidden(text="only from this page")
        if request.method == "POST" and request.content_type != "application/json":
            raise web.HTTPForbidden(text="only from this page")
    answer: web.StreamResponse = await handler(request)
    return answer


async def _script(_: web.Request) -> web.Response:
    text = files("bot.lab").joinpath("templates", "page.js").read_text()
    return web.Response(text=text, content_type="text/javascript", headers=_HEADERS)


def add_page(
    slack: LocalSlack, *, suggestions: Sequence[str] = (), scripted_model: bool = True, audit: Audit | None = None
) -> None:
    """Put the page on a workspace's server, before it starts. `audit` tells a thread (CHANNEL/TS) in plain text."""
    page = Page(slack, suggestions, scripted_model, audit)
    slack.app.middlewares.append(_only_from_here)
    slack.app.router.add_get("/", page.index)
    slack.app.router.add_get("/page.js", _script)
    slack.app.router.add_get("/page/state", page.state)
    slack.app.router.add_post("/page/act", page.act)
    slack.app.router.add_get("/audit", page.audit)
