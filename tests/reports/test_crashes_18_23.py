"""Reports 18, 22 and 23: `plimsoll serve` is killed between an effect and its record, and another one goes on.

One process, four threads, one kill -9; each report then looks at what was left and what became of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.lab.messages_script import ByWord, Call, Turn
from bot.lab.slack_human import words_of
from tests.live import POLICY, Live, live

pytestmark = pytest.mark.wire
TOOLS = '''
import asyncio, json, pathlib
from pydantic import BaseModel
from bot.core.authority import Authority
from bot.core.labels import Trust
from bot.core.tool import tool

DEEDS = pathlib.Path("deeds.jsonl")

class Deed(BaseModel):
    name: str
    hangs: bool = False

async def _do(args, context):
    """The effect; the first time a deed that hangs never comes back."""
    before = DEEDS.read_text() if DEEDS.exists() else ""
    with DEEDS.open("a") as out:
        print(json.dumps([args.name, context.idempotency_key]), file=out, flush=True)
    if args.hangs and f'"{args.name}"' not in before:
        await asyncio.sleep(3600)
    return {"did": args.name}

@tool(authority=Authority.SEND, output=Trust.INTERNAL)
async def once(args: Deed, context) -> dict:
    """Does it; twice would be twice."""
    return await _do(args, context)

@tool(authority=Authority.SEND, output=Trust.INTERNAL, idempotent=True)
async def keyed(args: Deed, context) -> dict:
    """Does it once for each key."""
    return await _do(args, context)

@tool(authority=Authority.OBSERVE, output=Trust.INTERNAL, parallel_safe=True)
async def look(args: Deed, context) -> dict:
    """Looks."""
    return await _do(args, context)
'''
LOADED = '\n[tools]\nmodules = ["deed_tools"]\n[loop]\nparallel = true\n'


def _turn(*calls: tuple[str, str]) -> list[Turn]:
    """Calls as (tool, deed); a deed whose name ends in an exclamation mark hangs. Then an answer."""
    made = [Call(tool, {"name": deed.rstrip("!"), "hangs": deed.endswith("!")}) for tool, deed in calls]
    return [Turn("On it.", made), Turn("All done.")]


SCRIPTS = {
    "alone": _turn(("once", "a1!")),
    "keyed": _turn(("keyed", "k1!")),
    "looks": _turn(("look", "l1!"), ("look", "l2"), ("look", "l3")),
    "batch": _turn(("once", "b1"), ("keyed", "b2!"), ("once", "b3")),
    "doubt": _turn(("once", "d1"), ("once", "d2!"), ("once", "d3")),
}
HANG = {"a1", "k1", "l1", "b2", "d2"}
BEFORE = HANG | {"l2", "l3", "b1", "d1"}


@dataclass(frozen=True)
class Aftermath:
    """What can be seen when everything has come to rest."""

    deeds: Sequence[tuple[str, str]]
    """(name, idempotency key) of every effect that really happened, in order."""
    logs: dict[str, list[dict[str, Any]]]
    answers: dict[str, list[str]]
    requests: list[dict[str, Any]]

    def did(self, name: str) -> int:
        """How often."""
        return [one for one, _ in self.deeds].count(name)

    def keys(self, name: str) -> int:
        """How many different keys that deed was done under."""
        return len({key for one, key in self.deeds if one == name})

    def of(self, word: str, kind: str) -> list[dict[str, Any]]:
        """Payloads of a thread's events."""
        return [one["payload"] for one in self.logs[word] if one["type"] == kind]

    def results(self, word: str) -> list[str]:
        """What the last request of that thread told of its calls, in order."""
        mine = [one for one in self.requests if word in json.dumps(one["messages"][0])]
        blocks = [block for message in mine[-1]["messages"] for block in message["content"]]
        return [block["content"] for block in blocks if block["type"] == "tool_result"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    """Everybody asks, the process is killed while five calls hang, another one is started."""
    return asyncio.run(_killed(tmp_path_factory.mktemp("killed")))


async def _killed(home: Path) -> Aftermath:
    (home / "deed_tools.py").write_text(TOOLS)
    async with live(home, brain=ByWord(SCRIPTS), policy=POLICY + LOADED) as world:
        process = await world.start()
        threads = {word: await world.ask(f"{word}, please") for word in SCRIPTS}
        await world.slack.wait_for(lambda: {name for name, _ in _deeds(home)} >= BEFORE, 20, "all effects")
        await world.stop(process, signal.SIGKILL)

        await world.start()
        for thread in threads.values():
            await world.answer(thread, timeout_s=45)
        logs = {word: await _log(world, thread) for word, thread in threads.items()}
        answers = {
            word: [words_of(post) for post in world.slack.ours(thread_ts=thread) if "Reference" in words_of(post)]
            for word, thread in threads.items()
        }
        return Aftermath(_deeds(home), logs, answers, world.model.requests)


def _deeds(home: Path) -> list[tuple[str, str]]:
    found = home / "deeds.jsonl"
    return [tuple(json.loads(line)) for line in found.read_text().splitlines()] if found.exists() else []


async def _log(world: Live, thread: str) -> list[dict[str, Any]]:
    code, lines = await world.command("audit", "export", f"T0PLIMSOLL/C0SUPPORT/{thread}")
    assert code == 0
    return [json.loads(line) for line in lines.splitlines() if line.startswith("{")]


def test_report_18_an_effect_without_a_record_is_not_repeated_and_a_person_is_told(killed: Aftermath) -> None:
    """openworker#443: the crash comes after the effect and before its record, and the effect is made again."""
    assert killed.did("a1") == 1
    assert len(killed.of("alone", "EffectUnknown")) == 1
    assert len(killed.answers["alone"]) == 1 and "a1" in killed.answers["alone"][0]
    assert len(killed.of("alone", "ModelReplied")) == 1, "the model was asked to do it again"


def test_report_18_an_effect_with_a_key_is_repeated_under_the_same_key(killed: Aftermath) -> None:
    """leviath#96: a run that could go on by itself waits for ever."""
    assert (killed.did("k1"), killed.keys("k1")) == (2, 1)
    assert killed.of("keyed", "EffectUnknown") == []
    assert "All done." in killed.answers["keyed"][0]


def test_report_22_results_that_were_there_survive_a_sibling_that_hung(killed: Aftermath) -> None:
    """pi#7053: two of three parallel calls had their results, and all three are gone with the third."""
    assert [killed.did(name) for name in ("l1", "l2", "l3")] == [2, 1, 1]
    assert [json.loads(one)["did"] for one in killed.results("looks")] == ["l1", "l2", "l3"]
    assert "All done." in killed.answers["looks"][0]


def test_report_23_a_resume_makes_only_the_calls_that_are_open(killed: Aftermath) -> None:
    """mattermost-plugin-agents#908: the resume runs the whole batch again."""
    assert [(killed.did(name), killed.keys(name)) for name in ("b1", "b2", "b3")] == [(1, 1), (2, 1), (1, 1)]
    assert [json.loads(one)["did"] for one in killed.results("batch")] == ["b1", "b2", "b3"]
    assert len(killed.of("batch", "ToolReturned")) == 3


def test_report_23_a_batch_with_an_effect_of_unknown_end_goes_no_further(killed: Aftermath) -> None:
    """mattermost-plugin-agents#908, where the open call must not be repeated: the rest waits for a person."""
    assert [killed.did(name) for name in ("d1", "d2", "d3")] == [1, 1, 0]
    assert len(killed.of("doubt", "EffectUnknown")) == 1
    assert "All done." not in killed.answers["doubt"][0]


def test_reports_18_to_23_no_model_call_was_paid_twice(killed: Aftermath) -> None:
    """Every reply was in the log before its effects began."""
    assert [len(killed.of(word, "ModelRequested")) for word in SCRIPTS] == [1, 2, 2, 2, 1]
