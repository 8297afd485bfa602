"""The floor: a bare loop with the SDK's `messages.stream()` and nothing stored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from anthropic import AsyncAnthropic

from tests.bench.script import MAX_OUTPUT_TOKENS, MODEL, SYSTEM, TOOL, TOOL_WORDS, page, question

TOOLS: list[Any] = [
    {
        "name": TOOL,
        "description": TOOL_WORDS,
        "input_schema": {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]},
    }
]


async def floor_stream(client: AsyncAnthropic, session: str) -> None:
    """One session, from its question to its final text."""
    messages: list[Any] = [{"role": "user", "content": question(session)}]
    while True:
        async with client.messages.stream(
            model=MODEL,
            max_tokens=MAX_OUTPUT_TOKENS,
            system=SYSTEM,
            tools=TOOLS,
            messages=messages,
            cache_control={"type": "ephemeral"},
        ) as stream:
            reply = await stream.get_final_message()
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return
        results = [{"type": "tool_result", "tool_use_id": one.id, "content": page(one.input["page"])} for one in calls]
        messages.append({"role": "user", "content": results})


class Floor:
    """The same shape as `Ours`, so that both can be measured alike."""

    def __init__(self, base_url: str) -> None:
        self.client = AsyncAnthropic(api_key="sk-bench", base_url=base_url, max_retries=0)

    async def session(self, name: str) -> None:
        """One session."""
        await floor_stream(self.client, name)

    @contextlib.asynccontextmanager
    async def working(self, at_once: int) -> AsyncIterator[None]:
        """It needs nobody."""
        yield

    async def sessions(self, names: Sequence[str]) -> None:
        """Many at once."""
        await asyncio.gather(*(self.session(name) for name in names))

    async def close(self) -> None:
        """End the connections."""
        await self.client.close()
