"""Effects become messages. Pure: the same effect gives the same pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from bot.core.effects import Answer, Card, CardLink, Effect, Notice, Progress, SessionStatus, Whisper
from bot.engine.ports import Piece
from bot.slack.approvals import card_blocks, card_text, person
from bot.slack.blocks import SECTION, Block, context, fallback, mrkdwn, packed, pieces_of
from bot.slack.markdown import Links, Unit, units
from bot.slack.text import escape

RENDERER = "slack/1"
"""Version of this rendering; a log pins it."""
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
            return [_piece(effect.key, [mrkdwn(_progress(effect))], _progress(effect), skippable=True)]
        case Answer():
            return _spread(effect.key, _answer(effect, hosts), _answer_text(effect), posted)
        case Card():
            return _spread(effect.key, card_blocks(effect), card_text(effect), posted)
        case CardLink():
            body = {"text": escape(effect.summary), "link_ts": posted.get(effect.card_key, "")}
            return [Piece(effect.key, "post", body, effect.channel)]
        case Notice():
            return [_piece(effect.key, [mrkdwn(_own_words(effect.text))], effect.text)]
        case Whisper():
            return [Piece(effect.key, "whisper", {"user": effect.user, "text": _own_words(effect.text)})]
        case SessionStatus():
            return [Piece(effect.key, "status", {"status": effect.status})]
        case _ as never:
            assert_never(never)


def _piece(key: str, blocks: list[Block], text: str, *, skippable: bool = False) -> Piece:
    body: dict[str, Any] = {"text": fallback(text), "blocks": blocks}
    return Piece(key, "post", body | ({"skippable": True} if skippable else {}))


def _spread(key: str, blocks: list[Block], text: str, posted: Mapping[str, str]) -> list[Piece]:
    """One piece a message; a message that is no longer needed says so."""
    pieces = [
        _piece(_nth(key, number), message, text if number == 1 else f"({number}) {text}")
        for number, message in enumerate(packed(blocks), 1)
    ]
    number = len(pieces) + 1
    while _nth(key, number) in posted:
        pieces.append(_piece(_nth(key, number), [context("(shown above)")], "(shown above)"))
        number += 1
    return pieces


def _nth(key: str, number: int) -> str:
    return key if number == 1 else f"{key}#{number}"


def _own_words(text: str) -> str:
    """Our own lines may carry mentions that our code made; everything else in them is escaped."""
    out, place = list[str](), 0
    while (start := text.find("<@", place)) >= 0 and (end := text.find(">", start)) >= 0:
        out += [escape(text[place:start]), person(text[start + 2 : end])]
        place = end + 1
    return "".join([*out, escape(text[place:])])


def _progress(effect: Progress) -> str:
    hidden = len(effect.steps) - STEPS
    lines = [f"({hidden} earlier steps)"] if hidden > 0 else []
    lines += [escape(step) for step in effect.steps[-STEPS:]]
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
    parts = pieces_of(unit.text, room)
    # A fence inside a fence would end it: the inner one is spaced apart.
    return [f"{_FENCE}\n{part.replace(_FENCE, '` ` `')[:room]}\n{_FENCE}" for part in parts] if unit.fenced else parts


def _answer_text(effect: Answer) -> str:
    plain = " ".join(unit.text for unit in units(effect.text, Links(frozenset(), frozenset())))
    title = _TITLES.get(effect.outcome)
    return f"{title}: {plain}" if title else plain or "(no words)"
