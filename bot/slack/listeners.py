"""Ingress: what Slack delivers is in the inbox before Slack is told that we have it.

1. Bolt acknowledges when a listener starts, so the inbox is written in a global middleware, before that.
2. When the inbox cannot be written in time Slack gets no acknowledgement, and delivers again.
3. No work is done here: parse, claim, store, acknowledge.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import ClientSession, web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bot.core.errors import OutsideFailed
from bot.engine.ports import Tracer
from bot.engine.storage import Inbox
from bot.slack.calls import calling, make_client
from bot.slack.inbound import Drop, Us, read

WRITE_S = 0.25
"""Slack waits 3 s; a store slower than this answers 503 and the delivery comes again (slack.md section 3)."""
STALE_PING_S = 60.0
"""A socket without a pong for this long is dead, whatever it says (slack.md trap 11)."""

STALE_SIGNATURE_S = 300
"""Slack's own window, either way."""
_STAMP = re.compile(r"^\d{1,12}$")
Next = Callable[[], Awaitable[BoltResponse]]


async def connect(client_session: ClientSession, bot_token: str, api_url: str) -> tuple[Us, AuthorizeResult]:
    """Who we are. Raises `OutsideFailed` with one clear line: then nothing can start."""
    if not bot_token.startswith("xoxb-"):
        raise OutsideFailed("SLACK_BOT_TOKEN is no bot token: it must start with xoxb-")
    client = make_client(bot_token, api_url, client_session)
    async with calling("auth.test"):
        found = await client.auth_test()
    us = Us(
        str(found["team_id"]),
        str(found["user_id"]),
        str(found.get("bot_id") or ""),
        str(found.get("app_id") or ""),
    )
    authorized = AuthorizeResult.from_auth_test_response(auth_test_response=found, bot_token=bot_token, user_token=None)
    return us, authorized


class SlackIngress:
    """The Bolt app over Socket Mode or signed HTTP."""

    def __init__(
        self,
        *,
        us: Us,
        authorized: AuthorizeResult,
        inbox: Inbox,
        tracer: Tracer,
        session: ClientSession,
        bot_token: str,
        api_url: str,
        app_token: str = "",
        signing_secret: str = "",
    ) -> None:
        self._us = us
        self._inbox = inbox
        self._tracer = tracer
        self._app_token = app_token
        self._socket: AsyncSocketModeHandler | None = None
        self._secret = signing_secret

        async def authorize() -> AuthorizeResult:
            """Bolt's own look-up, when it fails, acknowledges and loses the message."""
            return authorized

        self.bolt = AsyncApp(
            client=make_client(bot_token, api_url, session),
            signing_secret=signing_secret or secrets.token_hex(),  # Socket Mode needs none; nobody may guess one
            authorize=authorize,
            ignoring_self_events_enabled=False,
            attaching_conversation_kwargs_enabled=False,
        )
        self.bolt.middleware(self._take_in)

    async def _take_in(self, req: AsyncBoltRequest, next: Next) -> BoltResponse:
        """Every delivery passes here and goes no further."""
        body: dict[str, Any] = dict(req.body)
        taken = read(body, self._us)
        if isinstance(taken, Drop):
            return BoltResponse(status=200)
        try:
            async with asyncio.timeout(WRITE_S):
                answer = await self._inbox.enqueue(taken.item, claim=taken.claim, only_known=taken.only_known)
        except (OutsideFailed, TimeoutError) as failure:
            why = str(failure) or f"the store took longer than {WRITE_S} s"
            self._tracer.note("inbox.refused", thread=str(taken.item.thread), why=why)
            return BoltResponse(status=503, body="try again")
        self._tracer.note(f"inbox.{answer}", thread=str(taken.item.thread), kind=taken.item.kind)
        return BoltResponse(status=200)

    # -- Socket Mode --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the socket. Raises `OutsideFailed` when Slack refuses the app token."""
        if not self._app_token.startswith("xapp-"):
            raise OutsideFailed("SLACK_APP_TOKEN is no app token: it must start with xapp-")
        self._socket = AsyncSocketModeHandler(self.bolt, self._app_token)
        self._socket.client.proxy = self.bolt.client.proxy
        async with calling("apps.connections.open"):
            self._socket.client.wss_uri = await self._socket.client.issue_new_wss_url()
        await self._socket.connect_async()  # type: ignore[no-untyped-call]  # bolt leaves it untyped

    async def healthy(self) -> bool:
        """Connected, and heard of lately."""
        if self._socket is None:
            return True
        client = self._socket.client
        ponged = client.last_ping_pong_time
        return await client.is_connected() and (ponged is None or time.time() - ponged < STALE_PING_S)

    async def stop(self) -> None:
        """Close the socket; what was not acknowledged comes again."""
        if self._socket is not None:
            await self._socket.close_async()  # type: ignore[no-untyped-call]  # as above

    # -- signed HTTP --------------------------------------------------------------------------------------

    async def events(self, request: web.Request) -> web.Response:
        """`POST /slack/events`; a signature that does not fit is 401."""
        raw = await request.read()
        if not self._signed(request, raw):
            return web.Response(status=401, text="no valid signature")
        try:
            delivery = AsyncBoltRequest(body=raw.decode(), query=request.query_string, headers=_headers(request))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            self._tracer.note("http.unreadable", why=repr(error)[:200])
            return web.Response(status=400, text="not a delivery of Slack")
        return await to_aiohttp_response(await self.bolt.async_dispatch(delivery))

    def _signed(self, request: web.Request, raw: bytes) -> bool:
        """Checked on the raw bytes before anything is parsed: an unauthenticated caller reaches no further."""
        stamp = request.headers.get("X-Slack-Request-Timestamp", "")
        signature = request.headers.get("X-Slack-Signature", "")
        if not self._secret or not _STAMP.match(stamp) or not signature.isascii():
            return False
        if abs(time.time() - int(stamp)) > STALE_SIGNATURE_S:
            return False
        # Not the SDK's verifier: it decodes the body first, and a stranger's bytes need not be text.
        signed = hmac.new(self._secret.encode(), b"v0:" + stamp.encode() + b":" + raw, hashlib.sha256)
        return hmac.compare_digest(f"v0={signed.hexdigest()}", signature)


def _headers(request: web.Request) -> dict[str, str | Sequence[str]]:
    return dict(request.headers)
