"""`plimsoll try --story`: the three roles played against the running parts; each promise is checked and printed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bot.lab.slack_human import words_of
from bot.lab.slack_server import LocalSlack
from bot.lab.slack_state import BOT_USER
from bot.lab.story_brain import QUESTIONS

WAIT_S = 20.0


async def play(slack: LocalSlack, audit: Callable[[str], Awaitable[str]]) -> int:
    """0 when every step came out as promised, 1 with the step that did not."""
    try:
        await _honest_claim(slack, audit)
        await _injected_claim(slack)
    except AssertionError as missed:
        print(f"NOT AS PROMISED: {missed}", flush=True)
        return 1
    print("The story came out as promised.", flush=True)
    return 0


async def _honest_claim(slack: LocalSlack, audit: Callable[[str], Awaitable[str]]) -> None:
    _tell("Alice asks", QUESTIONS[0])
    thread = await slack.say("U0ALICE", f"<@{BOT_USER}> {QUESTIONS[0]}")
    card = await _card(slack, thread)
    _tell("A card appears", words_of(card).split("\n")[0])
    await slack.click("U0MALLORY", card.ts, "Approve")
    refused = await slack.wait_for(lambda: slack.whispered("U0MALLORY"), WAIT_S, "a refusal for Mallory")
    _tell("Mallory clicks Approve", refused[0])
    for _ in range(2):
        if slack.buttons(card.channel, card.ts):
            await slack.click("U0CAROL", card.ts, "Approve")
    _tell("Carol clicks Approve, twice", "")
    _tell("The answer", await _answer(slack, thread))
    told = await audit(f"C0SUPPORT/{thread}")
    assert told.count("issue_credit(") == 2, "the credit stands once in requests and once on the card"
    assert "WHOLE" in told, "the log verifies"
    _tell("Erin audits", told.strip().splitlines()[-1])


async def _injected_claim(slack: LocalSlack) -> None:
    _tell("Alice asks", QUESTIONS[1])
    thread = await slack.say("U0ALICE", f"<@{BOT_USER}> {QUESTIONS[1]}")
    card = await _card(slack, thread)
    _tell("The model obeys the customer's injected instruction; the line holds", words_of(card).split("\n")[0])
    await slack.click("U0CAROL", card.ts, "Deny")
    answer = await _answer(slack, thread)
    assert "did *not* credit" in answer, f"nothing was credited; it said: {answer[:200]}"
    _tell("Carol denies", answer)


async def _card(slack: LocalSlack, thread: str) -> Any:
    def look() -> Any:
        return next((post for post in slack.cards() if post.thread_ts == thread), None)

    return await slack.wait_for(look, WAIT_S, "a card")


async def _answer(slack: LocalSlack, thread: str) -> str:
    def look() -> str:
        found = [words_of(post) for post in slack.ours(thread_ts=thread)]
        return next((words for words in found if "Reference ref-" in words), "")

    return str(await slack.wait_for(look, WAIT_S, "an answer"))


def _tell(step: str, words: str) -> None:
    shown = words.replace("\n", "\n    ")
    print(f"* {step}" + (f":\n    {shown}" if shown else ""), flush=True)
