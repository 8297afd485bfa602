"""The environment: what is read, what is refused, and what is never shown."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from bot.app.settings import Settings, listening_socket
from bot.core.errors import Misconfigured
from bot.core.policy import Policy
from tests.app.files import SECRETS


def check(url: str, **slack: list[str]) -> None:
    """Whether `serve` may talk to that address."""
    settings = Settings.read({**SECRETS, "SLACK_API_URL": url})
    settings.check_for_serve(Policy.model_validate({"slack": slack}), http=False)


def test_nothing_set_is_the_documented_defaults() -> None:
    """An empty variable counts as not set."""
    settings = Settings.read({"SLACK_API_URL": "", "PLIMSOLL_HOME": "", "PLIMSOLL_CONFIG": "", "REDIS_URL": ""})

    assert settings.slack_api_url == "https://slack.com/api/"
    assert (settings.home, settings.config, settings.config_is_explicit) == (
        Path(".plimsoll"),
        Path("plimsoll.toml"),
        False,
    )
    assert (settings.http, settings.admin) == (("127.0.0.1", 8088, False), ("127.0.0.1", 8089, False))
    assert (settings.redis_url, settings.anthropic_base_url) == ("", None)


@pytest.mark.parametrize("shape", [repr, str, lambda one: json.dumps(asdict(one), default=str), "{0}".format])
def test_a_secret_is_in_no_dump_of_the_settings(shape: object) -> None:
    """Not in a log line, a fault or a debugger's table."""
    settings = Settings.read({**SECRETS, "ANTHROPIC_BASE_URL": "https://api.example"})

    assert "hunter2" not in shape(settings)  # type: ignore[operator]  # one of the callables above


def test_the_password_of_redis_is_in_no_dump_of_the_settings() -> None:
    """It stands inside the address."""
    assert "hunter2" not in repr(Settings.read({"REDIS_URL": "redis://:hunter2@db.example:6379/0"}))


def test_a_secret_is_what_was_given_when_it_is_asked_for() -> None:
    """And line ends of a file that was read into the variable are no part of it."""
    settings = Settings.read({"SLACK_BOT_TOKEN": " xoxb-1\n"})

    assert settings.bot_token.reveal() == "xoxb-1"
    assert (bool(settings.bot_token), bool(settings.app_token)) == (True, False)


@pytest.mark.parametrize("value", ["xoxb-hunter2\nX-Evil: 1", "xoxb hunter2", "xoxb-hunter2é", "xoxb-hunter2\x00"])
def test_a_token_that_no_header_can_carry_is_refused_unseen(value: str) -> None:
    """The variable is named, its value is not."""
    with pytest.raises(Misconfigured, match="SLACK_BOT_TOKEN holds a blank") as caught:
        Settings.read({"SLACK_BOT_TOKEN": value})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("http", "missing"),
    [
        (False, "plimsoll serve needs SLACK_BOT_TOKEN, SLACK_APP_TOKEN, ANTHROPIC_API_KEY in the environment"),
        (True, "serve --http needs SLACK_BOT_TOKEN, SLACK_SIGNING_SECRET, ANTHROPIC_API_KEY in the environment"),
    ],
)
def test_all_missing_variables_are_named_at_once(http: bool, missing: str) -> None:
    """Those that this way of serving needs, and no others."""
    with pytest.raises(Misconfigured, match=missing):
        Settings.read({}).check_for_serve(Policy(), http=http)


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_one_missing_variable_is_named_alone(name: str) -> None:
    """Neither way of serving asks for what the other needs."""
    settings = Settings.read({key: value for key, value in SECRETS.items() if key != name})
    http = name == "SLACK_SIGNING_SECRET"

    with pytest.raises(Misconfigured) as caught:
        settings.check_for_serve(Policy(), http=http)

    assert [one for one in SECRETS if one in str(caught.value)] == [name]
    if name in ("SLACK_SIGNING_SECRET", "SLACK_APP_TOKEN"):
        settings.check_for_serve(Policy(), http=not http)


@pytest.mark.parametrize(
    "url",
    [
        "https://slack.com/api/",
        "https://slack.com/api",
        "https://SLACK.com/api/",
        "http://127.0.0.1:4000/api/",
        "http://127.8.8.8/api/",
        "http://localhost:4000/api/",
        "http://[::1]:4000/api/",
        "https://127.0.0.1:4000/api/",
    ],
)
def test_slack_and_this_machine_may_be_given_the_token(url: str) -> None:
    """And an address always ends with a slash, as the client expects."""
    check(url)

    assert Settings.read({"SLACK_API_URL": url}).slack_api_url.endswith("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://slack.com/api/",
        "https://evil.example/api/",
        "https://slack.com.evil.example/api/",
        "https://evilslack.com/api/",
        "https://api.slack.com/api/",
        "https://slack.com@evil.example/api/",
        "https://slack.com:443@evil.example/api/",
        "https://evil.example\\@slack.com/api/",
        "https://evil.example#@slack.com/api/",
        "https://evil.example?@slack.com/api/",
        "https://user:hunter2@slack.com/api/",
        "https://127.0.0.1@evil.example/api/",
        "http://127.0.0.1.evil.example/api/",
        "http://localhost.evil.example/api/",
        "http://user@127.0.0.1/api/",
        "http://0.0.0.0/api/",
        "http://10.0.0.7/api/",
        "http://2130706433/api/",
        "http://[::ffff:10.0.0.7]/api/",
        "https://slack.com:port/api/",
        "https://slack.com/api/?to=evil.example",
        "https://slаck.com/api/",
        "https://slack.com./api/",
        "https://sla\nck.com/api/",
        "https:///api/",
        "slack.com/api/",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "https://[::1/api/",
        "https://",
    ],
)
def test_any_other_address_is_refused(url: str) -> None:
    """Whoever answers there would be sent the bot's token."""
    with pytest.raises(Misconfigured, match=r"SLACK_API_URL = .*https and one of slack.com, or a loopback") as caught:
        check(url)

    assert "hunter2" not in str(caught.value)


def test_the_policy_may_allow_further_hosts_over_https_only() -> None:
    """Exactly those that it names, in any spelling."""
    check("https://gov.slack.example/api/", api_hosts=["GOV.slack.example"])

    for url in ("http://gov.slack.example/api/", "https://x.gov.slack.example/api/", "https://other.example/api/"):
        with pytest.raises(Misconfigured, match=r"one of slack.com, gov.slack.example, .*\[slack\] api_hosts"):
            check(url, api_hosts=["GOV.slack.example"])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0, True)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535, True)),
        ("[::1]:8088", ("::1", 8088, True)),
        ("localhost:80", ("localhost", 80, True)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int, bool]) -> None:
    """Said by somebody, so it is not silently another."""
    assert Settings.read({"PLIMSOLL_HTTP": text}).http == address


@pytest.mark.parametrize(
    "text",
    [
        *("8088", ":8088", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1", "127.0.0.1:65536", "h:80 "),
        *("h:٨٠", "h:²", f"h:{'9' * 5000}"),
    ],
)
@pytest.mark.parametrize("name", ["PLIMSOLL_HTTP", "PLIMSOLL_ADMIN"])
def test_what_is_no_address_is_refused_with_an_example(name: str, text: str) -> None:
    """The setting, the value and what to write."""
    with pytest.raises(Misconfigured, match=f"{name} = .*write HOST:PORT, for example 127.0.0.1:808"):
        Settings.read({name: text})


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens at."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def port_of(address: tuple[str, int, bool]) -> int:
    """Where one would listen."""
    with listening_socket("PLIMSOLL_HTTP", address) as found:
        return int(found.getsockname()[1])


@pytest.mark.wire
def test_port_nought_takes_any_free_one() -> None:
    """Two processes with the same setting do not meet."""
    assert port_of(("127.0.0.1", 0, True)) > 0


@pytest.mark.wire
def test_a_default_port_that_is_taken_becomes_another(taken: int) -> None:
    """A second `plimsoll` on the machine starts."""
    assert port_of(("127.0.0.1", taken, False)) not in (0, taken)


@pytest.mark.wire
def test_a_port_that_was_asked_for_and_is_taken_is_an_error(taken: int) -> None:
    """A load balancer would ask at the wrong door."""
    with pytest.raises(Misconfigured, match=f"PLIMSOLL_HTTP = 127.0.0.1:{taken}: .*in use.*; choose another"):
        port_of(("127.0.0.1", taken, True))


@pytest.mark.wire
@pytest.mark.parametrize("host", ["192.0.2.1", "a" * 70])
def test_a_host_that_is_not_ours_is_an_error(host: str) -> None:
    """One line, whatever the resolver raises."""
    with pytest.raises(Misconfigured, match=f"PLIMSOLL_HTTP = {host}:0: .*choose another"):
        port_of((host, 0, True))
