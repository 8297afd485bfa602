"""Texts between Slack and us: entities, invisible characters, quotes, sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_MESSAGE = 24_000
"""Characters of one question that the model is given; Slack takes 40,000."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_LINK = re.compile(r"<((?:https?|mailto):[^|>\s]+)(?:\|([^>]*))?>")
_CHANNEL = re.compile(r"<[#!]([^|>]*)(?:\|([^>]*))?>")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def escape(text: str) -> str:
    """Exactly the three characters that Slack reads as markup; kills mentions and links in any text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(text: str) -> str:
    """What a person sees: entities resolved, links bare, invisible characters dropped and counted."""
    text = _LINK.sub(lambda found: found[1], text)
    text = _CHANNEL.sub(lambda found: f"#{found[2] or found[1]}", text)
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("\r\n", "\n")
    cleaned, dropped = _INVISIBLE.subn("", text)
    return f"{cleaned} [{dropped} invisible characters were dropped]" if dropped else cleaned


def quoted_spans(text: str) -> list[str]:
    """Lines quoted with `>`, and code fences: somebody else's words, whoever pasted them."""
    fences = [found.strip("`\n ") for found in _FENCE.findall(text)]
    rest = _FENCE.sub("", text)
    lines = [line.lstrip().removeprefix(">").strip() for line in rest.splitlines() if line.lstrip().startswith(">")]
    return [span for span in ["\n".join(lines), *fences] if span]


def attached(attachments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Texts of previews, forwarded messages and alerts, with where they came from."""
    found = []
    for one in attachments:
        origin = " ".join(str(one[name]) for name in ("author_name", "channel_name") if one.get(name))
        words = [str(one[name]) for name in ("pretext", "title", "text") if one.get(name)]
        words += [
            f"{field.get('title')}: {field.get('value')}"
            for field in one.get("fields") or []
            if isinstance(field, dict)
        ]
        if not words and one.get("fallback"):
            words = [str(one["fallback"])]
        if words:
            found.append(plain(f"({origin}) " * bool(origin) + " ".join(words)))
    return found


def capped(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """Head and tail, with what was cut between them."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-limit // 4 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters of this message are left out here …]\n{tail}"
