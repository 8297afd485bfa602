"""The `plimsoll` command as a process: its exit codes, one clear line for what went wrong, never a stack trace."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.console.export import export
from tests.app.files import SECRETS
from tests.builders import THREAD
from tests.console.logs import HOSTILE, log

pytestmark = pytest.mark.wire
ROOT = Path(__file__).parent.parent.parent
UNKNOWN = "T0PLIMSOLL/C0SUPPORT/1.000001"
NOBODY = "127.0.0.1:1"
"""Where nothing ever listens."""
TOOLS = '''
from bot.core.authority import Authority
from bot.core.tool import ToolContext, tool
from pydantic import BaseModel

class Args(BaseModel):
    pass

@tool(authority=Authority.SEND)
async def ring_the_bell(args: Args, context: ToolContext) -> str:
    """Ring it."""
    return "rung"
'''


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    errors: str


Command = Callable[..., Awaitable[Ended]]


@pytest.fixture
def plimsoll(tmp_path: Path) -> Command:
    """Run it to its end in a folder of its own, with nothing in the environment but what is given."""

    async def run(*arguments: str, **env: str) -> Ended:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot.app.cli", *arguments),
            env={**kept, "PYTHONPATH": str(ROOT), "PLIMSOLL_HTTP": "127.0.0.1:0", "PLIMSOLL_ADMIN": "127.0.0.1:0"}
            | env,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, errors = await asyncio.wait_for(process.communicate(), 30)
        finally:
            if process.returncode is None:
                process.kill()
        ended = Ended(process.returncode or 0, out.decode(), errors.decode())
        assert "Traceback" not in ended.errors + ended.out, ended.errors
        assert "hunter2" not in ended.errors + ended.out
        return ended

    return run


def said(ended: Ended) -> str:
    """The one line on standard error."""
    [line] = ended.errors.splitlines()
    assert line.startswith("plimsoll: ")
    return line.removeprefix("plimsoll: ")


async def test_help_imports_no_vendor() -> None:
    """It answers at once: what takes a second to import is imported by the command that needs it."""
    look = (
        "import sys; sys.argv = ['plimsoll', '--help']\n"
        "from bot.app.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code)\n"
        "heavy = ('anthropic', 'mcp', 'slack_bolt', 'slack_sdk', 'redis', 'aiohttp')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", look), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )

    out, _ = await process.communicate()

    assert "audit" in out.decode() and "serve" in out.decode()
    assert out.decode().splitlines()[-2:] == ["0", "[]"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "No such command"),
        (("audit", "show"), "Missing argument"),
        (("serve", "--nonsense"), "No such option"),
    ],
)
async def test_a_command_that_does_not_exist_ends_with_two(
    plimsoll: Command, arguments: tuple[str, ...], words: str
) -> None:
    """Usage."""
    ended = await plimsoll(*arguments)

    assert (ended.code, words in ended.errors) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        (("audit", "show", "nonsense"), {"REDIS_URL": f"redis://{NOBODY}/0"}, "'nonsense' is no thread; write TEAM/"),
        (("audit", "export", "a/b", "--format", "md"), {}, "'a/b' is no thread; write TEAM/CHANNEL/TS or paste"),
        (("audit", "verify", "gone.jsonl"), {}, "There is no file 'gone.jsonl', and 'gone.jsonl' is no thread"),
        (("audit", "verify", "x" * 5000), {}, "is no thread; write TEAM/CHANNEL/TS"),
        (("audit", "export", UNKNOWN, "--format", "pdf"), {}, "--format 'pdf': jsonl, html or md"),
        (("config", "explain"), {"PLIMSOLL_CONFIG": "gone.toml"}, "PLIMSOLL_CONFIG = gone.toml: there is no such file"),
        (("config", "check"), {"SLACK_API_URL": "https://u:hunter2@evil.example"}, "SLACK_API_URL = 'evil.example/'"),
        (("serve",), {"PLIMSOLL_HTTP": "8088"}, "PLIMSOLL_HTTP = '8088': write HOST:PORT"),
        (("serve",), {**SECRETS, "SLACK_API_URL": "http://slack.com"}, "SLACK_API_URL = 'http://slack.com/': https"),
        (("serve",), {"SLACK_BOT_TOKEN": "hunter2\nx"}, "SLACK_BOT_TOKEN holds a blank or a character"),
        (("audit", "threads"), {"REDIS_URL": "http://:hunter2@x"}, "REDIS_URL has no known form; write redis://"),
        (("audit", "threads"), {"PLIMSOLL_HOME": "/dev/null"}, "/dev/null cannot be used"),
    ],
)
async def test_bad_usage_and_configuration_end_with_two(
    plimsoll: Command, arguments: tuple[str, ...], env: dict[str, str], words: str
) -> None:
    """Setting, value, what to write; before anything is started."""
    ended = await plimsoll(*arguments, **env)

    assert (ended.code, words in said(ended)) == (2, True), ended


async def test_a_bad_policy_file_ends_with_two_and_all_its_faults(plimsoll: Command, tmp_path: Path) -> None:
    """One a line, with the line of the file."""
    (tmp_path / "plimsoll.toml").write_text('[caps]\nturns = 0\nturn = 1\n[untrusted]\nreading = "sealed"\n')

    ended = await plimsoll("serve")

    assert ended.code == 2
    assert [line.partition(": ")[0] for line in ended.errors.removeprefix("plimsoll: ").splitlines()] == [
        *("plimsoll.toml:2", "plimsoll.toml:3", "plimsoll.toml:5")
    ]


async def test_a_tool_module_that_cannot_be_imported_ends_with_two(plimsoll: Command, tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "plimsoll.toml").write_text('[tools]\nmodules = ["no_such_tools"]\n')

    ended = await plimsoll("serve", **SECRETS)

    assert (ended.code, "[tools] modules: 'no_such_tools' cannot be imported" in said(ended)) == (2, True)


async def test_a_tool_module_beside_the_named_policy_file_is_used(plimsoll: Command, tmp_path: Path) -> None:
    """The file's folder is on the import path, wherever the command is run."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "bells.py").write_text(TOOLS)
    (folder / "p.toml").write_text('[tools]\nmodules = ["bells"]\n[tools.policy.ring_the_bell]\napprove = "always"\n')

    ended = await plimsoll("tools", "list", PLIMSOLL_CONFIG="elsewhere/p.toml")

    assert ended.code == 0
    listed = [line.split() for line in ended.out.splitlines()]
    assert listed == [
        ["ring_the_bell", "send", "output", "untrusted,", "always", "asks"],
        ["todo", "observe", "output", "internal"],
    ]


async def test_a_policy_that_does_not_fit_the_tools_ends_with_two(plimsoll: Command, tmp_path: Path) -> None:
    """Known only when the tools are."""
    (tmp_path / "plimsoll.toml").write_text('[tools.policy.issue_credit]\nauthority = "observe"\n')

    ended = await plimsoll("config", "check")

    assert (ended.code, "may raise it, never lower it" in said(ended)) == (2, True)


async def test_a_good_configuration_ends_with_nought(plimsoll: Command) -> None:
    """Without a file, and without a token: what is there fits."""
    ended = await plimsoll("config", "check")

    assert (ended.code, ended.errors) == (0, "")
    assert "good; 12 tools" in ended.out


@pytest.mark.parametrize("url", [f"redis://{NOBODY}/0", f"redis://:hunter2@{NOBODY}/0", "unix:///no/such/socket"])
async def test_a_redis_that_cannot_be_reached_ends_with_three(plimsoll: Command, url: str) -> None:
    """It says where; the password never."""
    ended = await plimsoll("audit", "threads", REDIS_URL=url)

    assert (ended.code, said(ended).startswith("Redis at ")) == (3, True)


async def test_a_file_is_verified_without_any_store(plimsoll: Command, tmp_path: Path) -> None:
    """Good, cut and changed; the store of the environment is not even there."""
    lines = export(THREAD, log(HOSTILE), "jsonl").splitlines(keepends=True)
    changed = json.loads(lines[2]) | {"at": "2026-12-01T10:00:00.000000Z"}
    (tmp_path / "good").write_text("".join(lines))
    (tmp_path / "cut").write_text("".join(lines[:-1]))
    (tmp_path / "changed").write_text("".join([*lines[:2], json.dumps(changed) + "\n", *lines[3:]]))
    ask = ("--head", log(HOSTILE)[-1].hash)

    ended = [
        await plimsoll("audit", "verify", name, *ask, REDIS_URL=f"redis://{NOBODY}/0")
        for name in ("good", "cut", "changed")
    ]

    assert [one.code for one in ended] == [0, 1, 1]
    words = ["WHOLE", "its end was cut off", "BROKEN at entry 3"]
    assert [word in one.out for word, one in zip(words, ended, strict=True)] == [True, True, True]
