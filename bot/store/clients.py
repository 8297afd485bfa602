"""Connections on purpose: the client's defaults would double writes and hang for a minute (redis.md 2)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.client import NEVER_DECODE
from redis.exceptions import RedisError, ResponseError

from bot.core.errors import Fenced, Misconfigured, OurFault, OutsideFailed
from bot.store.library import function, source, version

Argument = str | bytes | int | float
COMMAND_TIMEOUT_S = 2.0
"""Every command is small; a server that needs longer is in trouble."""
COMMAND_RETRIES = 2
"""Safe only because each Function of the library recognises its own repeat."""
MAX_CONNECTIONS = 64
BLOCK_MARGIN_S = 5.0
"""How much longer than a blocking read its socket waits."""
_SERVER_SAYS = (
    *("OOM", "LOADING", "READONLY", "MISCONF", "NOPERM", "NOAUTH", "WRONGPASS", "BUSY", "MASTERDOWN"),
    *("CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS"),
)
"""Answers that tell of the server's state; any other error answer is a fault of our own calls."""


class Clients:
    """One for commands, one for blocking reads; each with explicit timeouts and retries."""

    def __init__(self, url: str, *, longest_block_s: float = 5.0) -> None:
        self.place = _place(url)
        retry = Retry(ExponentialWithJitterBackoff(base=0.01, cap=0.2), COMMAND_RETRIES)
        # Any: the client is typed for bytes and text at once, and ours always decodes.
        self.commands: Any = _client(url, COMMAND_TIMEOUT_S, retry)
        self.blocking: Any = _client(url, longest_block_s + BLOCK_MARGIN_S, Retry(ExponentialWithJitterBackoff(), 0))

    async def call(self, name: str, keys: list[str], *arguments: Argument) -> Any:
        """One Function. Raises `Fenced` for a stale writer, `OutsideFailed` when the store cannot do it."""
        try:
            answer = await self._fcall(name, keys, arguments, {})
        except (RedisError, OSError) as error:
            raise self._ours(name, error) from error
        if answer == "FENCED":
            raise Fenced(f"{name}: another worker owns this thread now")
        if answer == "FORKED":
            raise Fenced(f"{name}: the log has moved on without this writer")
        return answer

    async def read(self, name: str, keys: list[str], *arguments: Argument) -> list[bytes | None]:
        """One Function that never writes, its answer as bytes."""
        try:
            found: list[bytes | None] = await self._fcall(name, keys, arguments, {NEVER_DECODE: True})
        except (RedisError, OSError) as error:
            raise self._ours(name, error) from error
        return found

    async def _fcall(self, name: str, keys: list[str], arguments: Sequence[Argument], options: dict[str, Any]) -> Any:
        try:
            return await self._send(name, keys, arguments, options)
        except ResponseError as error:
            if "Function not found" not in str(error):
                raise
        # The server was emptied or replaced while we ran.
        await self.load()
        return await self._send(name, keys, arguments, options)

    async def _send(self, name: str, keys: list[str], arguments: Sequence[Argument], options: dict[str, Any]) -> Any:
        return await self.commands.execute_command("FCALL", function(name), len(keys), *keys, *arguments, **options)

    async def load(self) -> None:
        """Bring the library to the server unless this version is there."""
        found = await self.commands.function_list(library=f"plimsoll_{version()}")
        if not found:
            try:
                await self.commands.function_load(source())
            except ResponseError as error:
                if "already exists" not in str(error):  # another process loaded the same version first
                    raise

    @contextlib.asynccontextmanager
    async def failures(self, doing: str) -> AsyncIterator[None]:
        """Turn the client's errors into one clear line; the password never appears."""
        try:
            yield
        except (RedisError, OSError) as error:
            raise self._ours(doing, error) from error

    def _ours(self, doing: str, error: Exception) -> Exception:
        # The client has classes of its own for most of what tells of the server's state.
        if type(error) is ResponseError and not str(error).startswith(_SERVER_SAYS):
            return OurFault(f"{doing}: {error}")
        why = str(error).split("\n", 1)[0] or type(error).__name__
        return OutsideFailed(f"Redis at {self.place} could not {doing}: {why}", retryable=True)

    async def close(self) -> None:
        """End all connections."""
        await self.commands.aclose()
        await self.blocking.aclose()


def _client(url: str, timeout_s: float, retry: Retry) -> redis.Redis:
    pool = redis.BlockingConnectionPool.from_url(
        url,
        max_connections=MAX_CONNECTIONS,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        socket_connect_timeout=COMMAND_TIMEOUT_S,
        retry=retry,
        protocol=3,
        legacy_responses=False,
        decode_responses=True,
    )
    return redis.Redis.from_pool(pool)


def _place(url: str) -> str:
    """Host and port for messages. The URL itself is never shown: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        raise Misconfigured(
            "REDIS_URL cannot be read; write redis://:PASSWORD@HOST:PORT/0, special characters as %XX"
        ) from None
    if parts.scheme not in ("redis", "rediss", "unix") or not (parts.hostname or parts.path):
        raise Misconfigured("REDIS_URL has no known form; write redis://HOST:PORT/0, rediss://… or unix:///PATH")
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{port}"
