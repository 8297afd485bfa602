"""What every test gets: no proxy, no real service, one Valkey for those that ask."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bot.store.embedded import Embedded
from tests.valkey import running_valkey

for _name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
    # aiohttp obeys these even for 127.0.0.1
    os.environ.pop(_name, None)
for _name in (
    "SLACK_BOT_TOKEN",
    "SLACK_APP_TOKEN",
    "ANTHROPIC_API_KEY",
    "REDIS_URL",
    "PLIMSOLL_HOME",
    "PLIMSOLL_CONFIG",
):
    # a developer's own keys never reach a test
    os.environ.pop(_name, None)


@pytest.fixture(scope="session")
def valkey() -> Iterator[Embedded]:
    """A real server, shared; use `fresh_store` on it."""
    with running_valkey() as server:
        yield server
