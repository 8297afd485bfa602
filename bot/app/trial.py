"""`plimsoll try`: a workspace page, a model, ingress, worker and store on this machine, with no account.

Each part is its own process, as in production; the page and the local workspace live in this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bot.app.settings import Settings, listening_socket
from bot.core.errors import Misconfigured, OutsideFailed
from bot.lab.slack_page import add_page
from bot.lab.slack_server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, LocalSlack
from bot.lab.story_brain import QUESTIONS
from bot.store.embedded import in_use

POLICY = """\
# The policy of the trial. Carol and Dave may decide about critical calls; Erin reads the logs.
[approvals]
channel = "C0ESCALATE"
[approvals.default]
users = ["U0CAROL", "U0DAVE"]
[people]
auditors = ["U0ERIN"]
"""
LAB_KEY = "sk-lab"
READY_S = 30.0


@dataclass
class Trial:
    """Everything that was started, to be ended together."""

    home: Path
    slack: LocalSlack
    env: dict[str, str]
    children: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def start(self, name: str, *arguments: str) -> str:
        """A child process of ours; its first line on standard output."""
        log = (self.home / f"{name}.log").open("wb")
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *arguments), env=self.env, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        log.close()
        self.children[name] = child
        return await self.line_of(name)

    async def line_of(self, name: str, containing: bytes = b"") -> str:
        """The next line of that child that holds these words. Raises `OutsideFailed` when it ended instead."""
        child = self.children[name]
        assert child.stdout is not None
        async with asyncio.timeout(READY_S):
            while line := await child.stdout.readline():
                if containing in line:
                    return line.decode()
        log = (self.home / f"{name}.log").read_text(errors="replace").strip().splitlines()
        raise OutsideFailed(f"{name} ended at its start: {log[-1] if log else 'it said nothing'}")

    async def audit(self, thread: str) -> str:
        """What `plimsoll audit show` tells of that thread."""
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot.app.cli", "audit", "show", f"T0PLIMSOLL/{thread}"),
            env=self.env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await child.communicate()
        return told.decode(errors="replace")

    async def end(self) -> None:
        """Stop every child, by pid, and wait for it."""
        for child in reversed(self.children.values()):
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        for child in self.children.values():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), 12)
        await self.slack.stop_server()


async def run_trial(*, real: bool, story: bool, port: int) -> int:
    """Until Ctrl-C, or until the story is played. Returns the exit code."""
    settings = Settings.read(os.environ)
    if real and not settings.api_key:
        raise Misconfigured("plimsoll try --real needs ANTHROPIC_API_KEY in the environment")
    begun = time.monotonic()
    home = settings.home.resolve() / "try"
    trial = Trial(home, LocalSlack(port=_free_port(port)), _environment(home, real=real))
    add_page(trial.slack, suggestions=list(QUESTIONS), scripted_model=not real, audit=trial.audit)
    await trial.slack.start()
    print(f"Plimsoll to try: {trial.slack.url}   (up after {time.monotonic() - begun:.1f} s)", flush=True)
    try:
        _fresh(home)
        await _start_all(trial, real=real)
        print(f"Ready. {_model_words(real)} To audit: PLIMSOLL_HOME={home} plimsoll audit threads", flush=True)
        if story:
            from bot.app.trial_story import play  # noqa: PLC0415  only the story needs it

            return await play(trial.slack, trial.audit)
        return await _until_stopped(trial)
    finally:
        await trial.end()


def _free_port(wanted: int) -> int:
    listener = listening_socket("the page", ("127.0.0.1", wanted, False))
    with listener:
        return int(listener.getsockname()[1])


def _environment(home: Path, *, real: bool) -> dict[str, str]:
    env = dict(os.environ)
    if not real:
        env |= {"ANTHROPIC_API_KEY": LAB_KEY}
    env.pop("REDIS_URL", None)
    return env | {
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_APP_TOKEN": APP_TOKEN,
        "SLACK_SIGNING_SECRET": SIGNING_SECRET,
        "PLIMSOLL_HOME": str(home),
        "PLIMSOLL_CONFIG": str(home / "plimsoll.toml"),
        "PLIMSOLL_HTTP": "127.0.0.1:0",
        "PLIMSOLL_ADMIN": "127.0.0.1:0",
    }


def _fresh(home: Path) -> None:
    """A trial begins empty: the local workspace forgets its messages, so the logs of the last one go too."""
    if home.exists():
        if in_use(home):
            raise Misconfigured(f"another trial is running on {home}; end it first, or set another PLIMSOLL_HOME")
        shutil.rmtree(home)
    home.mkdir(parents=True, mode=0o700)
    (home / "plimsoll.toml").write_text(POLICY)


async def _start_all(trial: Trial, *, real: bool) -> None:
    trial.env["SLACK_API_URL"] = trial.slack.api_url
    if not real:
        line = await trial.start("model", "bot.lab.messages_server", "--story")
        trial.env["ANTHROPIC_BASE_URL"] = json.loads(line)["url"]
    await asyncio.gather(
        trial.start("worker", "bot.app.cli", "serve", "--role", "worker"),
        trial.start("ingress", "bot.app.cli", "serve", "--role", "ingress"),
    )
    await asyncio.gather(trial.line_of("worker", b"ready"), trial.line_of("ingress", b"ready"))


def _model_words(real: bool) -> str:
    return "The model is the real one." if real else "The model is scripted: it plays written turns."


async def _until_stopped(trial: Trial) -> int:
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    ends = [asyncio.create_task(child.wait()) for child in trial.children.values()]
    waits = [asyncio.create_task(stopped.wait()), *ends]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in waits:
        task.cancel()
    if not stopped.is_set():
        gone = [name for name, child in trial.children.items() if child.returncode is not None]
        raise OutsideFailed(f"{', '.join(gone)} ended by itself; see the logs in {trial.home}")
    return 0
