"""A thread's log as a file: lines that a machine can verify, or pages that a person can read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from bot.console.narrate import narrate
from bot.core.chain import Entry
from bot.core.words import ThreadId

FORMATS = ("jsonl", "html", "md")


def export(thread: ThreadId, entries: Sequence[Entry], form: str) -> str:
    """The log in that format; raises `KeyError` for another one."""
    return {"jsonl": _jsonl, "html": _html, "md": _markdown}[form](thread, entries)


def _jsonl(_thread: ThreadId, entries: Sequence[Entry]) -> str:
    return "".join(_line(entry) + "\n" for entry in entries)


def _line(entry: Entry) -> str:
    """One line for every reader: some also end lines at U+0085 or U+2028, and a terminal obeys what it cannot show."""
    text = json.dumps(entry.dump(), ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _head(entries: Sequence[Entry]) -> str:
    return entries[-1].hash if entries else "(empty)"


def _markdown(thread: ThreadId, entries: Sequence[Entry]) -> str:
    # Only a line that starts with at most three blanks can close the fence, and in `narrate` none of a text does.
    body = "\n".join(narrate(entries))
    return f"# {thread}\n\n{len(entries)} entries, head `{_head(entries)}`\n\n```\n{body}\n```\n"


def _html(thread: ThreadId, entries: Sequence[Entry]) -> str:
    body = escape("\n".join(narrate(entries)))
    return (
        f"<!doctype html><meta charset=utf-8><title>{escape(str(thread))}</title>"
        f"<h1>{escape(str(thread))}</h1><p>{len(entries)} entries, head <code>{_head(entries)}</code></p>"
        f"<pre style='white-space:pre-wrap'>{body}</pre>\n"
    )
