"""The environment: one place that reads it, and says what is wrong with it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bot.core.errors import Misconfigured
from bot.core.policy import Policy

SLACK_API = "https://slack.com/api/"
HTTP, ADMIN = "127.0.0.1:8088", "127.0.0.1:8089"


class Secret:
    """A value that no message or dump ever shows: no dataclass, or `asdict` of what holds it would."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for the one call that needs it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "(secret)"


@dataclass(frozen=True)
class Settings:
    """What the environment says."""

    bot_token: Secret
    app_token: Secret
    signing_secret: Secret
    api_key: Secret
    slack_api_url: str
    anthropic_base_url: str | None = field(repr=False)
    redis_url: str = field(repr=False)
    """Not shown: it may hold a password, and so may an address of the model."""
    home: Path
    config: Path
    config_is_explicit: bool
    http: tuple[str, int, bool]
    """Host, port, and whether it was asked for."""
    admin: tuple[str, int, bool]

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Settings:
        """Raises `Misconfigured` for a value that cannot be."""
        url = (env.get("SLACK_API_URL") or SLACK_API).strip()
        return cls(
            bot_token=_secret("SLACK_BOT_TOKEN", env),
            app_token=_secret("SLACK_APP_TOKEN", env),
            signing_secret=_secret("SLACK_SIGNING_SECRET", env),
            api_key=_secret("ANTHROPIC_API_KEY", env),
            slack_api_url=url if url.endswith("/") else url + "/",
            anthropic_base_url=env.get("ANTHROPIC_BASE_URL") or None,
            redis_url=env.get("REDIS_URL", ""),
            home=Path(env.get("PLIMSOLL_HOME") or ".plimsoll"),
            config=Path(env.get("PLIMSOLL_CONFIG") or "plimsoll.toml"),
            config_is_explicit=bool(env.get("PLIMSOLL_CONFIG")),
            http=_address("PLIMSOLL_HTTP", env.get("PLIMSOLL_HTTP"), HTTP),
            admin=_address("PLIMSOLL_ADMIN", env.get("PLIMSOLL_ADMIN"), ADMIN),
        )

    def check_for_serve(self, policy: Policy, *, http: bool, role: str = "all") -> None:
        """Everything that `serve` needs is there and may be used. Raises `Misconfigured` naming all that is not."""
        needed = {"SLACK_BOT_TOKEN": self.bot_token}
        if role != "worker":
            needed |= {"SLACK_SIGNING_SECRET": self.signing_secret} if http else {"SLACK_APP_TOKEN": self.app_token}
        if role != "ingress":
            needed["ANTHROPIC_API_KEY"] = self.api_key
        if missing := [name for name, value in needed.items() if not value]:
            how = "plimsoll serve --http" if http else "plimsoll serve"
            raise Misconfigured(f"{how} needs {', '.join(missing)} in the environment")
        check_api_host(self.slack_api_url, policy)


def _secret(name: str, env: Mapping[str, str]) -> Secret:
    """Line ends of a file that was read into the variable are taken off; a header could not carry the rest."""
    value = env.get(name, "").strip()
    if not all("!" <= character <= "~" for character in value):
        raise Misconfigured(f"{name} holds a blank or a character that no token has; copy it again")
    return Secret(value)


def check_api_host(url: str, policy: Policy) -> None:
    """A wrong host would be sent the bot's token. Raises `Misconfigured`; what stands before an @ is never shown."""
    allowed = ("slack.com", *(host.lower() for host in policy.slack.api_hosts))
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    # Readers of addresses disagree about these, so that a check of the host would mean nothing.
    plain = not set("@\\?#%") & set(url) and url.isascii() and url.isprintable() and " " not in url
    schemes = ("http", "https") if is_loopback(host) else ("https",) if host in allowed else ()
    if not plain or parts.scheme not in schemes:
        raise Misconfigured(
            f"SLACK_API_URL = {url.rpartition('@')[2]!r}: https and one of {', '.join(allowed)}, or a loopback "
            "address, with nothing but a path behind it; further hosts are named in [slack] api_hosts"
        )


def is_loopback(host: str) -> bool:
    """Whether that host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(name: str, given: str | None, default: str) -> tuple[str, int, bool]:
    text = given or default
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65535:
        raise Misconfigured(f"{name} = {text!r}: write HOST:PORT, for example {default}; port 0 takes any free one")
    return host.strip("[]"), int(port), bool(given)


def listening_socket(name: str, address: tuple[str, int, bool]) -> socket.socket:
    """Bound and ready; a default port that is taken becomes any free one, an explicit one is an error."""
    host, port, explicit = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for attempt in (port, 0):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, attempt))
        except (OSError, UnicodeError) as error:  # a host that no name server would take is a UnicodeError
            listener.close()
            if explicit:
                why = getattr(error, "strerror", None) or "no such host"
                raise Misconfigured(f"{name} = {host}:{port}: {why}; choose another address or port 0") from None
            continue
        listener.listen(128)
        return listener
    raise Misconfigured(f"{name}: no port on {host} can be had")
