"""Effects become messages. Pure: the same effect gives the same pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from bot.core.effects import Answer, Card, CardLink, Effect, Notice, Progress, SessionStatus, Whisper
from bot.engine.ports import Piece
from bot.slack.approvals import card_groups, card_text
from bot.slack.blocks import FALLBACK, SECTION, Block, context, fallback, mrkdwn, packed, pieces_of, size
from bot.slack.markdown import Links, Unit, units
from bot.slack.text import escape, own_words, person

RENDERER = "slack/1"
"""Version of this rendering; a log pins it."""
PIECES = 12
"""Messages that one answer may fill; what is between the first ones and the last is left out with a mark."""
STEPS = 12
"""Lines of progress that are shown; earlier ones are counted."""
_FENCE = "```"
_TITLES = {
    "partial": "Partial answer",
    "escalated": "Handed over",
    "refused": "Not answered",
    "cancelled": "Stopped",
    "failed": "Failed",
}


def render(effect: Effect, posted: Mapping[str, str], hosts: Iterable[str]) -> list[Piece]:
    """The messages that show this effect now; `posted` is what is already there, key -> ts."""
    match effect:
        case Progress():
            shown = _progress(effect)
            return [_piece(effect.key, [mrkdwn(shown)], shown, skippable=effect.state == "working")]
        case Answer():
            messages = _bounded(packed([[block] for block in _answer(effect, hosts)]))
            return _spread(effect.key, messages, _answer_text(effect), posted)
        case Card():
            # Never bounded: whoever approves must have been shown every argument.
            return _spread(effect.key, packed(card_groups(effect)), card_text(effect), posted)
        case CardLink():
            body = {"text": own_words(effect.summary)[:FALLBACK], "link_ts": posted.get(effect.card_key, "")}
            return [Piece(effect.key, "post", body, effect.channel)]
        case Notice():
            own = own_words(effect.text)
            return [_piece(effect.key, [mrkdwn(own)], own)]
        case Whisper():
            return [Piece(effect.key, "whisper", {"user": effect.user, "text": own_words(effect.text)[:FALLBACK]})]
        case SessionStatus():
            return [Piece(effect.key, "status", {"status": effect.status})]
        case _ as never:
            assert_never(never)


def _piece(key: str, blocks: list[Block], text: str, *, skippable: bool = False) -> Piece:
    body: dict[str, Any] = {"text": fallback(text), "blocks": blocks}
    return Piece(key, "post", body | ({"skippable": True} if skippable else {}))


def _bounded(messages: list[list[Block]]) -> list[list[Block]]:
    """At most `PIECES` messages, with a mark for what is left out before the last."""
    if len(messages) <= PIECES:
        return messages
    left_out = sum(size(block) for message in messages[PIECES - 1 : -1] for block in message)
    mark = mrkdwn(f"_[… {left_out} characters of this answer are left out here; the log has them …]_")
    return [*messages[: PIECES - 1], [mark, *messages[-1]]]


def _spread(key: str, messages: list[list[Block]], text: str, posted: Mapping[str, str]) -> list[Piece]:
    """One piece a message; a message that is no longer needed says so."""
    pieces = [
        _piece(_nth(key, number), message, text if number == 1 else f"({number}) {text}")
        for number, message in enumerate(messages, 1)
    ]
    number = len(pieces) + 1
    while _nth(key, number) in posted:
        pieces.append(_piece(_nth(key, number), [context("(shown above)")], "(shown above)"))
        number += 1
    return pieces


def _nth(key: str, number: int) -> str:
    return key if number == 1 else f"{key}#{number}"


def _progress(effect: Progress) -> str:
    hidden = len(effect.steps) - STEPS
    lines = [f"({hidden} earlier steps)"] if hidden > 0 else []
    lines += [escape(step[:120]) for step in effect.steps[-STEPS:]]
    state = {
        "working": "Working…",
        "waiting": "Waiting for a person to decide.",
        "done": "Done.",
        "stopped": "Ended.",
    }
    lines.append(f"_{state[effect.state]}_")
    lines += [f"⚓ {escape(effect.badge)}"] if effect.badge else []
    return "\n".join(lines)


def _answer(effect: Answer, hosts: Iterable[str]) -> list[Block]:
    links = Links(frozenset(effect.trusted_urls), frozenset(hosts))
    blocks: list[Block] = []
    if title := _TITLES.get(effect.outcome):
        blocks.append(mrkdwn(f"*{title}* — {person(effect.asker)}"))
    blocks += _sections(units(effect.text, links)) or [mrkdwn("(no words came with this outcome)")]
    small = [f"⚓ {effect.badge}"] if effect.badge else []
    small += [f"Not verified: {'; '.join(effect.unverified)}."] if effect.unverified else []
    small += [f"Reference {effect.reference}"] if effect.reference else []
    return [*blocks, context(*small)] if small else blocks


def _sections(parts: list[Unit]) -> list[Block]:
    """Units joined into as few sections as fit; a fence is closed and opened again only when it must be."""
    texts: list[str] = []
    for unit in parts:
        for text in _fitting(unit):
            gap = "\n" if unit.tight else "\n\n"
            joined = f"{texts[-1]}{gap}{text}" if texts else text
            if texts and len(joined) <= SECTION:
                texts[-1] = joined
            else:
                texts.append(text)
    return [mrkdwn(text) for text in texts]


def _fitting(unit: Unit) -> list[str]:
    room = SECTION - 2 * len(_FENCE) - 2
    if not unit.fenced:
        return pieces_of(unit.text, room)
    # A fence inside a fence would end it: the inner one is spaced apart.
    inside = unit.text.replace(_FENCE, "` ` `")
    return [f"{_FENCE}\n{part}\n{_FENCE}" for part in pieces_of(inside, room)]


def _answer_text(effect: Answer) -> str:
    # What a notification has no room for need not be parsed a second time.
    head = effect.text[:FALLBACK]
    plain = " ".join(unit.text for unit in units(head, Links(frozenset(), frozenset())))
    plain += " …" if plain and len(effect.text) > len(head) else ""
    title = _TITLES.get(effect.outcome)
    return f"{title}: {plain}" if title else plain or "(no words)"
