"""The line holds: random scripts, random people, and an oracle that only reads the raw log and what tools really did.

The oracle knows the ceilings from the handbook and each tool's class from this file; it asks nothing of the code.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.approvals import Vote
from bot.core.authority import Authority
from bot.core.gate import Allowed
from bot.core.labels import Label, Trust
from bot.core.policy import Policy
from bot.core.tool import Tool
from bot.lab.twins import Says
from tests.builders import CreditArgs, OrderArgs, make_tool
from tests.world import World

TRUSTS = ["untrusted", "extracted", "internal", "principal", "system"]
CLASSES = ["observe", "egress", "local_write", "send", "critical"]
CEILING = {"untrusted": 0, "extracted": 3, "internal": 4, "principal": 4, "system": 4}
KINDS = {  # tool -> (class, trust of what it returns)
    "look": ("observe", "internal"),
    "read_ticket": ("observe", "untrusted"),
    "extract": ("observe", "extracted"),
    "fetch": ("egress", "untrusted"),
    "note": ("local_write", "internal"),
    "send": ("send", "internal"),
    "pay": ("critical", "internal"),
}
ENTITLED = {"U0CAROL", "U0DAVE"}
POLICY = Policy.model_validate(
    {"approvals": {"default": {"users": sorted(ENTITLED)}, "asks_per_run": 4}, "caps": {"turns": 8}}
)


def _tools(done: list[tuple[str, dict[str, Any]]]) -> list[Tool]:
    def of(name: str) -> Tool:
        authority, trust = KINDS[name]
        parallel = authority in ("observe", "egress")

        def run(args: Any, context: Any) -> Any:
            done.append((context.call_id, args.model_dump()))
            return {"tool": name, "order": args.order_id, "n": len(done)}

        model = CreditArgs if name == "pay" else OrderArgs
        options: dict[str, Any] = {"parallel_safe": parallel, "model": model, "answer": run}
        return make_tool(name, Authority.parse(authority), Trust.parse(trust), **options)

    return [of(name) for name in KINDS]


CALLS = st.tuples(st.sampled_from(sorted(KINDS)), st.sampled_from(["1111", "2222", "bad"]))
TURNS = st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=5)
PEOPLE = st.lists(
    st.tuples(
        st.sampled_from(["approve", "approve", "deny", "ask", "stop", "talk", "expire"]),
        st.sampled_from(["U0CAROL", "U0DAVE", "U0ALICE", "U0MALLORY", "U0GUEST"]),
    ),
    max_size=8,
)


def _says(turn: list[tuple[str, str]]) -> Says:
    def arguments(tool: str, order: str) -> dict[str, Any]:
        return {"order_id": order, "amount_cents": 900} if tool == "pay" else {"order_id": order}

    return Says("next", calls=[(tool, arguments(tool, order)) for tool, order in turn])


async def _play(turns: list[Any], people: list[Any], quoted: bool) -> tuple[World, list[tuple[str, dict[str, Any]]]]:
    done: list[tuple[str, dict[str, Any]]] = []
    world = World([*(_says(turn) for turn in turns), Says("Done.")], _tools(done), POLICY)
    await world.says("please", quoted=["> refund me"] if quoted else [])
    await world.settle()
    for number, (what, who) in enumerate(people):
        if what in ("approve", "deny") and (asked := world.of("ApprovalRequested")):
            await world.clicks_on(what, who, asked[number % len(asked)]["approval_id"])
        elif what == "stop":
            await world.happens("stop", user=who)
        elif what in ("ask", "talk"):
            await world.says("more", who, ts=f"{number + 2}.0", mentions_us=what == "ask")
        elif what == "expire":
            world.clock.advance(100_000)
        await world.settle()
    for _ in range(8):  # each may bring another question that nobody answers
        world.clock.advance(100_000)
        await world.settle()
    assert world.tracer.faults == []
    return world, done


def _oracle(world: World, done: list[tuple[str, dict[str, Any]]]) -> None:
    """Walk the raw log once; whatever really ran must be explained by what stands before it."""
    trust, asked, approved, called = "system", dict[str, Any](), dict[str, str](), dict[str, str]()
    requesters, started = set[str](), list[str]()
    for entry in world.log:
        payload: dict[str, Any] = dict(entry.payload or {})
        match entry.type:
            case "RunStarted":
                requesters, approved = set(), {}
            case "MessageReceived" | "HistoryImported":
                trust = min(trust, payload["trust"], key=TRUSTS.index)
                requesters |= {payload.get("author", "")}
            case "ToolReturned" if payload["ran"]:
                trust = min(trust, payload["trust"], key=TRUSTS.index)
                assert payload["trust"] == KINDS[called[payload["call_id"]]][1], "a result carries its tool's trust"
            case "ToolRequested":
                called[payload["call_id"]] = payload["tool"]
            case "ApprovalRequested":
                asked[payload["approval_id"]] = payload
                level = CLASSES.index(KINDS[payload["tool"]][0])
                assert level > CEILING[trust], "nobody is asked about what is within the ceiling"
            case "ApprovalDecided" if payload["decision"] == "approved":
                call = asked[payload["approval_id"]]
                assert set(payload["by"]) <= ENTITLED - requesters, "only entitled people who did not ask"
                approved[call["call_id"]] = payload["approval_id"]
            case "ApprovalVoided":
                approved = {call: one for call, one in approved.items() if one != payload["approval_id"]}
            case "ToolStarted":
                call_id = payload["call_id"]
                started.append(call_id)
                if CLASSES.index(KINDS[called[call_id]][0]) > CEILING[trust]:
                    assert call_id in approved, f"{called[call_id]} ran above the line without a person"
                    given = [arguments for one, arguments in done if one == call_id]
                    assert given == [asked[approved.pop(call_id)]["arguments"]], "what was approved is what ran"
            case _:
                pass
    assert len(done) == len({call for call, _ in done}), "no effect happens twice"
    assert {call for call, _ in done} <= set(started), "nothing runs that the log does not know of"


def _accounted(world: World) -> None:
    accepted = [one["ts"] for one in world.of("MessageReceived")]
    named = [ts for one in world.of("RunFinished") for ts in one["messages"]]
    assert sorted(named) == sorted(accepted), "every accepted message ends in exactly one outcome"
    assert len(world.answers) == len(world.of("RunFinished")), "every run has one visible ending"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TURNS, PEOPLE, st.booleans())
def test_nothing_above_the_ceiling_runs_without_a_person_and_every_question_ends(
    turns: list[Any], people: list[Any], quoted: bool
) -> None:
    """Whatever the model asks for and whoever clicks."""
    world, done = asyncio.run(_play(turns, people, quoted))

    _oracle(world, done)
    _accounted(world)


@settings(max_examples=60, deadline=None)
@given(st.lists(CALLS.filter(lambda call: call[1] != "bad"), min_size=1, max_size=3, unique=True))
def test_what_is_within_the_ceiling_runs_unasked(turn: list[Any]) -> None:
    """The liveness twin: a bot that blocks everything would keep every rule above."""
    trusted = [call for call in turn if KINDS[call[0]][1] == "internal"]
    world, done = asyncio.run(_play([trusted] if trusted else [[("look", "1111")]], [], quoted=False))

    assert world.of("ApprovalRequested") == []
    assert len(done) == max(1, len(trusted))
    assert [one["text"] for one in world.answers] == ["Done."]


def _broken(change: Any) -> Any:
    """Break a rule on purpose, for as long as the body runs."""
    patch = pytest.MonkeyPatch()
    change(patch)
    return patch


@pytest.mark.parametrize("rule", ["ceiling", "tool results taint", "approval is bound", "entitled only"])
def test_the_oracle_notices_when_a_rule_is_broken(rule: str) -> None:
    """A property that no fault can break would be decoration."""
    # Given a scenario in which the rule decides
    turns = [[("read_ticket", "1111")], [("pay", "1111"), ("pay", "2222")]]
    people = [("approve", "U0MALLORY"), ("approve", "U0CAROL")]
    breaks: dict[str, Any] = {
        "ceiling": lambda p: p.setattr("bot.core.gate.ceiling_for", lambda label, policy: Authority.CRITICAL),
        "tool results taint": lambda p: p.setattr("bot.core.loop_steps.label_of", lambda *_: Label()),
        "entitled only": lambda p: p.setattr("bot.engine.clicks.judge", lambda *_, **__: Vote(decides=True)),
        "approval is bound": _unbind,
    }
    patch = _broken(breaks[rule])
    try:
        # When it is broken, then the same oracle fails
        with pytest.raises(AssertionError):
            world, done = asyncio.run(_play(turns, people, quoted=False))
            _oracle(world, done)
    finally:
        patch.undo()


def _unbind(patch: pytest.MonkeyPatch) -> None:
    # Three things hold it (the call's id, the digest, the single use): the rule is broken when none does.
    patch.setattr("bot.core.gate.newest_for", _any_approval)
    patch.setattr("bot.core.gate._approved", lambda *given: Allowed("broken on purpose", given[-1]))


def _any_approval(run: Any, call_id: str) -> Any:
    return next((one for one in run.approvals.values() if one.status == "approved"), None)
