"""The Model port on the raw SDK: one long-lived client, our own reader, our own retries, one deadline round all."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.claude.encode import encode
from bot.claude.prices import cost, usage_of, worst
from bot.claude.retry import ATTEMPTS, classify, pause_s
from bot.claude.stream import Incomplete, Message
from bot.core.events import Usage
from bot.engine.ports import FailureKind, ModelFailure, ModelReply, ModelRequest, Tracer

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

READ_TIMEOUT_S = 60.0
"""Nothing at all for this long is a dead stream; the service pings more often."""
LOOK_EVERY_S, LOOK_S = 30.0, 3.0
"""How often readiness asks the service for a sign of life, and how long it waits for one."""


class Claude:
    """Made cheaply; the SDK (a second of imports) comes with `warm_up` or the first question."""

    def __init__(self, *, api_key: str, base_url: str | None = None, tracer: Tracer | None = None) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._tracer = tracer
        self._client: AsyncAnthropic | None = None
        self._making = asyncio.Lock()
        self._looked = float("-inf")
        self._trouble = ""

    async def warm_up(self) -> AsyncAnthropic:
        """The client, imported and built off the event loop."""
        async with self._making:
            if self._client is None:
                self._client = await asyncio.to_thread(self._make)
            return self._client

    def _make(self) -> AsyncAnthropic:
        # A second of imports, paid off the event loop and never by `plimsoll --help`.
        from anthropic import AsyncAnthropic, Timeout  # noqa: PLC0415

        return AsyncAnthropic(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=0,
            timeout=Timeout(READ_TIMEOUT_S, connect=5.0),
            open_telemetry=False,
        )

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """One complete reply, or `ModelFailure`; always before the deadline."""
        loop = asyncio.get_running_loop()
        until = loop.time() + max(0.0, (deadline - datetime.now(UTC)).total_seconds())
        spent = Spent()
        try:
            async with asyncio.timeout_at(until):
                return await self._with_retries(request, until, spent)
        except TimeoutError:
            raise ModelFailure(
                "There was no time left for the model.", kind="deadline", usage=spent.usage, cost_usd=spent.usd
            ) from None

    async def _with_retries(self, request: ModelRequest, until: float, spent: Spent) -> ModelReply:
        client = await self.warm_up()
        arguments = encode(request)
        for attempt in range(ATTEMPTS):
            message = Message()
            try:
                return await self._once(client, arguments, message, spent)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                trouble = classify(error)
                spent.lose(request.model, message)
                wait = pause_s(attempt, trouble)
                too_late = asyncio.get_running_loop().time() + wait >= until
                if not trouble.again or attempt == ATTEMPTS - 1 or too_late:
                    late = trouble.again and too_late
                    kind: FailureKind = "deadline" if late else "final"
                    raise ModelFailure(trouble.line, kind=kind, usage=spent.usage, cost_usd=spent.usd) from error
                if self._tracer is not None:
                    self._tracer.note("model.retry", thread=request.conversation, kind=trouble.kind, wait_s=wait)
                await asyncio.sleep(wait)
        raise AssertionError("the loop returns or raises")

    async def _once(
        self, client: AsyncAnthropic, arguments: dict[str, Any], message: Message, spent: Spent
    ) -> ModelReply:
        stream = await client.messages.create(**arguments)
        try:
            async for event in stream:
                _take(message, event)
                if message.whole:
                    break  # what the connection does after the end must not lose the reply
        finally:
            await stream.close()
        content = message.finish()
        usage = usage_of(message.usage)
        dollars = cost(arguments["model"], message.usage)
        return ModelReply(
            content,
            message.stop_reason,
            usage.plus(spent.usage),
            (dollars or 0.0) + spent.usd,
            message.model or arguments["model"],
            message.id,
            invalid_calls=message.invalid,
        )

    def price(self, model: str, usage: Usage) -> float | None:
        """At the dearest; `None` for a model without a price."""
        return worst(model, usage)

    async def trouble(self) -> str:
        """Why the service cannot be used just now, in one line; empty when it answers. Asked at most every 30 s."""
        now = asyncio.get_running_loop().time()
        if now - self._looked > LOOK_EVERY_S:
            self._looked, self._trouble = now, ""
            try:
                async with asyncio.timeout(LOOK_S):
                    await (await self.warm_up()).models.list(limit=1)
            except Exception as error:  # noqa: BLE001  the SDK lets raw transport errors through
                self._trouble = classify(error).line
        return self._trouble

    async def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            await self._client.close()


class Spent:
    """What attempts without a reply cost."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.usd = 0.0

    def lose(self, model: str, message: Message) -> None:
        """Count a lost stream by what it had told."""
        if message.usage:
            self.usage = self.usage.plus(usage_of(message.usage))
            self.usd += cost(model, message.usage) or 0.0


def _take(message: Message, event: Any) -> None:
    try:
        message.take(event.to_dict(mode="json"))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Incomplete(f"an event that cannot be read ({type(error).__name__})") from error
