"""The approval card: rendered by code from the exact arguments, in plain text, for a phone.

1. Nothing on it is markup; nothing critical is cut or hidden below blank lines: values are shown as JSON.
2. What the model says of it stands apart, marked as unverified.
3. Only an open call has buttons, and a button carries nothing but the approval's id.
"""

from __future__ import annotations

import json
from typing import Any

from bot.core.canon import hidden_characters
from bot.core.effects import Card, CardCall
from bot.slack.blocks import SECTION, Block, button, context, header, mrkdwn, pieces_of, plain_section
from bot.slack.text import escape

REASON_CHARACTERS = 800
"""Of the model's own words; the rest is in the log."""


def card_blocks(card: Card) -> list[Block]:
    """The whole card; `packed` spreads it over messages where it must."""
    several = len(card.calls) > 1
    blocks = [header(_title(card))]
    blocks.append(mrkdwn(f"Asked by {person(card.asker)}. Held because {escape(_shown(card.why))}."))
    for number, call in enumerate(card.calls, 1):
        blocks += _call_blocks(call, f"{number} of {len(card.calls)}: " if several else "")
    for quote in card.read:
        blocks += [
            plain_section(part) for part in pieces_of(f"Untrusted content that was read — {_shown(quote)}", SECTION)
        ]
    if card.model_reason:
        said = card.model_reason[:REASON_CHARACTERS]
        more = " […]" if len(card.model_reason) > REASON_CHARACTERS else ""
        blocks.append(plain_section(f"The model's own words (unverified): {_shown(said)}{more}"))
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


def _call_blocks(call: CardCall, number: str) -> list[Block]:
    blocks = [plain_section(f"{number}{call.tool} (class {call.authority})")]
    ordered = [name for name in call.critical if name in call.arguments]
    ordered += [name for name in call.arguments if name not in ordered]
    lines = [_argument(name, call) for name in ordered] or ["(no arguments)"]
    for line in lines:
        blocks += [plain_section(part) for part in pieces_of(line, SECTION)]
    blocks.append(context(f"Digest {call.digest}"))
    if call.status == "open":
        blocks.append(_buttons(call))
        if call.distinct > 1:
            said = f" {', '.join(map(person, call.voted_by))} said yes." if call.voted_by else ""
            blocks.append(mrkdwn(f"{call.distinct} different people must approve.{said}"))
    else:
        blocks.append(mrkdwn(_outcome(call)))
    return blocks


def _argument(name: str, call: CardCall) -> str:
    origin = f"   [from {call.origins[name]}]" if call.origins.get(name) else ""
    return f"{name} = {exact(call.arguments[name])}{_shown(origin)}"


def exact(value: Any) -> str:
    """A value as JSON with every invisible character spelt out: what is approved is what is seen."""
    text = json.dumps(value, ensure_ascii=False)
    for character in {one for one in text if hidden_characters(one)}:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _shown(text: str) -> str:
    """Words for people on one line, invisible characters spelt out."""
    return "".join(f"⟨U+{ord(one):04X}⟩" if hidden_characters(one) else one for one in text).replace("\n", " ⏎ ")


def _outcome(call: CardCall) -> str:
    by = f" by {', '.join(map(person, call.decided_by))}" if call.decided_by else ""
    note = f": {escape(_shown(call.note[:REASON_CHARACTERS]))}" if call.note else ""
    return f"*{_OUTCOMES.get(call.status, call.status)}*{by}{note}"


_OUTCOMES = {
    "approved": "Approved",
    "denied": "Denied",
    "expired": "Expired, nothing was run",
    "voided": "No longer holds, nothing was run",
}


def person(user: str) -> str:
    """A mention that our own code makes; anything but a plain user id is shown as text."""
    return f"<@{user}>" if user.isalnum() and user.isascii() else escape(user)


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
