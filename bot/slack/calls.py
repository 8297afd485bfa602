"""One way to call Slack: the SDK's errors become ours, with one clear line."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.core.errors import OutsideFailed

TIMEOUT_S = 15
WAITS, LONGEST_WAIT_S = 3, 60.0
"""How often, and how long at a time, a rate limit is waited out before the caller has to put it off."""
_PASSING = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout", "ratelimited"})
"""Errors of Slack that may pass; the call may or may not have been carried out."""
_MEND = {
    "invalid_auth": "the token is not valid: check SLACK_BOT_TOKEN and SLACK_APP_TOKEN",
    "not_authed": "no token was sent: set SLACK_BOT_TOKEN",
    "account_inactive": "the app was removed from the workspace: install it again",
    "token_revoked": "the token was revoked: install the app again",
    "not_allowed_token_type": "SLACK_APP_TOKEN must start with xapp-, SLACK_BOT_TOKEN with xoxb-",
    "missing_scope": "a scope is missing: install deploy/slack-manifest.json again",
    "not_in_channel": "the bot is not in that channel: invite it",
    "channel_not_found": "there is no such channel for the bot: check the id, or invite it",
}


class RateLimited(OutsideFailed):
    """Slack asked to wait; nothing was carried out."""

    def __init__(self, method: str, wait_s: float) -> None:
        super().__init__(f"Slack limits {method}; again in {wait_s:.0f} s", retryable=True)
        self.wait_s = wait_s


def _seconds(value: object) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(seconds) else min(max(seconds, 0.0), 3600.0)


class SaidNo(OutsideFailed):
    """Slack refused, with its own word for why."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message, retryable=code in _PASSING)
        self.code = code


@contextlib.asynccontextmanager
async def calling(method: str) -> AsyncIterator[None]:
    """Raises `OutsideFailed`: `retryable` when the call may or may not have been carried out."""
    try:
        yield
    except SlackApiError as error:
        raise _said_no(method, error) from error
    except (AttributeError, TypeError) as error:
        # What the SDK raises for an answer that is no JSON object, such as a proxy's page with status 200.
        raise OutsideFailed(f"Slack answered {method} with something that is not its API", retryable=True) from error
    except (TimeoutError, ClientError, SlackClientError, OSError) as error:
        why = str(error).split("\n", 1)[0][:200] or type(error).__name__
        raise OutsideFailed(f"Slack did not answer {method}: {why}", retryable=True) from error


async def patiently(method: str, call: Callable[[], Awaitable[AsyncSlackResponse]]) -> AsyncSlackResponse:
    """The answer; a rate limit is waited out here, where it holds up one thread alone. Raises as `calling` does."""
    for attempt in range(WAITS + 1):
        try:
            async with calling(method):
                return await call()
        except RateLimited as limited:
            if attempt == WAITS or limited.wait_s > LONGEST_WAIT_S:
                raise
            await asyncio.sleep(limited.wait_s)
    raise AssertionError("the loop returns or raises")


def _said_no(method: str, error: SlackApiError) -> OutsideFailed:
    answer = error.response
    status = getattr(answer, "status_code", 200)
    if status == 429:
        return RateLimited(method, _seconds(answer.headers.get("Retry-After")))
    data = getattr(answer, "data", None)
    code = str(data.get("error") or "") if status < 500 and isinstance(data, dict) else ""
    if status >= 500 or not code:
        return OutsideFailed(f"Slack answered {method} with status {status}", retryable=True)
    mend = f"; {_MEND[code]}" if code in _MEND else ""
    return SaidNo(f"Slack refused {method}: {code}{mend}", code)


def make_client(token: str, api_url: str, session: ClientSession) -> AsyncWebClient:
    """One shared session, and no retries of its own: its default retry posts twice when a reply is lost."""
    client = AsyncWebClient(token=token, base_url=api_url, session=session, retry_handlers=[], timeout=TIMEOUT_S)
    if (urlsplit(api_url).hostname or "") in ("127.0.0.1", "localhost", "::1"):
        # The SDK reads the proxy variables itself, and would send loopback traffic there.
        client.proxy = None
    return client
