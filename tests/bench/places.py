"""Which core runs what, and the processes beside the one that is measured."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from bot.store.embedded import Embedded

ROOT = Path(__file__).parent.parent.parent


def cores() -> list[int]:
    """What this machine lets us use, the same in every process of a run."""
    said = os.environ.get("PLIMSOLL_BENCH_CORES")
    found = [int(one) for one in said.split(",")] if said else sorted(os.sched_getaffinity(0))
    os.environ["PLIMSOLL_BENCH_CORES"] = ",".join(map(str, found))
    return found


def pin_here() -> None:
    """The measured process has the first core to itself, as far as the machine has two."""
    if len(found := cores()) > 1:
        os.sched_setaffinity(0, found[:1])


def pin_away(pid: int = 0) -> None:
    """A process that is not measured takes the others."""
    if len(found := cores()) > 1:
        os.sched_setaffinity(pid, found[1:])


class Wire:
    """The lean server's process, as its users see it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, path: str) -> str:
        """A base URL that plays that plan."""
        return f"http://127.0.0.1:{self.port}{path}"

    def seen(self) -> dict[str, object]:
        """What it noticed since the last look."""
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{self.port}/seen", timeout=10) as answer:
            found: dict[str, object] = json.load(answer)
        return found


@contextlib.contextmanager
def wire() -> Iterator[Wire]:
    """Up while the body runs; it ends when its standard input does, even when we are killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.wire"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield Wire(json.loads(process.stdout.readline())["port"])
    finally:
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextlib.contextmanager
def valkey(appendfsync: str = "always") -> Iterator[Embedded]:
    """A real server on a fresh home, off our core."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as home:
        server = Embedded(Path(home), appendfsync=appendfsync).start()
        try:
            if server.pid is not None:
                pin_away(server.pid)
            yield server
        finally:
            server.close()


@contextlib.contextmanager
def unpinned() -> Iterator[None]:
    """Where whole processes are measured they run as they would."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores())
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
