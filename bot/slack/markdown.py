"""A model's Markdown as Slack text: parsed, filtered, re-written; nothing in it is live unless we made it so.

1. Mentions, channel tokens and images of a model are inert text.
2. A link is live only when its URL is known good, and its label does not claim another address.
3. Everything else keeps its words: what is not understood is shown as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bot.slack.text import escape

_BARE = re.compile(r"(?:https?://|www\.)[^\s<>\"'`]+", re.IGNORECASE)
# Two words with a dot between them: an address, or near enough to one to mislead.
_ADDRESS = re.compile(r"://|www\.|\w\.\w{2,}", re.IGNORECASE)
WIDEST_TABLE = 8_000
"""Characters of a lined-up table; a larger one is shown cell by cell."""
MOST_BRACKETS = 1_500
"""Opening brackets in a text that is parsed; more are shown as written. Each unclosed one makes the parser look ahead
up to its nesting limit, about 60 microseconds in which nobody else's thread moves (measured on markdown-it-py 4)."""
DEEPEST = 90
"""Nesting that is rendered; the parser drops words below 100 levels, so a deeper text is shown as written."""
# Reference definitions are words too: without the rule they are shown.
_PARSER = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
    .enable(["table", "strikethrough"])
    .disable(["reference"])
)


@dataclass(frozen=True)
class Unit:
    """A part that is best kept in one message."""

    text: str
    """Slack mrkdwn, escaped."""
    fenced: bool = False
    """Stands in a code fence; `text` is its inside."""
    tight: bool = False
    """Follows the part before it on the very next line: a list's further items."""


@dataclass(frozen=True)
class Links:
    """Which links may be live."""

    trusted: frozenset[str]
    """URLs, exactly."""
    hosts: frozenset[str]
    """Hosts, exactly."""

    def live(self, url: str) -> bool:
        """Whether that URL may be a link at all."""
        parts = split_url(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            return False
        return url in self.trusted or (parts.hostname.isascii() and parts.hostname in self.hosts)


def units(markdown: str, links: Links) -> list[Unit]:
    """The answer in parts, in order; every character of text survives."""
    found: list[Unit] = []
    tokens = _PARSER.parse(markdown) if markdown.count("[") <= MOST_BRACKETS else []
    if not tokens or any(token.level > DEEPEST for token in tokens):
        return [Unit(escape(markdown))] if markdown.strip() else []
    place = 0
    while place < len(tokens):
        end = _end(tokens, place)
        found += _unit(tokens[place:end], links)
        place = end
    return [unit for unit in found if unit.text.strip()]


def _end(tokens: Sequence[Token], place: int) -> int:
    depth = 0
    for index in range(place, len(tokens)):
        depth += tokens[index].nesting
        if depth == 0:
            return index + 1
    return len(tokens)


def _unit(tokens: Sequence[Token], links: Links) -> list[Unit]:
    first = tokens[0]
    match first.type:
        case "fence" | "code_block":
            return [Unit(escape(first.content.rstrip("\n")), fenced=True)]
        case "table_open":
            return [Unit(escape(_table(tokens)), fenced=True)]
        case "heading_open":
            return [Unit(f"*{_inline(tokens[1], links, bold=True)}*")]
        case "bullet_list_open" | "ordered_list_open":
            return [Unit(line, tight=number > 0) for number, line in enumerate(_list(tokens, links))]
        case "blockquote_open":
            inner = [line for unit in _inside(tokens, links) for line in unit.text.split("\n")]
            return [Unit("\n".join(f"> {line}" for line in inner))]
        case "hr":
            return [Unit("———")]
        case "paragraph_open":
            return [Unit(_inline(tokens[1], links))]
        case _:
            return [Unit(escape(first.content))]


def _inside(tokens: Sequence[Token], links: Links) -> list[Unit]:
    inner, found, place = tokens[1:-1], list[Unit](), 0
    while place < len(inner):
        end = _end(inner, place)
        found += _unit(inner[place:end], links)
        place = end
    return found


def _list(tokens: Sequence[Token], links: Links, depth: int = 0) -> list[str]:
    """One line an item; deeper lists are indented."""
    lines: list[str] = []
    numbered = tokens[0].type == "ordered_list_open"
    number = int(tokens[0].attrs.get("start", 1))
    place = 1
    while place < len(tokens) - 1:
        end = _end(tokens, place)
        mark = f"{number}." if numbered else "•"
        number += 1
        lines += _item(tokens[place + 1 : end - 1], links, f"{'    ' * depth}{mark} ", depth)
        place = end
    return lines


def _item(tokens: Sequence[Token], links: Links, mark: str, depth: int) -> list[str]:
    lines: list[str] = []
    place = 0
    while place < len(tokens):
        end = _end(tokens, place)
        part = tokens[place:end]
        if part[0].type in ("bullet_list_open", "ordered_list_open"):
            lines += _list(part, links, depth + 1)
        else:
            for unit in _unit(part, links):
                text = f"```{unit.text}```" if unit.fenced else unit.text
                lines.append((mark if not lines else "    " * (depth + 1)) + text)
        place = end
    return lines or [mark]


def _table(tokens: Sequence[Token]) -> str:
    """Columns lined up in plain text: a table that any phone shows."""
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token.content)
    widths = [max(len(row[column]) if column < len(row) else 0 for row in rows) for column in range(len(rows[0]))]
    if sum(widths) * len(rows) > WIDEST_TABLE:
        # Lining up would write more spaces than words.
        return "\n".join(" | ".join(row) for row in rows)
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _inline(token: Token, links: Links, *, bold: bool = False) -> str:
    """Text, emphasis, code and links of one block; in one that is bold as a whole nothing is marked bold again."""
    out: list[str] = []
    opened: list[tuple[str, int]] = []
    for child in token.children or []:
        match child.type:
            case "text":
                out.append(_text(child.content, links))
            case "code_inline":
                out.append(f"`{escape(child.content)}`" if "`" not in child.content else escape(child.content))
            case "softbreak" | "hardbreak":
                out.append("\n")
            case "strong_open" | "strong_close":
                out.append("" if bold else "*")
            case "em_open" | "em_close":
                out.append("_")
            case "s_open" | "s_close":
                out.append("~")
            case "link_open":
                opened.append((str(child.attrs.get("href", "")), len(out)))
            case "link_close":
                href, start = opened.pop()
                label = "".join(out[start:])
                del out[start:]
                out.append(_link(href, label, links))
            case "image":
                out.append(f"[image left out: {escape(child.content or 'no text')}]")
            case _:
                out.append(escape(child.content))
    return "".join(out)


def _text(text: str, links: Links) -> str:
    parts, place = list[str](), 0
    for found in _BARE.finditer(text):
        url = found[0].rstrip(".,;:!?)]}")
        parts += [escape(text[place : found.start()]), f"<{_target(url)}>" if links.live(url) else inert(url)]
        place = found.start() + len(url)
    return "".join([*parts, escape(text[place:])])


def _link(href: str, label: str, links: Links) -> str:
    shown = label.replace("|", "¦").replace("\n", " ")
    honest = label == escape(href) or not _ADDRESS.search(_read(label))
    if "<" in shown:  # the label held a link of its own, already decided
        return shown
    if links.live(href) and honest:
        return f"<{_target(href)}|{shown}>" if shown else f"<{_target(href)}>"
    if links.live(href):
        return f"<{_target(href)}>"
    return f"{shown} {inert(href)}" if honest and shown else inert(href)


def _read(label: str) -> str:
    """A label as a hurried person reads it: no markup, nothing invisible, every kind of full stop a dot."""
    folded = unicodedata.normalize("NFKC", label).replace("。", ".")
    return "".join(one for one in folded if one not in "*_~`" and unicodedata.category(one) not in ("Cf", "Mn", "Cc"))


def _target(url: str) -> str:
    # A bar would end the address and begin a label of the writer's choice.
    return escape(url).replace("|", "%7C")


def inert(url: str) -> str:
    """A URL that nobody can follow by accident: the host readable, the rest left out (it may carry data)."""
    parts = split_url(url if "://" in url else f"http://{url}")
    host = (parts.hostname if parts else None) or "an unreadable address"
    shown = host.encode("ascii", "backslashreplace").decode()[:120]
    return f"[link to {escape(shown.replace('.', '[.]'))} left out]"


def split_url(url: str) -> SplitResult | None:
    """The parts of a URL; `None` for one that cannot be one, whatever it looks like."""
    try:
        parts = urlsplit(url)
        return parts if parts.hostname is not None else None
    except ValueError:
        return None
