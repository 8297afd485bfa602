"""A local Slack workspace on the wire: Web API, Socket Mode, signed HTTP, and a page to play all roles.

As strict as the real one where it was measured (sizes, shapes, delivery): what works here works there.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from aiohttp import web

from bot.lab.slack_delivery import Delivering
from bot.lab.slack_faults import Broken, Fails, Fault, Faults, Limited, Lost, Slow
from bot.lab.slack_human import Humans
from bot.lab.slack_limits import Rates
from bot.lab.slack_methods import Methods, Refused
from bot.lab.slack_state import Post, Workspace

BOT_TOKEN = "xoxb-lab"
APP_TOKEN = "xapp-lab"
SIGNING_SECRET = "lab-signing-secret"
_JSON_FIELDS = ("blocks", "metadata", "attachments", "view", "chunks")


@dataclass
class ApiCall:
    """One call of the Web API and its answer."""

    method: str
    arguments: dict[str, Any]
    answer: dict[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)


class LocalSlack(Humans):
    """`async with LocalSlack() as slack:`; then `slack.api_url`, and people act through its methods."""

    def __init__(self, *, port: int = 0, rates: bool = False) -> None:
        self.workspace = Workspace()
        self.delivering = Delivering(SIGNING_SECRET)
        self.faults = Faults()
        self.rates = Rates(on=rates)
        self.calls: list[ApiCall] = []
        self.missing_scopes: set[str] = set()
        """Methods that answer `missing_scope`."""
        self.port = port
        self.app = web.Application(client_max_size=4 * 2**20)
        self.app.router.add_route("*", "/api/{method}", self._api)
        self.app.router.add_get("/link", self.delivering.link)
        self._methods = Methods(self.workspace, self._said)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where the server is, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """For SLACK_API_URL."""
        return f"{self.url}/api/"

    async def start(self) -> Self:
        """Listen on loopback; port 0 takes any free one."""
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop_server(self) -> None:
        """Close everything."""
        await self.delivering.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop_server()

    # -- the Web API --------------------------------------------------------------------------------------

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if "Origin" in request.headers or urlsplit(f"//{request.host}").hostname not in ("127.0.0.1", "localhost"):
            # The lab's tokens are public: a page of somebody else must not be able to use them.
            raise web.HTTPForbidden(text="the Web API is not for browsers")
        fault = self.faults.take(method)
        if isinstance(fault, Lost) and not fault.after:
            return self._cut(request)
        if (answer := await self._before(fault)) is not None:
            return answer
        arguments = await _arguments(request)
        call = ApiCall(method, arguments)
        self.calls.append(call)
        if wait := self.rates.wait_s(method, str(arguments.get("channel", ""))):
            call.answer = {"ok": False, "error": "ratelimited"}
            return web.json_response(call.answer, status=429, headers={"Retry-After": str(wait)})
        call.answer = await self._answer(method, arguments, request)
        return self._cut(request) if isinstance(fault, Lost) else web.json_response(call.answer)

    async def _before(self, fault: Fault | None) -> web.Response | None:
        match fault:
            case Fails(error):
                return web.json_response({"ok": False, "error": error})
            case Limited(seconds):
                body = {"ok": False, "error": "ratelimited"}
                return web.json_response(body, status=429, headers={"Retry-After": str(seconds)})
            case Broken(status):
                return web.Response(status=status, text="<html>upstream</html>")
            case Slow(seconds):
                await asyncio.sleep(seconds)
        return None

    def _cut(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        raise asyncio.CancelledError

    async def _answer(self, method: str, arguments: dict[str, Any], request: web.Request) -> dict[str, Any]:
        token = request.headers.get("Authorization", "").removeprefix("Bearer").strip() or str(
            arguments.get("token", "")
        )
        if method == "apps.connections.open":
            if token != APP_TOKEN:
                return {
                    "ok": False,
                    "error": "not_allowed_token_type" if token.startswith("xoxb") else "invalid_auth",
                }
            ticket = secrets.token_urlsafe(16)
            self.delivering.tickets.add(ticket)
            return {"ok": True, "url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}"}
        if token != BOT_TOKEN:
            return {"ok": False, "error": "not_authed" if not token else "invalid_auth"}
        handler = self._methods.table.get(method)
        if handler is None:
            return {"ok": False, "error": "unknown_method", "req_method": method}
        if method in self.missing_scopes:
            return {"ok": False, "error": "missing_scope", "needed": "see the manifest", "provided": ""}
        try:
            return {"ok": True, **await handler(arguments)}
        except Refused as refused:
            answer: dict[str, Any] = {"ok": False, "error": refused.error}
            return answer | ({"response_metadata": {"messages": refused.messages}} if refused.messages else {})

    async def _said(self, post: Post, what: str) -> None:
        await self.tell(post, what)

    # -- for tests ----------------------------------------------------------------------------------------

    def called(self, method: str) -> list[ApiCall]:
        """Calls of that method, in order."""
        return [call for call in self.calls if call.method == method]

    def messages(self, channel: str = "C0SUPPORT", thread_ts: str | None = None) -> list[dict[str, Any]]:
        """What stands in a channel or thread, oldest first."""
        posts = (
            self.workspace.thread(channel, thread_ts)
            if thread_ts
            else [post for post in self.workspace.posts if post.channel == channel]
        )
        return [post.shown(with_metadata=True) for post in posts]

    async def wait_for(self, predicate: Callable[[], Any], timeout_s: float = 10.0, what: str = "it") -> Any:
        """The predicate's first true value; looks again at each change, and fails with what was there."""
        until = time.monotonic() + timeout_s
        while True:
            version = self.workspace.version
            if value := predicate():
                return value
            left = until - time.monotonic()
            if left <= 0:
                texts = [(post.channel, post.user, post.text[:200]) for post in self.workspace.posts]
                raise AssertionError(f"{what} did not come within {timeout_s} s; there is: {texts}")
            await self.workspace.wait_past(version, min(left, 0.25))


async def _arguments(request: web.Request) -> dict[str, Any]:
    """Query, form or JSON; nested fields of a form are JSON texts."""
    found: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        body = await request.json()
        found |= body if isinstance(body, dict) else {}
    elif request.can_read_body:
        found |= {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    for name in _JSON_FIELDS:
        if isinstance(found.get(name), str):
            try:
                found[name] = json.loads(found[name])
            except ValueError:
                found[name] = "unreadable"
    return found
