"""The tools as the policy leaves them, and how long and how safely they are waited for."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.authority import Authority
from bot.core.errors import Misconfigured
from bot.core.labels import Trust
from bot.core.tool import ToolError
from tests.builders import GET_ORDER, GET_TICKET, ISSUE_CREDIT, make_tool
from tests.engine.bench import Bench, never, raising, returned

SEND = make_tool("send_mail", Authority.SEND, answer="sent")


@pytest.mark.parametrize("wanted", ["local_write", "send", "critical"])
def test_a_policy_may_raise_what_a_tool_declares(wanted: str) -> None:
    """And what is raised above egress is no longer run side by side."""
    bench = Bench(GET_ORDER, tools={"policy": {"get_order": {"authority": wanted}}})

    raised = bench.box.get("get_order")

    assert raised is not None
    assert (raised.spec.authority.word, raised.spec.parallel_safe) == (wanted, False)


@pytest.mark.parametrize("wanted", ["observe", "egress", "local_write", "send"])
def test_a_policy_never_lowers_what_a_tool_declares(wanted: str) -> None:
    """It says which setting, what it found and what the tool declares."""
    with pytest.raises(Misconfigured, match=rf"\[tools.policy.issue_credit\] authority = '{wanted}' is below .*critic"):
        Bench(ISSUE_CREDIT, tools={"policy": {"issue_credit": {"authority": wanted}}})


@given(st.sampled_from(list(Authority)), st.sampled_from(list(Authority)))
def test_whatever_a_policy_says_a_tool_is_never_below_its_declaration(own: Authority, wanted: Authority) -> None:
    """Raised, the same, or refused."""
    one = make_tool("probe", own)
    try:
        found = Bench(one, tools={"policy": {"probe": {"authority": wanted.word}}}).box.get("probe")
    except Misconfigured:
        assert wanted < own
    else:
        assert found is not None and found.spec.authority == wanted >= own


def test_always_means_that_a_person_is_asked_below_the_ceiling_too() -> None:
    """And another definition is another tool to an approval."""
    plain = Bench(SEND).box.get("send_mail")
    asked = Bench(SEND, tools={"policy": {"send_mail": {"approve": "always"}}}).box.get("send_mail")

    assert plain is not None and asked is not None
    assert (plain.spec.always_ask, asked.spec.always_ask) == (False, True)
    assert plain.spec.definition != asked.spec.definition


def test_a_policy_that_says_nothing_of_asking_keeps_what_the_tool_asks_for() -> None:
    """`tainted` is the default of the table, not a wish."""
    always = SEND.restricted(always_ask=True)

    found = Bench(always, tools={"policy": {"send_mail": {"authority": "critical"}}}).box.get("send_mail")

    assert found is not None and found.spec.always_ask


def test_every_setting_that_does_not_fit_the_tools_is_named_at_once() -> None:
    """An operator corrects the file once."""
    with pytest.raises(Misconfigured) as caught:
        Bench(
            GET_ORDER,
            SEND,
            GET_ORDER,
            tools={"policy": {"get_ordr": {}, "send_mail": {"authority": "observe"}}},
            channels={"C0SUPPORT": {"tools": ["get_order", "get_tickets", "refund"]}},
        )

    said = str(caught.value).splitlines()
    assert len(said) == 4
    assert "two tools are called 'get_order'" in said[0]
    assert "[tools.policy.get_ordr] names no tool; there are: get_order, send_mail" in said[1]
    assert "[tools.policy.send_mail] authority = 'observe' is below" in said[2]
    assert "[channels.C0SUPPORT] tools names no tool: 'get_tickets', 'refund'; there are: get_order" in said[3]


def test_a_channel_is_offered_the_tools_that_its_table_names() -> None:
    """Exactly those, sorted; other channels have all."""
    bench = Bench(ISSUE_CREDIT, GET_TICKET, GET_ORDER, channels={"C0SUPPORT": {"tools": ["get_ticket", "get_order"]}})

    assert [one.name for one in bench.box.specs("C0SUPPORT")] == ["get_order", "get_ticket"]
    assert [one.name for one in bench.box.specs("C0OTHER")] == ["get_order", "get_ticket", "issue_credit", "todo"]


def test_a_channel_without_tools_is_offered_none() -> None:
    """An empty list means none, not all."""
    assert Bench(GET_ORDER, channels={"C0SUPPORT": {"tools": []}}).box.specs("C0SUPPORT") == ()


def test_a_name_is_matched_exactly() -> None:
    """No prefix, no case, no pattern."""
    box = Bench(GET_ORDER).box

    assert [box.get(name) for name in ("get_orde", "GET_ORDER", "get_*", "*", "")] == [None] * 5


async def test_a_tool_that_takes_too_long_is_left_and_the_model_is_told_what_that_means() -> None:
    """A read may be made again; of anything more nobody knows whether it had its effect."""
    read = await Bench(never(timeout_s=0.01)).run("slow")
    sent = await Bench(never(timeout_s=0.01).restricted(authority=Authority.SEND)).run("slow")

    assert (read.ok, read.retryable, read.unknown) == (False, True, False)
    assert (sent.ok, sent.retryable, sent.unknown) == (False, False, True)
    assert "did not answer in time. It may still have had its effect." in sent.content


async def test_a_tool_is_not_waited_for_past_the_deadline_of_the_run() -> None:
    """The run's remainder counts, by the engine's clock, when it is shorter than the tool's own limit."""
    async with asyncio.timeout(5):
        result = await Bench(never(timeout_s=3600)).run("slow", left_s=0.01)

    assert "did not answer in time" in result.content


@pytest.mark.parametrize("left_s", [0.0, -1.0])
async def test_a_tool_is_not_started_after_the_deadline(left_s: float) -> None:
    """An effect that needs no await would otherwise happen and be reported as perhaps not."""
    effects: list[str] = []
    bench = Bench(make_tool("probe", Authority.CRITICAL, answer=lambda args, context: effects.append("paid")))

    result = await bench.run("probe", left_s)

    assert effects == []
    assert (result.ok, "was not run: no time is left" in result.content) == (False, True)


async def test_a_cancelled_call_is_cancelled() -> None:
    """A worker that loses its lease must not write a result."""
    started = asyncio.Event()
    work = asyncio.ensure_future(Bench(never(started)).run("slow"))
    await started.wait()

    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_cancellation_of_the_tools_own_is_the_tools_failure() -> None:
    """A client library that cancels its own task must not take the worker with it."""
    result = await Bench(make_tool("probe", Authority.OBSERVE, answer=raising(asyncio.CancelledError()))).run("probe")

    assert not result.ok
    assert "failed on our side" in result.content


@pytest.mark.parametrize("retryable", [True, False])
async def test_a_tool_error_is_read_by_the_model_in_its_own_words(retryable: bool) -> None:
    """And says whether the very same call may be made once more."""
    result = await returned(raising(ToolError("There is no order 1. Ask again.", retryable)))

    assert (result.ok, result.content, result.retryable) == (False, "There is no order 1. Ask again.", retryable)


async def test_a_tool_error_is_as_trusted_as_the_tool() -> None:
    """It may quote what the tool has read."""
    assert (await returned(raising(ToolError("no")), Trust.UNTRUSTED)).trust is Trust.UNTRUSTED


@pytest.mark.parametrize("error", [RuntimeError("password hunter2 at 10.0.0.7"), KeyError("hunter2"), SystemExit(3)])
async def test_a_crash_gives_the_model_a_reference_and_nothing_of_our_inside(error: BaseException) -> None:
    """The operator finds the same reference with what happened."""
    bench = Bench(make_tool("probe", Authority.OBSERVE, answer=raising(error)))

    result = await bench.run("probe")

    [(event, fields)] = bench.tracer.notes
    assert event == "tool.failed" and fields["error"] == repr(error)
    assert f"(reference {fields['reference']})" in result.content
    assert not any(word in result.content for word in ("hunter2", "10.0.0.7", "Error", "Traceback", "SystemExit"))


async def test_arguments_that_do_not_fit_are_a_failure_of_ours_not_of_the_run() -> None:
    """What the gate let through was validated; if the model of the tool changed since, the run goes on."""
    bench = Bench(GET_ORDER)

    result = await bench.box.run(GET_ORDER, {"order_id": "x; drop"}, bench.context())

    assert not result.ok and "failed on our side" in result.content
