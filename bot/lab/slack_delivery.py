"""How a local workspace delivers: Socket Mode and signed HTTP, at least once, unordered, twice on demand."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout, WSMsgType, web

from bot.lab.slack_state import APP, BOT_USER, TEAM

ACK_S = 3.0
"""Slack waits this long for an acknowledgement."""
RETRY_S = (0.0, 60.0, 300.0)
"""Waits before the three repeats (slack.md section 2.3)."""


@dataclass
class Delivery:
    """One envelope and what became of it."""

    kind: str
    payload: dict[str, Any]
    envelope_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    attempts: int = 0
    acked: bool = False
    gave_up: bool = False
    answer: Any = None
    """What came with the acknowledgement, or the HTTP status."""
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Delivering:
    """Sends envelopes until they are acknowledged or every repeat has failed."""

    def __init__(self, signing_secret: str) -> None:
        self.sockets: list[web.WebSocketResponse] = []
        self.request_url = ""
        self.duplicate = 1
        """How often each event is delivered in all."""
        self.ack_s = ACK_S
        self.retry_s: tuple[float, ...] = RETRY_S
        self.all: list[Delivery] = []
        self._secret = signing_secret
        self._connected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._transports: dict[int, asyncio.Transport | None] = {}
        self.tickets: set[str] = set()
        """Given out by apps.connections.open, each good for one connection."""

    def event(self, event: dict[str, Any], *, shared: bool = False) -> list[Delivery]:
        """An Events API callback."""
        payload = {
            "token": "lab",
            "team_id": TEAM,
            "api_app_id": APP,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{uuid.uuid4().hex[:10].upper()}",
            "event_time": int(time.time()),
            "is_ext_shared_channel": shared,
            "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
        }
        return [self.send("events_api", payload) for _ in range(self.duplicate)]

    def send(self, kind: str, payload: dict[str, Any]) -> Delivery:
        """Start delivering; the answer comes in the delivery."""
        delivery = Delivery(kind, payload)
        self.all.append(delivery)
        task = asyncio.create_task(self._deliver(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return delivery

    async def _deliver(self, delivery: Delivery) -> None:
        # Events come again; a click does not: the person sees an error and clicks once more.
        for wait_s in (0.0, *self.retry_s) if delivery.kind == "events_api" else (0.0,):
            await asyncio.sleep(wait_s)
            delivery.attempts += 1
            sent = self._by_http if self.request_url else self._by_socket
            if await sent(delivery):
                break
        delivery.gave_up = not delivery.acked
        delivery.done.set()

    async def _by_socket(self, delivery: Delivery) -> bool:
        if delivery.kind == "interactive" and not self.sockets:
            return False  # a click that finds nobody is told so at once
        while not self.sockets:
            await self._connected.wait()
            await asyncio.sleep(0)
        self._turn += 1
        socket = self.sockets[self._turn % len(self.sockets)]
        frame = {
            "envelope_id": delivery.envelope_id,
            "type": delivery.kind,
            "accepts_response_payload": delivery.kind != "events_api",
            "payload": delivery.payload,
            "retry_attempt": delivery.attempts - 1,
            "retry_reason": "timeout" if delivery.attempts > 1 else "",
        }
        try:
            await socket.send_json(frame)
        except (ConnectionError, RuntimeError):
            self._drop(socket)
            return False
        return await self._acknowledged(delivery, socket)

    async def _acknowledged(self, delivery: Delivery, socket: web.WebSocketResponse) -> bool:
        until = time.monotonic() + self.ack_s
        while time.monotonic() < until and not delivery.acked and not socket.closed:
            try:
                await asyncio.wait_for(delivery.done.wait(), 0.05)
            except TimeoutError:
                continue
        return delivery.acked

    async def _by_http(self, delivery: Delivery) -> bool:
        if delivery.kind == "events_api":
            body, kind = json.dumps(delivery.payload), "application/json"
        else:
            body, kind = _form(delivery.payload), "application/x-www-form-urlencoded"
        stamp = str(int(time.time()))
        signed = hmac.new(self._secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": kind,
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": f"v0={signed}",
        }
        if delivery.attempts > 1:
            headers |= {"X-Slack-Retry-Num": str(delivery.attempts - 1), "X-Slack-Retry-Reason": "http_error"}
        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=self.ack_s)) as session,
                session.post(self.request_url, data=body.encode(), headers=headers) as answer,
            ):
                delivery.answer = answer.status
                delivery.acked = answer.status < 300
                return delivery.acked or answer.headers.get("X-Slack-No-Retry") == "1"
        except (ClientError, TimeoutError, OSError):
            return False

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        """One Socket Mode connection, until it closes."""
        ticket = request.query.get("ticket", "")
        if ticket not in self.tickets or "Origin" in request.headers:
            # Any page in a browser could open a socket to this machine, and would be given people's messages.
            raise web.HTTPForbidden(text="no valid ticket")
        self.tickets.discard(ticket)
        socket = web.WebSocketResponse(heartbeat=30)
        await socket.prepare(request)
        hello = {
            "type": "hello",
            "num_connections": len(self.sockets) + 1,
            "debug_info": {"host": "lab", "approximate_connection_time": 18060},
            "connection_info": {"app_id": APP},
        }
        await socket.send_json(hello)
        self.sockets.append(socket)
        self._transports[id(socket)] = request.transport
        self._connected.set()
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._acknowledge(message.data)
        finally:
            self._drop(socket)
        return socket

    def _acknowledge(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except ValueError:
            return
        for delivery in self.all:
            if isinstance(frame, dict) and delivery.envelope_id == frame.get("envelope_id"):
                delivery.acked, delivery.answer = True, frame.get("payload")
                delivery.done.set()

    def _drop(self, socket: web.WebSocketResponse) -> None:
        if socket in self.sockets:
            self.sockets.remove(socket)
            self._transports.pop(id(socket), None)
        if not self.sockets:
            self._connected.clear()

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Ask every connection to come back: `warning`, `refresh_requested`, `link_disabled`."""
        for socket in list(self.sockets):
            await socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "lab"}})

    async def abort(self) -> None:
        """Cut every connection without a word, as a broken line does."""
        for socket in list(self.sockets):
            transport = self._transports.get(id(socket))
            self._drop(socket)
            if transport is not None:
                transport.abort()

    async def connected(self, timeout_s: float = 10.0) -> None:
        """Until at least one connection is there."""
        await asyncio.wait_for(self._connected.wait(), timeout_s)

    async def close(self) -> None:
        """Stop delivering."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.abort()


def _form(payload: dict[str, Any]) -> str:
    return urlencode({"payload": json.dumps(payload)})
