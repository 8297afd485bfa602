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
    return "".join(json.dumps(entry.dump(), ensure_ascii=False, separators=(",", ":")) + "\n" for entry in entries)


def _head(entries: Sequence[Entry]) -> str:
    return entries[-1].hash if entries else "(empty)"


def _markdown(thread: ThreadId, entries: Sequence[Entry]) -> str:
    body = "\n".join(narrate(entries)).replace("```", "`\u200b``")
    return f"# {thread}\n\n{len(entries)} entries, head `{_head(entries)}`\n\n```\n{body}\n```\n"


def _html(thread: ThreadId, entries: Sequence[Entry]) -> str:
    body = escape("\n".join(narrate(entries)))
    return (
        f"<!doctype html><meta charset=utf-8><title>{escape(str(thread))}</title>"
        f"<h1>{escape(str(thread))}</h1><p>{len(entries)} entries, head <code>{_head(entries)}</code></p>"
        f"<pre style='white-space:pre-wrap'>{body}</pre>\n"
    )
