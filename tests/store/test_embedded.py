"""The server of our own: started once, found again, and every acknowledged write still there."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bot.app.trial import _fresh
from bot.core.errors import Misconfigured
from bot.core.words import ThreadId
from bot.engine.storage import InboxItem
from bot.store import embedded
from bot.store.embedded import Embedded, in_use
from bot.store.redis_store import RedisStore

pytestmark = pytest.mark.wire
THREAD = ThreadId("T1", "C1", "1.1")
START = (
    "import sys, time; from pathlib import Path; from bot.store.embedded import Embedded; "
    "e = Embedded(Path(sys.argv[1])).start(); print(e.pid or 0, flush=True); sys.stdin.read(); e.close()"
)


def _process(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )


def _pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def _gone(pid: int) -> bool:
    """Ended within 4 s; it is no child of ours, so its handle is what tells of its end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 4.0)[0])
    finally:
        os.close(handle)


def test_processes_that_start_at_once_share_one_server_and_the_last_one_out_ends_it(tmp_path: Path) -> None:
    """Two servers on one data folder would steal each other's socket."""
    processes = [_process(tmp_path) for _ in range(4)]
    started = [pid for pid in map(_pid, processes) if pid]
    for process in processes[:-1]:
        process.communicate("")
    alive_for_the_last = Embedded(tmp_path).alive()
    processes[-1].communicate("")

    assert len(started) == 1
    assert alive_for_the_last
    assert _gone(started[0])
    assert oct((tmp_path / "data").stat().st_mode)[-3:] == "700"


def test_a_server_whose_starter_was_killed_is_found_again(tmp_path: Path) -> None:
    """It lives in a session of its own; nothing of it is lost."""
    process = _process(tmp_path)
    pid = _pid(process)
    process.send_signal(signal.SIGKILL)
    process.wait()

    again = Embedded(tmp_path).start()
    mine = again.pid
    again.close()

    assert mine is None
    assert _gone(pid)


async def test_a_killed_server_comes_back_with_every_acknowledged_message(tmp_path: Path) -> None:
    """`appendfsync always`: what Slack was told about is on disk."""
    server = Embedded(tmp_path).start()
    store = await RedisStore.connect(server.url)
    for number in range(200):
        item = InboxItem(THREAD, "message", {"ts": f"{number}"})
        assert await store.inbox.enqueue(item, claim=f"m{number}") == "accepted"
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)

    await asyncio.to_thread(server.start)
    waiting = await store.inbox.peek(THREAD)
    await store.close()
    server.close()

    assert [item.body["ts"] for item in waiting] == [f"{number}" for number in range(200)]


def test_a_home_may_be_relative_deep_or_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Socket paths end at 108 bytes; ours does not depend on the home's length."""
    monkeypatch.chdir(tmp_path)
    for home in (Path(".plimsoll"), tmp_path / ("d" * 100) / ("e" * 100), tmp_path / "with space 'and quote"):
        server = Embedded(home).start()
        alive = server.alive()
        server.close()
        assert alive and len(str(server.socket)) < 100


def test_without_the_extra_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set REDIS_URL, or install it."""
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(Misconfigured, match=r"REDIS_URL.*extra"):
        Embedded(tmp_path).start()


def test_a_home_is_in_use_while_anybody_holds_its_server(tmp_path: Path) -> None:
    """Until the last one lets go; whoever wants to clear it asks first."""
    before = in_use(tmp_path)
    server, other = Embedded(tmp_path).start(), Embedded(tmp_path).start()
    server.close()
    held = in_use(tmp_path)
    with pytest.raises(Misconfigured, match="another trial is running"):
        _fresh(tmp_path)
    kept = other.alive()
    other.close()
    after = in_use(tmp_path)
    _fresh(tmp_path)

    assert (before, held, kept, after) == (False, True, True, False)
    assert [one.name for one in tmp_path.iterdir()] == ["plimsoll.toml"]
