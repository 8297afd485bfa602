"""The Model port: one long-lived client, our own reader, our own retries, one deadline round all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.claude.encode import Encoder, without_thinking
from bot.claude.prices import cost, usage_of, worst
from bot.claude.retry import Failed, Patience, Trouble
from bot.claude.stream import Message
from bot.core.events import Usage
from bot.engine.ports import ModelFailure, ModelReply, ModelRequest, Tracer

if TYPE_CHECKING:
    from bot.claude.wire import Wire

LOOK_EVERY_S, LOOK_S = 30.0, 3.0
"""How often readiness asks the service for a sign of life, and how long it waits for one."""

NO_TIME = Trouble("There was no time left for the model.", "deadline", "deadline")


class Claude:
    """Made cheaply; the SDK (a second of imports) comes with `warm_up` or the first question."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        tracer: Tracer | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._tracer = tracer
        self._patience = patience or Patience()
        self._encoder = Encoder()
        self._wire: Wire | None = None
        self._making = asyncio.Lock()
        self._looked = float("-inf")
        self._trouble = ""

    async def warm_up(self) -> Wire:
        """The client, imported and built off the event loop."""
        if self._wire is not None:
            return self._wire
        async with self._making:
            if self._wire is None:
                self._wire = await asyncio.to_thread(self._make)
            return self._wire

    def _make(self) -> Wire:
        # A second of imports, paid off the event loop and never by `plimsoll --help`.
        from bot.claude.wire import Wire  # noqa: PLC0415

        return Wire(api_key=self._api_key, base_url=self._base_url)

    async def ask(self, request: ModelRequest, deadline: datetime) -> ModelReply:
        """One complete reply, or `ModelFailure`; always before the deadline."""
        until = asyncio.get_running_loop().time() + max(0.0, (deadline - datetime.now(UTC)).total_seconds())
        attempt = Attempt(request)
        if until <= asyncio.get_running_loop().time():
            # From Python 3.12 on, aiohttp would have written the request before the timeout has its turn.
            raise attempt.failure(NO_TIME)
        try:
            async with asyncio.timeout_at(until) as limit:
                await self._tried(attempt, until)
        except TimeoutError:
            if not limit.expired():
                raise
            if not attempt.message.whole:
                raise attempt.failure(NO_TIME) from None
        return attempt.reply()

    async def _tried(self, attempt: Attempt, until: float) -> None:
        wire = await self.warm_up()
        tried = 0
        # Nothing was read of an attempt that is free, so the message that fills up is the same for all.
        while True:
            try:
                await wire.send(self._encoder.body(attempt.request), attempt.message)
                return self._note("")
            except Failed as failed:
                trouble = failed.trouble
            if trouble.of_thinking and attempt.forget_thinking():
                continue
            tried += 1
            wait = self._patience.pause_s(tried, trouble)
            if not trouble.free or tried >= self._patience.attempts:
                if trouble.kind == "away" or trouble.cause == "http_401":
                    self._note(trouble.line)
                raise attempt.failure(trouble, wait)
            if asyncio.get_running_loop().time() + wait >= until:
                raise attempt.failure(replace(trouble, kind="deadline"))
            if self._tracer is not None:
                thread = attempt.request.conversation
                self._tracer.note("model.retry", thread=thread, kind=trouble.cause, wait_s=wait)
            await asyncio.sleep(wait)

    def price(self, model: str, usage: Usage) -> float | None:
        """At the dearest; `None` for a model without a price."""
        return worst(model, usage)

    async def trouble(self) -> str:
        """Why the service cannot be used just now, in one line; empty when it answers.

        What the last question met counts for 30 s; only when nobody asked is there a look of its own.
        """
        if asyncio.get_running_loop().time() - self._looked > LOOK_EVERY_S:
            wire = await self.warm_up()
            try:
                async with asyncio.timeout(LOOK_S):
                    self._note(await wire.probe())
            except TimeoutError:
                self._note(f"The model service did not answer within {LOOK_S:g} s.")
        return self._trouble

    def _note(self, trouble: str) -> None:
        self._looked, self._trouble = asyncio.get_running_loop().time(), trouble

    async def close(self) -> None:
        """End the connections."""
        if self._wire is not None:
            await self._wire.close()


class Attempt:
    """A question under way: what is asked, and what came of the attempt that is being made."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.message = Message()

    def forget_thinking(self) -> bool:
        """Leave out the thinking of past turns; False when there is none (any more)."""
        bare = without_thinking(self.request)
        self.request = bare or self.request
        return bare is not None

    def failure(self, trouble: Trouble, wait_s: float = 0.0) -> ModelFailure:
        """With what the attempt is known to have used."""
        return ModelFailure(
            trouble.line,
            kind=trouble.kind,
            cause=trouble.cause,
            usage=usage_of(self.message.usage) if self.message.usage else Usage(),
            cost_usd=self._usd(),
            wait_s=wait_s,
        )

    def reply(self) -> ModelReply:
        """Of a message that is whole."""
        message = self.message
        content: list[dict[str, Any]] = message.finish()
        return ModelReply(
            content,
            message.stop_reason,
            usage_of(message.usage),
            self._usd(),
            message.model or self.request.model,
            message.id,
            message.cache_miss_reason,
            stop_category=message.stop_category,
            invalid_calls=message.invalid,
        )

    def _usd(self) -> float:
        return cost(self.request.model, self.message.usage) or 0.0
