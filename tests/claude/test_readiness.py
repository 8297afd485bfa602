"""Whether the model can be used just now: said cheaply, and never because a gateway has no list of models."""

from __future__ import annotations

import pytest
from aiohttp import web

from bot.claude.client import Claude
from bot.engine.ports import ModelFailure
from bot.lab.messages_script import Status, Turn
from bot.lab.messages_server import API_KEY
from tests.claude.asked import request, within
from tests.claude.conftest import Place
from tests.claude.odd import loopback

pytestmark = pytest.mark.wire


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, ""),
        (404, ""),
        (405, ""),
        (403, ""),
        (400, ""),
        (307, "has moved"),
        (401, "refused the API key (401)"),
        (500, "failed (500)"),
        (529, "is overloaded (529)"),
    ],
)
async def test_any_answer_but_a_failure_or_a_refused_key_is_a_sign_of_life(status: int, said: str) -> None:
    """Asked once in a while, however often readiness is looked at."""
    asked: list[str] = []

    async def answer(found: web.Request) -> web.Response:
        asked.append(found.path)
        return web.json_response({"data": [], "has_more": False}, status=status)

    async with loopback(answer) as url:
        client = Claude(api_key=API_KEY, base_url=url)
        troubles = [await client.trouble() for _ in range(3)]
        await client.close()

    assert len(set(troubles)) == 1 and said in troubles[0] and bool(said) is bool(troubles[0])
    assert asked == ["/v1/models"]


async def test_a_service_that_is_not_there_is_said_in_one_line() -> None:
    """With what was tried."""
    client = Claude(api_key=API_KEY, base_url="http://127.0.0.1:9")
    trouble = await client.trouble()
    await client.close()

    assert "could not be reached" in trouble and "\n" not in trouble


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status(529, "overloaded_error"), "is overloaded"),
        (Status(401, "authentication_error"), "refused the API key"),
        (Status(400, "invalid_request_error"), ""),
    ],
)
async def test_what_the_last_question_met_is_what_readiness_says(place: Place, status: Status, said: str) -> None:
    """Nothing is asked for it: a question is a better sign than a list of models."""
    await place.plays(Turn("hello")).ask(request(), within(10))
    assert await place.client.trouble() == ""

    with pytest.raises(ModelFailure):
        await place.plays(status).ask(request(), within(10))
    trouble = await place.client.trouble()
    assert said in trouble and bool(said) is bool(trouble)

    await place.plays(Turn("hello")).ask(request(), within(10))
    assert await place.client.trouble() == ""
