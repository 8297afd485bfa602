"""`plimsoll.toml`: what is said of what may not stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bot.app.policy_file import load_policy
from bot.core.errors import Misconfigured
from bot.core.policy import Policy
from tests.app.files import refused


def test_without_a_file_there_are_defaults_unless_one_was_named(file: Path) -> None:
    """A path that somebody wrote and that is not there is a mistake."""
    assert load_policy(file, must_exist=False) == Policy()

    with pytest.raises(Misconfigured, match=f"PLIMSOLL_CONFIG = {re.escape(str(file))}: there is no such file"):
        load_policy(file, must_exist=True)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"turns = 'caf\xe9'"])
def test_a_file_that_is_no_text_is_refused(file: Path, content: bytes) -> None:
    """In one line."""
    file.write_bytes(content)

    with pytest.raises(Misconfigured, match="cannot be read"):
        load_policy(file, must_exist=True)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """In one line."""
    with pytest.raises(Misconfigured, match="cannot be read"):
        load_policy(tmp_path, must_exist=False)


def test_a_byte_order_mark_is_no_mistake(file: Path) -> None:
    """Some editors write one."""
    file.write_bytes(b"\xef\xbb\xbf[caps]\nturns = 5\n")

    assert load_policy(file, must_exist=True).caps.turns == 5


@pytest.mark.parametrize(
    "text",
    ["[caps\nturns = 1", "turns 24", "[caps]\nturns = 1\nturns = 2", f"x = {'[' * 5000}", f"x = {'9' * 5000}"],
)
def test_what_is_no_toml_is_refused_with_its_place(file: Path, text: str) -> None:
    """Deep nesting and endless numbers too."""
    assert "is no valid TOML" in refused(file, text)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[caps]\nturn = 5", ":2: unknown setting caps.turn; did you mean caps.turns?"),
        ("[cap]\nturns = 5", ":1: unknown setting cap; did you mean caps?"),
        ("\nturns = 5", ":2: unknown setting turns; did you mean caps.turns?"),
        ("[approvals]\nchanel = 'C0X'", ":2: unknown setting approvals.chanel; did you mean approvals.channel?"),
        (
            "[approvals.critical]\nuser = []",
            ":2: unknown setting approvals.critical.user; did you mean approvals.critical.users?",
        ),
        (
            "[channels.C0SUPPORT]\nfolowup = true",
            ":2: unknown setting channels.C0SUPPORT.folowup; did you mean channels.C0SUPPORT.follow_up?",
        ),
        (
            "[tools.policy.issue_refund]\naprove = 'always'",
            ":2: unknown setting tools.policy.issue_refund.aprove; did you mean tools.policy.issue_refund.approve?",
        ),
        (
            "[caps]\nzzz = 1",
            ":2: unknown setting caps.zzz; known here: barren_turns, deadline_s, tokens, turns, usd",
        ),
        ("caps = { turn = 5 }", ":1: unknown setting caps.turn; did you mean caps.turns?"),
        ("caps.turn = 5", ":1: unknown setting caps.turn; did you mean caps.turns?"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_known_one(file: Path, text: str, said: str) -> None:
    """In its table, or in another one; with the line."""
    assert refused(file, text) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[caps]\nturns = "24"', ':2: caps.turns = "24": a whole number from 1 to 1000'),
        ("[caps]\nturns = 24.0", ":2: caps.turns = 24.0: a whole number from 1 to 1000"),
        ("[caps]\nturns = true", ":2: caps.turns = true: a whole number from 1 to 1000"),
        ("[caps]\nturns = 0", ":2: caps.turns = 0: a whole number from 1 to 1000"),
        ("[caps]\nturns = 1001", ":2: caps.turns = 1001: a whole number from 1 to 1000"),
        ("[caps]\nturns = []", ":2: caps.turns = []: a whole number from 1 to 1000"),
        ("[caps]\ntokens = 0", ":2: caps.tokens = 0: a whole number from 1 to 1000000000"),
        ("[caps]\nusd = 0", ":2: caps.usd = 0: a number above 0"),
        ("[caps]\nusd = inf", ":2: caps.usd = Infinity: a number above 0"),
        ("[caps]\nusd = nan", ":2: caps.usd = NaN: a number above 0"),
        ("[caps]\ndeadline_s = 100000", ":2: caps.deadline_s = 100000: a number above 0, at most 86400"),
        (
            "[approvals]\nexpires_after_s = inf",
            ":2: approvals.expires_after_s = Infinity: a number above 0, at most 31536000",
        ),
        ('[loop]\nparallel = "yes"', ':2: loop.parallel = "yes": true or false'),
        ('[loop]\nstrategy = "tree"', ':2: loop.strategy = "tree": one of "react", "plan", "branch", "router"'),
        (
            '[loop.routes]\nthanks = "tree"',
            ':2: loop.routes.thanks = "tree": one of "react", "plan", "branch", "answer"',
        ),
        ("[loop]\nreflexion = 1", ":2: loop.reflexion = 1: true or false"),
        ("[loop]\nparallel = 1", ":2: loop.parallel = 1: true or false"),
        ("[model]\nname = 2026-01-01", ":2: model.name = 2026-01-01: a text that is not empty"),
        ('[model]\nname = ""', ':2: model.name = "": a text that is not empty'),
        ('model = "x"', ':1: model = "x": a table'),
        ('[tools]\nmodules = "x"', ':2: tools.modules = "x": a list, each a text that is not empty'),
        (
            '[people]\nauditors = [\n"U0ERIN",\n"erin"]',
            ':2: people.auditors[1] = "erin": a Slack user id such as "U0CAROL"',
        ),
        ('[approvals]\nchannel = "#help"', ':2: approvals.channel = "#help": a Slack channel id such as "C0SUPPORT"'),
        (
            '[approvals.critical]\ngroups = ["leads"]',
            ':2: approvals.critical.groups[0] = "leads": a Slack user group id such as "S0LEADS"',
        ),
        ("[channels.support]", ':1: channels.support: its name must be a Slack channel id such as "C0SUPPORT"'),
        (
            '[ceiling]\nuntrusted = "none"',
            ':2: ceiling.untrusted = "none": one of "observe", "egress", "local_write", "send", "critical"',
        ),
        (
            '[tools.policy."issue_refund"]\napprove = "never"',
            ':2: tools.policy.issue_refund.approve = "never": one of "always", "tainted"',
        ),
        (
            '[channels.C0SUPPORT]\ntools = ["get_*"]',
            """:2: channels.C0SUPPORT.tools = ["get_*"]: exact tool names or '*', no other patterns; found 'get_*'""",
        ),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_setting_value_line_and_what_is_allowed(
    file: Path, text: str, said: str
) -> None:
    """TOML has types, and they count: nothing is guessed from a text or a number."""
    assert refused(file, text) == [said]


@pytest.mark.parametrize(
    ("text", "built", "accepted"),
    [
        ('[untrusted]\nreading = "sealed"', "sealed reading is not built yet", 'the only accepted value is "open"'),
        ('[[tools.mcp]]\nname = "crm"', "MCP servers are not built yet", "remove [[tools.mcp]]"),
    ],
)
def test_what_is_not_built_yet_is_refused_by_name(file: Path, text: str, built: str, accepted: str) -> None:
    """Never ignored: somebody relies on it."""
    [said] = refused(file, text)

    assert built in said and accepted in said


def test_a_table_that_may_hold_secrets_is_not_shown(file: Path) -> None:
    """A server's table may carry its key."""
    [said] = refused(file, '[[tools.mcp]]\nname = "crm"\nenv = { KEY = "hunter2" }')

    assert "hunter2" not in said


def test_a_long_value_is_shortened(file: Path) -> None:
    """One line stays one line."""
    [said] = refused(file, f'[caps]\nturns = "{"x" * 9000}"')

    assert len(said) < 250 and "a whole number from 1 to 1000" in said


@pytest.mark.parametrize(
    "levels",
    [("critical", "send", "critical", "critical"), ("observe", "send", "egress", "critical")],
)
def test_a_ceiling_never_falls_as_trust_rises(file: Path, levels: tuple[str, ...]) -> None:
    """Otherwise reading something worse would allow more."""
    names = ("untrusted", "extracted", "internal", "principal")
    table = "\n".join(f'{name} = "{level}"' for name, level in zip(names, levels, strict=True))

    [said] = refused(file, f"[ceiling]\n{table}")

    assert said.startswith(f':1: ceiling untrusted = "{levels[0]}"')
    assert "untrusted <= extracted <= internal <= principal" in said


def test_all_faults_are_said_at_once_in_the_order_of_the_file(file: Path) -> None:
    """An operator corrects the file once; the order of the ceilings among them."""
    said = refused(
        file,
        '[people]\nauditor = ["U0ERIN"]\n[caps]\nturns = 0\nusd = "much"\n[ceiling]\nuntrusted = "critical"\n'
        'extracted = "observe"\n[untrusted]\nreading = "sealed"\n',
    )

    assert [line.split(":")[1] for line in said] == ["2", "4", "5", "6", "10"]


def test_a_line_in_a_long_text_is_not_taken_for_a_setting(file: Path) -> None:
    """The place that is named is the place where the fault is."""
    [said] = refused(file, '[model]\nname = """\n[caps]\nturns = 7\n"""\n[caps]\nturns = 0')

    assert said.startswith(":7: caps.turns = 0")
