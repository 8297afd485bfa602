"""The HTTP door: signatures before parsing, and nothing that a stranger sends makes it fall over."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from bot.lab.slack_server import SIGNING_SECRET
from tests.slack.conftest import Floor

pytestmark = pytest.mark.wire


def _signed(body: bytes, secret: str = SIGNING_SECRET, stamp: str = "") -> dict[str, str]:
    stamp = stamp or str(int(time.time()))
    digest = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}", "Content-Type": "application/json"}


@contextlib.asynccontextmanager
async def _http(floor: Floor) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/slack/events", floor.ingress.events)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
    await runner.cleanup()


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{nope", "application/json"),
        (b"[]", "application/json"),
        (b"payload=%7Bx", "application/x-www-form-urlencoded"),
        (b"payload=[]", "application/x-www-form-urlencoded"),
        (b"\xff\xfe", "application/json"),
        (b"{}", "text/plain; charset=klingon"),
        (b"", "application/json"),
        (b'{"event": ' + b"[" * 3_000 + b"]" * 3_000 + b"}", "application/json"),
        (b'{"event": ' + b"[" * 90_000 + b"]" * 90_000 + b"}", "application/json"),
    ],
)
async def test_no_body_makes_the_http_door_fall_over(floor: Floor, body: bytes, kind: str, signed: bool) -> None:
    """A stranger gets 401 whatever it sends, a signed oddity a client error; never a 500."""
    async with _http(floor) as url, ClientSession() as session:
        headers = (_signed(body) if signed else _signed(body, "guess")) | {"Content-Type": kind}
        answer = await session.post(url, data=body, headers=headers)

    assert answer.status == 401 if not signed else answer.status < 500


@pytest.mark.parametrize("stamp", ["yesterday", "9" * 5000, "-1", "١٢٣", "1"])
async def test_a_timestamp_that_is_none_is_turned_away(floor: Floor, stamp: str) -> None:
    """Old ones too."""
    async with _http(floor) as url, ClientSession() as session:
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=00"}
        try:
            answer = await session.post(url, data=b"{}", headers=headers)
        except (ValueError, UnicodeError):
            return  # the client itself refuses to send it
    assert answer.status in (400, 401)


@pytest.mark.parametrize("age_s", [-400, 400])
async def test_a_good_signature_of_another_time_is_turned_away(floor: Floor, age_s: int) -> None:
    """A recorded delivery cannot be played again; it is not even parsed."""
    async with _http(floor) as url, ClientSession() as session:
        answer = await session.post(url, data=b"{nope", headers=_signed(b"{nope", stamp=str(int(time.time()) - age_s)))

    assert answer.status == 401


async def test_without_a_secret_nothing_is_taken(floor: Floor) -> None:
    """An empty secret signs nothing."""
    floor.ingress._secret = ""
    async with _http(floor) as url, ClientSession() as session:
        answer = await session.post(url, data=b"{nope", headers=_signed(b"{nope", secret=""))

    assert answer.status == 401


async def test_the_challenge_of_a_new_subscription_is_answered(floor: Floor) -> None:
    """Signed, over HTTP."""
    body = b'{"type": "url_verification", "challenge": "abc", "token": "x"}'
    async with _http(floor) as url, ClientSession() as session:
        answer = await session.post(url, data=body, headers=_signed(body))
        text = await answer.text()

    assert (answer.status, "abc" in text) == (200, True)
