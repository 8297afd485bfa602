"""A lean Messages API on loopback, in a process of its own so that its CPU is in nobody's account.

The path of the base URL says what to play: `/turns-100.first-2000.wide-1.deltas-3`. It reads the whole body, finds
the turn by the results in it, and answers with frames that were encoded before. It checks nothing: bot/lab does that.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.bench.places import pin_away
from tests.bench.script import MODEL, TOOL

_SESSION = re.compile(rb"session-(\w+)")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_bench\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True)
class Plan:
    """What one base URL plays."""

    turns: int = 1
    first_ms: int = 0
    """Median time to the first token; each is between half and one and a half of it."""
    wide: int = 1
    """Calls in a turn."""
    deltas: int = 2
    """Pieces of the final text."""
    text: int = 60
    """Characters of the final text."""

    @property
    def path(self) -> str:
        """As a base URL carries it."""
        return f"/turns-{self.turns}.first-{self.first_ms}.wide-{self.wide}.deltas-{self.deltas}.text-{self.text}"


@cache
def plan_of(path: str) -> Plan:
    """The plan that a path carries."""
    said = dict(part.split("-") for part in path.lstrip("/").split("/")[0].split("."))
    return Plan(int(said["turns"]), int(said["first"]), int(said["wide"]), int(said["deltas"]), int(said["text"]))


@cache
def answer(plan: Plan, turn: int) -> bytes:
    """The whole HTTP answer of a turn; each frame is a chunk of its own, as a service sends them."""
    frames = b"".join(f"{len(one):x}\r\n".encode() + one + b"\r\n" for one in map(_packed, _frames(plan, turn)))
    return _HEAD + frames + b"0\r\n\r\n"


def _packed(frame: dict[str, Any]) -> bytes:
    return f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()


def _frames(plan: Plan, turn: int) -> list[dict[str, Any]]:
    read = 1200 + 570 * plan.wide * turn
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": 570,
        "output_tokens": 1,
    }
    message = {"id": f"msg_{turn:04d}", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    if turn < plan.turns:
        blocks = [_text("I read on.", 1), *(_call(turn, place, plan.wide) for place in range(plan.wide))]
    else:
        blocks = [_text("The archive is read. " * (plan.text // 21 + 1), plan.deltas)]
    for index, (first, deltas) in enumerate(blocks):
        found.append({"type": "content_block_start", "index": index, "content_block": first})
        found += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        found.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if turn < plan.turns else "end_turn"
    ending = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 60}}
    return [*found, {"type": "message_delta", **ending}, {"type": "message_stop"}]


def _text(text: str, pieces: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    size = -(-len(text) // pieces)
    parts = [text[place : place + size] for place in range(0, len(text), size)]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in parts]


def _call(turn: int, place: int, wide: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    first = {"type": "tool_use", "id": f"toolu_{turn:04d}_{place:02d}", "name": TOOL, "input": {}}
    raw = json.dumps({"page": turn * wide + place})
    return first, [{"type": "input_json_delta", "partial_json": part} for part in ("", raw[:6], raw[6:])]


class Seen:
    """What the server noticed since it was last asked."""

    def __init__(self) -> None:
        self.requests = 0
        self.connections = 0
        self.body_bytes = 0
        self.gaps_ms: list[float] = []
        self.ended: dict[bytes, float] = {}

    def told(self) -> bytes:
        """As JSON, and forgotten."""
        found = json.dumps({**vars(self), "ended": len(self.ended)}).encode()
        vars(self).update(vars(Seen()))
        return found


class Connection(asyncio.Protocol):
    """One kept-alive connection of a client that sends one request at a time."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.loop = asyncio.get_running_loop()
        self.parts: list[bytes] = []
        self.have, self.need, self.body_at = 0, 0, 0
        self.arrived = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Kept for the answers."""
        self.seen.connections += 1
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """Wait for the whole body; the first byte is the arrival."""
        if not self.have:
            self.arrived = time.perf_counter()  # the loop's own clock counts whole milliseconds
        self.parts.append(data)
        self.have += len(data)
        if not self.need:
            head = b"".join(self.parts)
            end = head.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(head, 0, end)
            self.body_at = end + 4
            self.need = self.body_at + (int(length[1]) if length else 0)
        if self.have >= self.need:
            whole = b"".join(self.parts)
            path = whole.split(b" ", 2)[1].decode()
            body_at, self.have, self.need, self.parts = self.body_at, 0, 0, []
            self._asked(path, whole[body_at:])

    def _asked(self, path: str, body: bytes) -> None:
        if path == "/seen":
            told = self.seen.told()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(told)}\r\n\r\n"
            self.transport.write(head.encode() + told)
            return
        plan, seen = plan_of(path), self.seen
        found = _SESSION.search(body)
        session = found[1] if found else b""
        seen.requests += 1
        seen.body_bytes += len(body)
        if (ended := seen.ended.pop(session, None)) is not None:
            seen.gaps_ms.append((self.arrived - ended) * 1000)
        turn = body.count(b'"tool_result"') // plan.wide
        if plan.first_ms:
            wait_s = plan.first_ms / 1000 * random.uniform(0.5, 1.5)
            self.loop.call_later(wait_s, self._answer, plan, turn, session)
        else:
            self._answer(plan, turn, session)

    def _answer(self, plan: Plan, turn: int, session: bytes) -> None:
        self.transport.write(answer(plan, turn))
        if turn < plan.turns:
            self.seen.ended[session] = time.perf_counter()


async def main() -> None:
    """Serve until standard input closes: whoever started it has gone."""
    pin_away()
    seen, loop = Seen(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(seen), "127.0.0.1", 0, backlog=4096)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
