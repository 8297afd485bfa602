"""Texts between Slack and us: entities, invisible characters, quotes, sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_MESSAGE = 24_000
"""Characters of one question that the model is given; Slack takes 40,000."""
LONGEST_QUOTE, QUOTES = 4_000, 20
"""Characters of one attachment, and how many attachments are read."""
RAW = 60_000
"""Characters of a raw text that are looked at: Slack's own limit is 40,000, entities included."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e01ef\ud800-\udfff]"
)
# Each class excludes `<` and is bounded, so that a text of nothing but openings costs linear time.
_LINK = re.compile(r"<((?:https?|mailto|tel):[^<|>\s]{1,3000})(?:\|([^<>]{0,3000}))?>")
_CHANNEL = re.compile(r"<[#!]([^<|>]{0,300})(?:\|([^<>]{0,300}))?>")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def escape(text: str) -> str:
    """Exactly the three characters that Slack reads as markup; kills mentions and links in any text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def person(user: str) -> str:
    """A mention that our own code makes; anything but a plain user id is shown as text."""
    return f"<@{user}>" if user.isalnum() and user.isascii() else escape(user)


def own_words(text: str) -> str:
    """Our own lines may carry mentions that our code made; everything else in them is escaped."""
    out, place = list[str](), 0
    while (start := text.find("<@", place)) >= 0 and (end := text.find(">", start)) >= 0:
        out += [escape(text[place:start]), person(text[start + 2 : end])]
        place = end + 1
    return "".join([*out, escape(text[place:])])


def plain(text: str) -> str:
    """What a person sees: entities resolved, links bare, invisible characters dropped and counted."""
    text = _LINK.sub(_bare, text[:RAW])
    text = _CHANNEL.sub(lambda found: f"#{found[2] or found[1]}", text)
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("\r\n", "\n")
    cleaned, dropped = _INVISIBLE.subn("", text)
    return f"{cleaned} [{dropped} invisible characters were dropped]" if dropped else cleaned


def _bare(found: re.Match[str]) -> str:
    url, label = found[1], found[2]
    same = not label or label == url or url.endswith((f":{label}", f"//{label}"))
    return url if same else f"{label} ({url})"


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
        listed = one.get("fields")
        fields = [field for field in listed if isinstance(field, dict)] if isinstance(listed, list) else []
        words += [f"{field.get('title')}: {field.get('value')}" for field in fields]
        if not words and one.get("fallback"):
            words = [str(one["fallback"])]
        if words:
            found.append(capped(plain(f"({origin}) " * bool(origin) + " ".join(words)), LONGEST_QUOTE))
    return found[:QUOTES]


def capped(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """Head and tail, with what was cut between them."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-limit // 4 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters of this message are left out here …]\n{tail}"
