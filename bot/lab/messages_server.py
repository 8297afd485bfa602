"""A stand-in of the Messages API on the wire, driven by a script: same checks, same stream, same accounting.

The real client talks to it unchanged. It never thinks: what it says was written down before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from bot.lab.messages_cache import PromptCache, tokens_of
from bot.lab.messages_rules import KNOWN_MODELS, Refused, check
from bot.lab.messages_script import Brain, Broken, Status, Turn
from bot.lab.story_brain import StoryBrain

API_KEY = "sk-lab"
MAX_BODY = 32 * 2**20
PIECE = 24
"""Characters of one delta."""


@dataclass
class Asked:
    """One request and what became of it."""

    body: bytes
    request: dict[str, Any] = field(default_factory=dict)
    outcome: str = ""
    usage: dict[str, Any] = field(default_factory=dict)


class ScriptedMessages:
    """`async with ScriptedMessages(brain) as api:`; then `api.url` is ANTHROPIC_BASE_URL."""

    def __init__(self, brain: Brain, *, port: int = 0, api_key: str = API_KEY) -> None:
        self.brain = brain
        self.port = port
        self.asked: list[Asked] = []
        self.cache = PromptCache()
        self._api_key = api_key
        self._runner: web.AppRunner | None = None
        self.app = web.Application(client_max_size=MAX_BODY)
        self.app.router.add_post("/v1/messages", self._messages)
        self.app.router.add_post("/v1/messages/count_tokens", self._count)
        self.app.router.add_get("/v1/models", self._models)

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
        if "anthropic-version" not in request.headers:
            raise Refused("anthropic-version: header is required")

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(await request.read())
        self.asked.append(asked)
        try:
            self._authorised(request)
            body = json.loads(asked.body.decode("utf-8"))
            check(body)
            asked.request = body
            reply = self.brain.reply(body)
            if isinstance(reply, Status):
                asked.outcome = str(reply.status)
                return _error(reply.status, reply.kind, reply.message, dict(reply.headers), reply.error_code)
            asked.usage = self.cache.account(body)
            return await self._stream(request, asked, reply)
        except Refused as refused:
            asked.outcome = str(refused)
            return _error(refused.status, refused.kind, str(refused))
        except (ValueError, UnicodeDecodeError) as error:
            return _error(400, "invalid_request_error", f"The request body is not valid JSON: {error}")

    async def _stream(self, request: web.Request, asked: Asked, reply: Turn | Broken) -> web.StreamResponse:
        turn = reply.turn if isinstance(reply, Broken) else reply
        await asyncio.sleep(turn.latency_s)
        frames = list(frames_of(turn, asked.request, asked.usage))
        if not asked.request.get("stream"):
            return web.json_response(whole(frames))
        answer = web.StreamResponse(
            headers={"content-type": "text/event-stream", "request-id": f"req_{uuid.uuid4().hex}"}
        )
        await answer.prepare(request)
        broken = reply if isinstance(reply, Broken) else None
        for number, frame in enumerate(frames):
            if broken and number == broken.after_frames:
                asked.outcome = broken.how
                return await _break(request, answer, broken.how)
            await answer.write(_packed(frame))
        asked.outcome = "complete"
        await answer.write_eof()
        return answer

    async def _count(self, request: web.Request) -> web.Response:
        try:
            self._authorised(request)
            return web.json_response({"input_tokens": tokens_of(await request.json())})
        except Refused as refused:
            return _error(refused.status, refused.kind, str(refused))

    async def _models(self, request: web.Request) -> web.Response:
        models = [{"type": "model", "id": name, "max_input_tokens": 1_000_000} for name in sorted(KNOWN_MODELS)]
        return web.json_response({"data": models, "has_more": False, "first_id": None, "last_id": None})


def frames_of(turn: Turn, request: dict[str, Any], usage: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a reply, in order."""
    start = {"id": f"msg_{uuid.uuid4().hex[:20]}", "type": "message", "role": "assistant", "model": request["model"]}
    counted = {**usage, "output_tokens": 1}
    start |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": counted}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    output = 1
    for index, (first, deltas) in enumerate(_blocks(turn)):
        yield {"type": "content_block_start", "index": index, "content_block": first}
        for delta in deltas:
            output += tokens_of(delta)
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = turn.stop_reason or ("tool_use" if turn.calls else "end_turn")
    output = min(output, int(request["max_tokens"]))
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": output},
    }
    yield {"type": "message_stop"}


def _blocks(turn: Turn) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if turn.thinking:
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _cut(turn.thinking)]
        signed = {"type": "signature_delta", "signature": f"sig-{uuid.uuid4().hex}"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if turn.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in _cut(turn.text)]
    for call in turn.calls:
        raw = call.raw if call.raw is not None else json.dumps(dict(call.arguments))
        first = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:20]}", "name": call.name, "input": {}}
        yield first, [{"type": "input_json_delta", "partial_json": part} for part in _cut(raw)]


def _cut(text: str) -> list[str]:
    return [text[place : place + PIECE] for place in range(0, len(text), PIECE)]


def _packed(frame: dict[str, Any]) -> bytes:
    return f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()


async def _break(request: web.Request, answer: web.StreamResponse, how: str) -> web.StreamResponse:
    if how == "error":
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        await answer.write(f"event: error\ndata: {json.dumps(error)}\n\n".encode())
    elif how == "stall":
        await asyncio.sleep(3600)
    elif how == "abort" and request.transport is not None:
        request.transport.abort()
        return answer
    await answer.write_eof()
    return answer


def whole(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """The same reply without a stream."""
    message: dict[str, Any] = frames[0]["message"]
    for frame in frames:
        if frame["type"] == "content_block_start":
            message["content"].append(dict(frame["content_block"]))
        elif frame["type"] == "content_block_delta":
            _grow(message["content"][-1], frame["delta"])
        elif frame["type"] == "message_delta":
            message |= frame["delta"]
            message["usage"] |= frame["usage"]
    for block in message["content"]:
        if "raw" in block:
            block["input"] = json.loads(block.pop("raw") or "{}")
    return message


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(delta["type"])
    if name is None:
        block["raw"] = block.get("raw", "") + delta["partial_json"]
    else:
        block[name] += delta[name]


def _error(status: int, kind: str, message: str, headers: dict[str, str] | None = None, code: str = "") -> web.Response:
    error: dict[str, Any] = {"type": kind, "message": message}
    if code:
        error["details"] = {"error_code": code}
    body = {"type": "error", "error": error, "request_id": f"req_{uuid.uuid4().hex}"}
    return web.json_response(body, status=status, headers=headers)


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
