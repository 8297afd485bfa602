"""`plimsoll.toml`: what stands there when nothing does, and what the handbook shows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from bot.app.policy_file import explain
from bot.core.policy import Policy
from tests.app.files import read

DOCUMENTED = """
[model]
name = "claude-sonnet-5-5"
small = "claude-haiku-5-5"
max_output_tokens = 8192
[caps]
turns = 24
tokens = 400_000
usd = 1.50
deadline_s = 300
barren_turns = 3
[loop]
strategy = "react"
parallel = false
reflexion = false
[ceiling]
untrusted = "observe"
extracted = "send"
internal = "critical"
principal = "critical"
[approvals]
expires_after_s = 86_400
remind_after_s = 3_600
asks_per_run = 3
[people]
allow_guests = false
allow_external = false
allow_bots = []
runs_per_hour = 60
[retention]
days = 365
[slack]
api_hosts = []
[tools]
modules = ["tools.helpdesk"]
"""
"""The defaults of the design, section 9; `untrusted.reading` is `open` until sealed reading is built."""
EXAMPLES = """
[approvals]
channel = "C0ESCALATE"
[approvals.default]
users = ["U0CAROL"]
[approvals.critical]
users = ["U0CAROL"]
groups = ["S0LEADS"]
distinct = 1
requester_may_approve = false
delegates = { U0CAROL = "U0DAVE" }
[people]
auditors = ["U0ERIN"]
[egress]
hosts = ["docs.example.com"]
[handover]
channel = "C0TIER2"
[channels.C0SUPPORT]
follow_up = true
tools = ["*"]
[tools.policy.issue_refund]
authority = "critical"
approve = "always"
"""


def leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their whole name."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def test_every_default_is_the_documented_one() -> None:
    """An operator may copy the block from the handbook and change nothing by it."""
    documented = leaves(tomllib.loads(DOCUMENTED))

    ours = leaves(Policy().model_dump(mode="json"))

    assert {name: ours[name] for name in documented} == documented


def test_the_documented_defaults_are_accepted_and_change_nothing(file: Path) -> None:
    """An approval of before still holds after the block was pasted."""
    assert read(file, DOCUMENTED) == Policy()
    assert read(file, DOCUMENTED).version == Policy().version


def test_every_documented_example_is_accepted(file: Path) -> None:
    """Approvers, delegates, channels, what a policy says of a tool."""
    policy = read(file, EXAMPLES)

    assert policy.approvals.critical is not None
    assert policy.approvals.critical.people == {"U0CAROL", "U0DAVE"}
    assert policy.tools.policy["issue_refund"].approve == "always"
    assert policy.channel("C0SUPPORT").tools == ("*",)


def test_an_empty_file_is_all_defaults(file: Path) -> None:
    """Every key is optional."""
    assert read(file, "") == Policy()


def test_explaining_shows_every_setting_and_which_were_set(file: Path) -> None:
    """As the file spells them, so that a line can be copied."""
    lines = explain(read(file, "[caps]\nturns = 5\n[approvals.default]\nusers = ['U0CAROL']"), file)

    assert "caps.turns = 5   # set" in lines
    assert 'approvals.default.users = ["U0CAROL"]   # set' in lines
    assert 'loop.strategy = "react"' in lines
    assert "approvals.channel   # not set" in lines
    assert {line.split(" ")[0] for line in lines} >= set(leaves(tomllib.loads(DOCUMENTED)))
