"""The real thing in a test: `plimsoll serve` as its own process, over real sockets, on the wire-level stand-ins."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.lab.messages_script import Brain
from bot.lab.messages_server import API_KEY, ScriptedMessages
from bot.lab.slack_human import words_of
from bot.lab.slack_server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, LocalSlack
from bot.lab.story_brain import StoryBrain

POLICY = """
[approvals]
channel = "C0ESCALATE"
[approvals.critical]
users = ["U0CAROL", "U0DAVE"]
[people]
auditors = ["U0ERIN"]
"""
MENTION = "<@U0BOT>"


@dataclass
class Live:
    """A workspace, a model, and any number of bot processes on one home."""

    slack: LocalSlack
    model: ScriptedMessages
    home: Path
    env: dict[str, str]
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self, *arguments: str, **env: str) -> asyncio.subprocess.Process:
        """One `plimsoll serve`, ready."""
        process = await self.spawn("serve", *arguments, **env)
        assert process.stdout is not None
        async with asyncio.timeout(15):
            while b"ready" not in (line := await process.stdout.readline()):
                assert line, f"serve ended: {await self.ended(process)}"
        if "--http" not in arguments:
            await self.slack.delivering.connected()
        return process

    async def spawn(self, *arguments: str, **env: str) -> asyncio.subprocess.Process:
        """Any plimsoll command in this place."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot.app.cli", *arguments),
            env={**self.env, **env},
            cwd=self.home,
            stdout=asyncio.subprocess.PIPE,
            stderr=(self.home / "errors.log").open("ab"),
        )
        self.processes.append(process)
        return process

    async def command(self, *arguments: str, **env: str) -> tuple[int, str]:
        """Run to its end: exit code and everything it printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot.app.cli", *arguments),
            env={**self.env, **env},
            cwd=self.home,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        return process.returncode or 0, output.decode()

    async def stop(self, process: asyncio.subprocess.Process, how: int = signal.SIGTERM) -> int:
        """End it, by pid."""
        if process.returncode is None:
            process.send_signal(how)
        return await asyncio.wait_for(process.wait(), 20)

    async def ended(self, process: asyncio.subprocess.Process) -> str:
        """What it said of its end."""
        await process.wait()
        return (self.home / "errors.log").read_text()

    async def ask(self, text: str, user: str = "U0ALICE", **extra: Any) -> str:
        """A mention in the support channel; the thread's ts."""
        return await self.slack.say(user, f"{MENTION} {text}", **extra)

    async def card(self, thread: str) -> Any:
        """The thread's open card."""
        return await self.slack.wait_for(
            lambda: next((one for one in self.slack.cards() if one.thread_ts == thread), None), 15, "a card"
        )

    async def answer(self, thread: str, containing: str = "", timeout_s: float = 15) -> str:
        """The thread's answer, as people see it."""

        def look() -> str:
            found = [words_of(post) for post in self.slack.ours(thread_ts=thread) if "Reference ref-" in words_of(post)]
            return next((one for one in found if containing in one), "")

        return str(await self.slack.wait_for(look, timeout_s, "an answer"))


@contextlib.asynccontextmanager
async def live(
    home: Path,
    *,
    brain: Brain | None = None,
    policy: str = POLICY,
    rates: bool = False,
    prepare: Callable[[LocalSlack], None] = lambda slack: None,
) -> AsyncIterator[Live]:
    """Everything but the bot is up; start it with `start`. `prepare` sees the workspace before it listens."""
    (home / "plimsoll.toml").write_text(policy)
    workspace = LocalSlack(rates=rates)
    prepare(workspace)
    async with workspace as slack, ScriptedMessages(brain or StoryBrain()) as model:
        env = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "PYTHONPATH")}
        env |= {
            "PYTHONPATH": str(Path(__file__).parent.parent),
            "SLACK_BOT_TOKEN": BOT_TOKEN,
            "SLACK_APP_TOKEN": APP_TOKEN,
            "SLACK_SIGNING_SECRET": SIGNING_SECRET,
            "SLACK_API_URL": slack.api_url,
            "ANTHROPIC_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": model.url,
            "PLIMSOLL_HOME": str(home / "state"),
            "PLIMSOLL_HTTP": "127.0.0.1:0",
            "PLIMSOLL_ADMIN": "127.0.0.1:0",
        }
        world = Live(slack, model, home, env)
        try:
            yield world
        finally:
            for process in world.processes:
                with contextlib.suppress(ProcessLookupError):
                    await world.stop(process)
