"""What tests of configuration put into files and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.app.policy_file import load_policy
from bot.core.errors import Misconfigured
from bot.core.policy import Policy

SECRETS = {
    "SLACK_BOT_TOKEN": "xoxb-hunter2-bot",
    "SLACK_APP_TOKEN": "xapp-hunter2-app",
    "SLACK_SIGNING_SECRET": "hunter2-signing",
    "ANTHROPIC_API_KEY": "sk-hunter2-key",
}
"""All that `serve` may need; no message may ever show them."""


def read(file: Path, text: str) -> Policy:
    """The policy of a file with that text."""
    file.write_text(text, encoding="utf-8")
    return load_policy(file, must_exist=True)


def refused(file: Path, text: str) -> list[str]:
    """What is said of that text, one fault a line, without the file's path."""
    with pytest.raises(Misconfigured) as caught:
        read(file, text)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(str(file)) for line in lines)
    return [line.removeprefix(str(file)) for line in lines]
