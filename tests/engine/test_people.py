"""Who is answered, who is not, and what people are told while a decision is open."""

from __future__ import annotations

from typing import Any

import pytest

from bot.core.policy import Policy
from bot.core.words import Person
from bot.lab.twins import Says
from tests.builders import POLICY
from tests.world import World

READ = Says(calls=[("get_ticket", {"order_id": "4921"})])
PAY = Says("Paying.", calls=[("issue_credit", {"order_id": "4921", "amount_cents": 5400})])
DONE = Says("Done.")


async def _waiting() -> World:
    world = World([READ, PAY, DONE, Says("And that.")])
    await world.says("pay them")
    await world.settle()
    return world


async def test_a_follow_up_of_the_asker_needs_no_mention() -> None:
    """While nobody else spoke since our answer."""
    world = World([DONE, Says("Because.")])
    await world.says("why?")
    await world.settle()

    await world.says("and why?", ts="2.0", mentions_us=False)
    await world.settle()

    assert [one["text"] for one in world.answers] == ["Done.", "Because."]


@pytest.mark.parametrize(
    ("author", "body", "reason"),
    [
        ("U0BOB", {}, "not from the last asker"),
        ("U0ALICE", {"addresses_others": True}, "addresses somebody else"),
    ],
)
async def test_talk_among_people_is_left_alone_with_its_reason(author: str, body: dict[str, bool], reason: str) -> None:
    """No answer, no whisper; the log says why."""
    world = World([DONE])
    await world.says("why?")
    await world.settle()

    await world.says("look at this", author, ts="2.0", mentions_us=False, **body)
    await world.settle()

    assert reason in world.of("MessageIgnored")[0]["reason"]
    assert len(world.answers) == 1
    assert world.surface.whispers == []


async def test_once_others_talk_a_follow_up_needs_a_mention_again() -> None:
    """Alice and Bob are talking to each other now."""
    world = World([DONE])
    await world.says("why?")
    await world.settle()
    await world.says("hm", "U0BOB", ts="2.0", mentions_us=False)
    await world.says("yes", "U0ALICE", ts="3.0", mentions_us=False)
    await world.settle()

    assert "others have been talking" in world.of("MessageIgnored")[1]["reason"]


async def test_a_channel_can_switch_follow_ups_off() -> None:
    """Per channel, by the policy."""
    policy = Policy.model_validate({**POLICY.model_dump(), "channels": {"C0SUPPORT": {"follow_up": False}}})
    world = World([DONE], policy=policy)
    await world.says("why?")
    await world.settle()
    await world.says("and?", ts="2.0", mentions_us=False)
    await world.settle()

    assert "follow-ups need a mention" in world.of("MessageIgnored")[0]["reason"]


@pytest.mark.parametrize(
    "person",
    [
        Person("U0GUEST", "T0OTHER", is_member=False, is_external=True),
        Person("U0GUEST", "T0PLIMSOLL", is_member=False, is_guest=True),
        Person("U0GUEST", "T0PLIMSOLL", is_member=False),
    ],
)
async def test_outsiders_are_told_once_and_nothing_is_run_for_them(person: Person) -> None:
    """Guests, other companies, deactivated people."""
    world = World([DONE])
    world.people.put(person)

    await world.says("refund me", "U0GUEST")
    await world.settle()

    assert world.model.requests == []
    assert [one.body["user"] for one in world.surface.whispers] == ["U0GUEST"]


async def test_outsiders_that_the_policy_allows_are_answered_and_taint() -> None:
    """What they write is still a stranger's word."""
    world = World([DONE], policy=Policy.model_validate({**POLICY.model_dump(), "people": {"allow_external": True}}))
    world.people.put(Person("U0GUEST", "T0OTHER", is_member=False, is_external=True))

    await world.says("status?", "U0GUEST", external=True)
    await world.settle()

    assert world.of("MessageReceived")[0]["trust"] == "untrusted"
    assert len(world.answers) == 1


async def test_in_a_channel_that_another_company_reads_nothing_is_answered() -> None:
    """Unless the policy allows outsiders."""
    world = World([DONE])
    await world.says("what do we owe?", shared_channel=True)
    await world.settle()

    assert world.model.requests == []
    assert "shared with another company" in world.surface.whispers[0].body["text"]


async def test_nobody_is_answered_on_a_failed_look_up_and_it_is_said() -> None:
    """Fail closed, aloud."""
    world = World([DONE])
    world.people.away = True

    await world.says("why?")
    await world.settle()

    assert world.model.requests == []
    assert "could not check who you are" in world.surface.whispers[0].body["text"]


async def test_a_bot_wakes_us_only_when_it_is_allowed_and_mentions_us_and_never_for_ever() -> None:
    """At most ten runs a thread are started by bots."""
    policy = Policy.model_validate({**POLICY.model_dump(), "people": {"allow_bots": ["U0OTHERBOT"]}})
    world = World([DONE], policy=policy)
    for number in range(13):
        await world.says("ack", "U0OTHERBOT", ts=f"{number}.5", bot=True)
        await world.settle()
    await world.says("ack", "U0EVILBOT", ts="99.0", bot=True)
    await world.settle()

    assert len(world.answers) == 10
    assert [one["key"] for one in world.surface.of_kind("notice")] == ["bots"]
    assert "already" in world.of("MessageIgnored")[0]["reason"]
    assert world.of("MessageIgnored")[-1]["reason"] == "written by a bot"


async def test_a_message_during_a_decision_is_held_told_once_and_read_afterwards() -> None:
    """Who decides, until when, and that stop drops it."""
    world = await _waiting()
    await world.says("and hurry", ts="2.0")
    await world.settle()
    await world.says("really", ts="3.0")
    await world.settle()
    held = world.surface.of_kind("notice")
    label_before = world.of("MessageReceived")

    await world.clicks_on("approve")
    await world.settle()

    assert [one["key"] for one in held] == ["held:2.0", "held:3.0"]
    assert "<@U0CAROL>" in held[0]["text"] and "`stop`" in held[0]["text"]
    assert len(label_before) == 1
    assert [one["text"] for one in world.of("MessageReceived")] == ["pay them", "and hurry", "really"]
    assert world.of("RunFinished")[0]["messages"] == ["1.0", "2.0", "3.0"]


async def test_a_message_that_arrives_with_the_answer_does_not_swallow_it() -> None:
    """What the model answered is said; the message starts the next run."""
    world = World([DONE, Says("And that.")])
    ask = world.model.ask

    async def interrupted(request: Any, deadline: Any) -> Any:
        reply = await ask(request, deadline)
        if len(world.model.requests) == 1:
            await world.says("and that?", ts="2.0")
        return reply

    world.model.ask = interrupted  # type: ignore[method-assign]  # somebody writes while the model answers
    await world.says("this?")
    await world.settle()

    assert [one["text"] for one in world.answers] == ["Done.", "And that."]
    assert [one["messages"] for one in world.of("RunFinished")] == [["1.0"], ["2.0"]]


async def test_stop_drops_an_open_decision_at_once() -> None:
    """The card closes, nothing runs, the outcome says so."""
    world = await _waiting()

    await world.happens("stop", user="U0ALICE")
    await world.settle()
    await world.clicks_on("approve")
    await world.settle()

    assert [one["by"] for one in world.of("Cancelled")] == ["U0ALICE"]
    assert world.answers[0]["outcome"] == "cancelled"
    assert world.surface.of_kind("card")[0]["calls"][0]["status"] == "voided"
    assert "closed" in world.of("ApprovalAttempted")[0]["refused_because"]
    assert "toolu_002_0" not in [one["call_id"] for one in world.of("ToolStarted")]


async def test_a_changed_question_voids_the_open_card_and_enters_as_a_correction() -> None:
    """The model sees the correction after the results; the same words change nothing."""
    world = await _waiting()
    await world.happens("edit", ts="1.0", author="U0ALICE", text="pay  them")
    await world.settle()
    assert world.surface.of_kind("card")[0]["calls"][0]["status"] == "open"

    await world.happens("edit", ts="1.0", author="U0ALICE", text="do not pay them")
    await world.settle()

    assert world.surface.of_kind("card")[0]["calls"][0]["status"] == "voided"
    assert "Correction" in world.of("MessageReceived")[-1]["text"]
    assert [one["outcome"] for one in world.answers] == ["answered"]
    last = world.model.requests[-1].messages[-1]
    assert [block["type"] for block in last.content] == ["tool_result", "text"]


async def test_a_changed_answered_question_starts_nothing() -> None:
    """It is noted, and the asker is told what to do."""
    world = World([DONE])
    await world.says("why?")
    await world.settle()

    await world.happens("edit", ts="1.0", author="U0ALICE", text="how?")
    await world.settle()

    assert len(world.model.requests) == 1
    assert "Mention me again" in world.surface.of_kind("notice")[0]["text"]


async def test_a_deleted_question_is_not_worked_on_any_more() -> None:
    """Its run ends as cancelled."""
    world = await _waiting()

    await world.happens("delete", ts="1.0")
    await world.happens("delete", ts="7.7")
    await world.settle()

    assert world.answers[0]["outcome"] == "cancelled"


async def test_earlier_messages_are_imported_with_the_trust_of_those_who_wrote_them() -> None:
    """First asked in the middle of a thread: a stranger's note taints from the start."""
    world = World([PAY, DONE])
    world.surface.earlier = [
        {"ts": "0.1", "author": "U0GUEST", "text": "refund 900", "bot": False, "quoted": False},
        {"ts": "0.2", "author": "U0BOB", "text": "hm", "bot": False, "quoted": False},
    ]

    await world.says("summarise", thread_reply=True)
    await world.settle()

    assert [one["trust"] for one in world.of("HistoryImported")[0]["messages"]] == ["untrusted", "internal"]
    assert len(world.of("ApprovalRequested")) == 1


@pytest.mark.parametrize("body", [{"quoted": ["> refund 900"]}, {"files": ["invoice.pdf"]}])
async def test_what_is_not_the_asker_s_own_word_taints(body: dict[str, list[str]]) -> None:
    """Quotes, forwarded text and files in a question."""
    world = World([PAY, DONE])

    await world.says("handle this", **body)
    await world.settle()

    assert len(world.of("ApprovalRequested")) == 1
    assert world.of("LabelLowered") == []  # it starts there: nothing fell during the run
