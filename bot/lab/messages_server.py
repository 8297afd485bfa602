"""A stand-in of the Messages API on the wire, driven by a script: same checks, same stream, same accounting.

The real client talks to it unchanged. It never thinks: what it says was written down before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from bot.lab.messages_blocks import Refused
from bot.lab.messages_cache import Looked, PromptCache
from bot.lab.messages_diagnostics import Prints
from bot.lab.messages_faults import FAULTS
from bot.lab.messages_models import MODELS
from bot.lab.messages_reply import Frame, frames_of, packed, whole
from bot.lab.messages_rules import check, parsed
from bot.lab.messages_script import Brain, Broken, Status, Turn
from bot.lab.messages_turns import content_key
from bot.lab.messages_wire import Step, Torn, Wait, slowly
from bot.lab.story_brain import StoryBrain

__all__ = ["API_KEY", "Asked", "ScriptedMessages", "frames_of", "whole"]

API_KEY = "sk-lab"
MAX_BODY = 32 * 2**20
VERSIONS = frozenset({"2023-06-01", "2026-10-21"})
"""Values of `anthropic-version`."""


@dataclass
class Asked:
    """One request and what became of it."""

    body: bytes
    request: dict[str, Any] = field(default_factory=dict)
    outcome: str = ""
    """`complete`, a fault's name, a status, or the refusal's line; empty while it lasts, or when the caller left."""
    usage: dict[str, Any] = field(default_factory=dict)


class ScriptedMessages:
    """`async with ScriptedMessages(brain) as api:`; then `api.url` is ANTHROPIC_BASE_URL."""

    def __init__(
        self,
        brain: Brain,
        *,
        port: int = 0,
        api_key: str = API_KEY,
        context_tokens: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`context_tokens`: the window of every model, else each has its own. `now`: the prompt cache's clock."""
        self.brain = brain
        self.port = port
        self.asked: list[Asked] = []
        self.cache = PromptCache(now)
        self._context_tokens = context_tokens
        self._prints = Prints()
        self._paused = set[str]()
        self._api_key = api_key
        self._runner: web.AppRunner | None = None
        self.app = web.Application(client_max_size=MAX_BODY)
        self.app.router.add_post("/v1/messages", self._messages)
        self.app.router.add_post("/v1/messages/count_tokens", self._count)
        self.app.router.add_get("/v1/models", self._models)
        self.app.router.add_get("/v1/models/{name}", self._model)

    @property
    def url(self) -> str:
        """For ANTHROPIC_BASE_URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Bodies of accepted requests, in order."""
        return [one.request for one in self.asked if one.request]

    async def start(self) -> Self:
        """Listen on loopback."""
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Close everything."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- answering ----------------------------------------------------------------------------------------

    def _authorised(self, request: web.Request) -> None:
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._api_key not in (bearer, request.headers.get("x-api-key")):
            raise Refused("invalid x-api-key", 401, "authentication_error")
        version = request.headers.get("anthropic-version")
        if version is None:
            raise Refused("anthropic-version: header is required")
        if version not in VERSIONS:
            raise Refused(f'anthropic-version: "{version}" is not a valid version')

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(b"")
        try:
            asked.body = await request.read()
            self.asked.append(asked)
            self._authorised(request)
            body = parsed(asked.body)
            check(body, self._paused)
            looked = self.cache.look(body)
            left = self._left(body["model"], looked)
            asked.request, asked.usage = body, looked.usage
            # Nothing is generated for a request that only warms the cache: the script does not move on.
            reply = self.brain.reply(body) if body["max_tokens"] else Turn()
            if isinstance(reply, Status):
                asked.outcome = str(reply.status)
                return _answered(reply)
            return await self._reply(request, asked, reply, looked, left)
        except RecursionError:
            return _error(400, "invalid_request_error", "The request body is nested too deeply")
        except web.HTTPRequestEntityTooLarge:
            return _error(413, "request_too_large", "Request exceeds the maximum size")
        except Refused as refused:
            asked.outcome = str(refused)
            return _error(refused.status, refused.kind, str(refused))

    def _left(self, model: str, looked: Looked) -> int:
        """Tokens that the context window still holds after the prompt. Raises `Refused`."""
        window = self._context_tokens or MODELS[model].context_tokens
        if looked.total_tokens > window:
            raise Refused(f"prompt is too long: {looked.total_tokens} tokens > {window} maximum")
        return window - looked.total_tokens

    async def _reply(
        self, request: web.Request, asked: Asked, reply: Turn | Broken, looked: Looked, left: int
    ) -> web.StreamResponse:
        broken = reply if isinstance(reply, Broken) else None
        turn = reply.turn if isinstance(reply, Broken) else reply
        asked.outcome = broken.how if broken else ""
        if broken and (status := FAULTS[broken.how].status):
            return _answered(status())
        message_id = f"msg_{uuid.uuid4().hex[:20]}"
        told = self._prints.diagnose(asked.request, looked, message_id)
        frames = list(frames_of(turn, asked.request, looked.usage, left=left, message_id=message_id, diagnostics=told))
        if turn.stop_reason == "pause_turn" and (paused := whole(frames))["stop_reason"] == "pause_turn":
            self._paused.add(content_key(paused["content"]))
        await asyncio.sleep(turn.latency_s)
        self.cache.keep(looked)
        if asked.request.get("stream"):
            answer = await _streamed(request, turn, frames, broken)
        else:
            answer = await _unstreamed(request, frames, broken)
        asked.outcome = asked.outcome or "complete"  # not when the caller left before the end
        return answer

    async def _count(self, request: web.Request) -> web.Response:
        try:
            self._authorised(request)
            body = parsed(await request.read())
            check(body, self._paused, counting=True)
            return web.json_response({"input_tokens": self.cache.look(body).total_tokens})
        except Refused as refused:
            return _error(refused.status, refused.kind, str(refused))

    async def _models(self, request: web.Request) -> web.Response:
        try:
            self._authorised(request)
        except Refused as refused:
            return _error(refused.status, refused.kind, str(refused))
        most = int(request.query.get("limit", 20))
        names = sorted(MODELS)
        shown = [_described(name) for name in names[:most]]
        more = {"has_more": len(names) > most, "first_id": shown[0]["id"], "last_id": shown[-1]["id"]}
        return web.json_response({"data": shown, **more})

    async def _model(self, request: web.Request) -> web.Response:
        try:
            self._authorised(request)
            if request.match_info["name"] not in MODELS:
                raise Refused(f"model: {request.match_info['name']}", 404, "not_found_error")
        except Refused as refused:
            return _error(refused.status, refused.kind, str(refused))
        return web.json_response(_described(request.match_info["name"]))


def _described(name: str) -> dict[str, Any]:
    known = MODELS[name]
    limits = {"max_input_tokens": known.context_tokens, "max_tokens": known.max_output}
    life = {"created_at": "2026-01-01T00:00:00Z", "lifecycle": "active", "deprecated_at": None, "retires_at": None}
    return {"type": "model", "id": name, "display_name": name, **life, **limits}


async def _streamed(request: web.Request, turn: Turn, frames: list[Frame], broken: Broken | None) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"content-type": "text/event-stream", "request-id": f"req_{uuid.uuid4().hex}"})
    await answer.prepare(request)
    if broken and (stream := FAULTS[broken.how].stream):
        return await _play(request, answer, stream(frames, broken.after_frames))
    if turn.frame_latency_s:
        return await _play(request, answer, slowly(frames, turn.frame_latency_s))
    # As many events as ever, in one write: a benchmark measures its client, not this server.
    return await _play(request, answer, [b"".join(packed(frame) for frame in frames)])


async def _play(request: web.Request, answer: web.StreamResponse, steps: Iterable[Step]) -> web.StreamResponse:
    for step in steps:
        match step:
            case bytes():
                await answer.write(step)
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Torn():
                _tear(request)
                return answer
    await answer.write_eof()
    return answer


def _tear(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _unstreamed(request: web.Request, frames: list[Frame], broken: Broken | None) -> web.StreamResponse:
    """The reply in one piece; of a broken one, half, and the connection ends."""
    data = json.dumps(whole(frames)).encode()
    if broken is None:
        return web.Response(body=data, content_type="application/json")
    answer = web.StreamResponse(headers={"content-type": "application/json", "content-length": str(len(data))})
    await answer.prepare(request)
    await answer.write(data[: len(data) // 2])
    _tear(request)
    return answer


def _answered(status: Status) -> web.Response:
    if status.body is None:
        return _error(status.status, status.kind, status.message, dict(status.headers), status.error_code)
    kind = "text/html" if status.body.startswith("<") else "text/event-stream"
    return web.Response(status=status.status, text=status.body, headers=dict(status.headers), content_type=kind)


def _error(status: int, kind: str, message: str, headers: dict[str, str] | None = None, code: str = "") -> web.Response:
    error: dict[str, Any] = {"type": kind, "message": message}
    if code:
        error["details"] = {"error_code": code}
    request_id = f"req_{uuid.uuid4().hex}"
    body = {"type": "error", "error": error, "request_id": request_id}
    return web.json_response(body, status=status, headers={"request-id": request_id, **(headers or {})})


async def main(port: int) -> None:
    """The story's model on a port of its own, until it is ended; the first line names its address."""
    async with ScriptedMessages(StoryBrain(), port=port) as api:
        print(json.dumps({"url": api.url}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A scripted Messages API on loopback")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--story", action="store_true", help="the product's story (the only script there is)")
    asyncio.run(main(parser.parse_args().port))
