"""The approval card: rendered by code from the exact arguments, in plain text, for a phone.

1. Nothing on it is markup; nothing critical is cut or hidden below blank lines: values are shown as JSON.
2. What the model says of it stands apart, marked as unverified.
3. Only an open call has buttons, and a button carries nothing but the approval's id.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from bot.core.canon import hidden_characters
from bot.core.effects import Card, CardCall
from bot.slack.blocks import SECTION, Block, button, context, header, mrkdwn, pieces_of, plain_section
from bot.slack.text import escape, own_words, person

# Blank or without a width of their own though their category is a letter, a mark or a symbol; and our own bracket.
_BLANK = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200d\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\u27e8\u27e9]"
)
_NOTHING = frozenset({"Cc", "Cf", "Cn", "Co", "Zl", "Zp", "Zs"})
_SPACES = re.compile(" {9,}")
REASON_CHARACTERS = 800
"""Of the model's own words; the rest is in the log."""


def card_groups(card: Card) -> list[list[Block]]:
    """The whole card in parts that belong together; `packed` spreads them over messages where it must."""
    several = len(card.calls) > 1
    why = own_words(_shown(card.why))
    groups = [[header(_title(card)), mrkdwn(f"Asked by {person(card.asker)}. Held because {why}.")]]
    for number, call in enumerate(card.calls, 1):
        groups += _call_groups(call, f"{number} of {len(card.calls)}: " if several else "")
    return [*groups, _circumstances(card)]


def _circumstances(card: Card) -> list[Block]:
    blocks: list[Block] = []
    for quote in card.read:
        blocks += _sections("untrusted content", f"Untrusted content that was read — {_shown(quote)}")
    if card.model_reason:
        said = card.model_reason[:REASON_CHARACTERS]
        more = " […]" if len(card.model_reason) > REASON_CHARACTERS else ""
        blocks += _sections("the model's own words", f"The model's own words (unverified): {_shown(said)}{more}")
    if any(call.status == "open" for call in card.calls):
        until = card.expires_at[:16].replace("T", " ")
        who = ", ".join(person(user) for user in card.approvers[:40]) or "nobody"
        more = f" and {len(card.approvers) - 40} more" if len(card.approvers) > 40 else ""
        blocks.append(mrkdwn(f"May decide: {who}{more}. Open until {until} UTC."))
    return blocks


def _title(card: Card) -> str:
    still = [call for call in card.calls if call.status == "open"]
    if not still:
        return "Decided: " + ", ".join(f"{call.tool} {call.status}" for call in card.calls)
    return f"Approve {still[0].tool.replace('_', ' ')}?" if len(still) == 1 else f"Approve {len(still)} calls?"


def _call_groups(call: CardCall, number: str) -> list[list[Block]]:
    """What would be done, and then — never apart from the call's name and digest — the buttons."""
    blocks = [plain_section(f"{number}{call.tool} (class {call.authority})")]
    ordered = [name for name in call.critical if name in call.arguments]
    ordered += [name for name in call.arguments if name not in ordered]
    for name in ordered:
        blocks += _sections(_name(name), _argument(name, call))
    blocks += [] if ordered else [plain_section("(no arguments)")]
    last = [context(f"{number}{call.tool}, digest {call.digest}")]
    if call.status == "open":
        last.append(_buttons(call))
        if call.distinct > 1:
            said = f" {', '.join(map(person, call.voted_by))} said yes." if call.voted_by else ""
            last.append(mrkdwn(f"{call.distinct} different people must approve.{said}"))
    else:
        last.append(mrkdwn(_outcome(call)))
    return [blocks, last]


def _sections(what: str, text: str) -> list[Block]:
    """One text in as many sections as it takes; a further one says what it continues: it cannot pass for another."""
    first, *rest = pieces_of(text, SECTION - 100)
    marked = [f"… {what[:60]}, part {number}: {part}" for number, part in enumerate(rest, 2)]
    return [plain_section(part) for part in [first, *marked]]


def _name(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else exact(name)


def _argument(name: str, call: CardCall) -> str:
    origin = f"   [from {call.origins[name]}]" if call.origins.get(name) else ""
    return f"{_name(name)} = {exact(call.arguments[name])}{_shown(origin)}"


def exact(value: Any) -> str:
    """A value as JSON with every invisible character spelt out: what is approved is what is seen."""
    text = json.dumps(value, ensure_ascii=False)
    for character in {one for one in text if _unseen(one)}:
        text = text.replace(character, json.dumps(character)[1:-1])
    return _SPACES.sub(lambda run: f"⟨{len(run[0])} spaces⟩", text)


def _unseen(character: str) -> bool:
    """Whether a person would see nothing where it stands: controls, fillers, odd blanks, emoji glue."""
    if character == " ":
        return False
    return bool(hidden_characters(character) or _BLANK.match(character)) or unicodedata.category(character) in _NOTHING


def _shown(text: str) -> str:
    """Words for people on one line, invisible characters spelt out."""
    return "".join(f"⟨U+{ord(one):04X}⟩" if hidden_characters(one) else one for one in text).replace("\n", " ⏎ ")


def _outcome(call: CardCall) -> str:
    by = f" by {', '.join(map(person, call.decided_by))}" if call.decided_by else ""
    note = f": {own_words(_shown(call.note[:REASON_CHARACTERS]))}" if call.note else ""
    return f"*{_OUTCOMES.get(call.status, call.status)}*{by}{note}"


_OUTCOMES = {
    "approved": "Approved",
    "denied": "Denied",
    "expired": "Expired, nothing was run",
    "voided": "No longer holds, nothing was run",
}


def _buttons(call: CardCall) -> Block:
    return {
        "type": "actions",
        "block_id": f"decide:{call.approval_id}",
        "elements": [
            button("Approve", f"approve:{call.approval_id}", call.approval_id, "primary"),
            button("Deny", f"deny:{call.approval_id}", call.approval_id, "danger"),
        ],
    }


def card_text(card: Card) -> str:
    """For a notification: what, and who asked; markup-safe."""
    calls = []
    for call in card.calls:
        values = [f"{name} = {exact(call.arguments[name])}" for name in call.critical if name in call.arguments]
        calls.append(f"{call.tool} ({', '.join(values)})")
    return escape(f"{_title(card)} {'; '.join(calls)} — asked by {card.asker}")
