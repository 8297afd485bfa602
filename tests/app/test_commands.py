"""The command line as an operator meets it: one clear line and an exit code, never a stack trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live import live

pytestmark = pytest.mark.wire
SERVE = {"PLIMSOLL_HTTP": "127.0.0.1:0", "PLIMSOLL_ADMIN": "127.0.0.1:0"}


@pytest.mark.parametrize(
    ("command", "env", "code", "said"),
    [
        (["audit", "show", "T1/C1/1.1"], {}, 1, "no log of T1/C1/1.1"),
        (["audit", "verify", "nonsense"], {}, 2, "TEAM/CHANNEL/TS"),
        (["audit", "threads"], {"REDIS_URL": "redis://:s3cret@127.0.0.1:1/0"}, 3, "127.0.0.1:1"),
        (["serve", "--role", "boss"], {}, 2, "all, ingress or worker"),
        (["serve"], {"SLACK_BOT_TOKEN": "", "SLACK_APP_TOKEN": ""}, 2, "SLACK_BOT_TOKEN, SLACK_APP_TOKEN"),
        (["serve"], {"SLACK_BOT_TOKEN": "xoxb-wrong"}, 3, "the token is not valid"),
        (["serve"], {"SLACK_APP_TOKEN": "xapp-wrong"}, 3, "the token is not valid"),
        (["serve"], {"SLACK_API_URL": "http://127.0.0.1:1/api/"}, 3, "Slack did not answer auth.test"),
        (["serve"], {"SLACK_API_URL": "https://evil.example/api/"}, 2, "api_hosts"),
        (["serve"], {"REDIS_URL": "redis://127.0.0.1:1/0"}, 3, "Redis at 127.0.0.1:1"),
        (["serve"], {"PLIMSOLL_HTTP": "127.0.0.1:99999"}, 2, "PLIMSOLL_HTTP"),
        (["config", "check", "--config", "none.toml"], {}, 2, "none.toml"),
        (["try", "--real"], {"ANTHROPIC_API_KEY": ""}, 2, "ANTHROPIC_API_KEY"),
        (["frobnicate"], {}, 2, "frobnicate"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
async def test_what_cannot_go_on_is_said_in_one_line_with_its_exit_code(
    tmp_path: Path, command: list[str], env: dict[str, str], code: int, said: str
) -> None:
    """1 not found, 2 usage or configuration, 3 a dependency."""
    async with live(tmp_path) as world:
        found, output = await world.command(*command, **(SERVE | env))

    assert (found, said in output) == (code, True), output
    assert "Traceback" not in output and "s3cret" not in output


async def test_bad_settings_are_named_all_at_once_with_their_place(tmp_path: Path) -> None:
    """Setting, value, file and line, what is allowed, the nearest known one."""
    policy = 'colour = "red"\n[caps]\nturnz = 3\nturns = 0\n[untrusted]\nreading = "sealed"\n'
    async with live(tmp_path, policy=policy) as world:
        code, output = await world.command("serve")

    assert code == 2
    for said in (
        ":1: unknown setting colour",
        "did you mean caps.turns",
        ":4: caps.turns = 0",
        "sealed reading is not built",
    ):
        assert said in output


async def test_a_log_is_exported_verified_offline_and_found_out_when_it_was_touched(tmp_path: Path) -> None:
    """The auditor's whole way, by hand."""
    async with live(tmp_path) as world:
        await world.start()
        ts = await world.ask("Where is order 4930?")
        await world.answer(ts)
        thread, file = f"T0PLIMSOLL/C0SUPPORT/{ts}", tmp_path / "log.jsonl"
        link = f"https://plimsoll.slack.com/archives/C0SUPPORT/p{ts.replace('.', '')}"

        shown = await world.command("audit", "show", link)
        exported = await world.command("audit", "export", thread, "--out", str(file))
        lines = file.read_text().splitlines()
        head = json.loads(lines[-1])["hash"]
        whole = await world.command("audit", "verify", str(file), "--head", head)
        stored = await world.command("audit", "verify", thread, "--head", head)
        file.write_text("\n".join(lines[:-1]) + "\n")
        cut = await world.command("audit", "verify", str(file), "--head", head)
        file.write_text("\n".join(lines).replace("U0ALICE", "U0MALLORY") + "\n")
        forged = await world.command("audit", "verify", str(file))

    assert [code for code, _ in (shown, exported, whole, stored, cut, forged)] == [0, 0, 0, 0, 1, 1]
    assert "cut off" in cut[1] and "entry 1" in forged[1]
    assert set(json.loads(lines[0])) == {
        "v",
        "seq",
        "at",
        "type",
        "run",
        "payload",
        "salt",
        "payload_digest",
        "prev",
        "hash",
    }


async def test_a_taken_port_that_was_asked_for_is_an_error_and_a_taken_default_is_not(tmp_path: Path) -> None:
    """The ports in use are printed first."""
    async with live(tmp_path) as world:
        taken = f"127.0.0.1:{world.slack.port}"
        code, output = await world.command("serve", PLIMSOLL_HTTP=taken)

    assert (code, taken in output) == (2, True)
