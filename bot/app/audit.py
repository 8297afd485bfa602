"""`plimsoll audit`: what an auditor asks of the logs, answered from the logs alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from bot.console.export import export
from bot.console.narrate import narrate, sentence, visible
from bot.core.chain import Entry, Verdict, verify
from bot.core.errors import Misconfigured
from bot.core.words import ThreadId
from bot.engine.storage import Archive

Found = tuple[str, int]
"""What is printed, and the exit code."""
EVERY_THREAD = 100_000
"""More than any workspace has; the archive lists the newest first."""


async def threads(archive: Archive) -> Found:
    """One line a thread, most recent first."""
    found = await archive.threads()
    if not found:
        return "No thread has a log here yet.", 0
    return "\n".join(f"{one.thread}  {one.entries} entries  {one.changed_at}  head {one.head[:16]}" for one in found), 0


async def resolve(archive: Archive, text: str) -> ThreadId:
    """The thread meant; a permalink names no team, so it is looked up."""
    thread = ThreadId.parse(text)
    if thread.team != "*":
        return thread
    for one in await archive.threads(EVERY_THREAD):
        if (one.thread.channel, one.thread.root_ts) == (thread.channel, thread.root_ts):
            return one.thread
    return thread


async def show(archive: Archive, text: str) -> Found:
    """The whole log in sentences."""
    thread = await resolve(archive, text)
    entries = await archive.read(thread)
    if not entries:
        return _unknown(thread), 1
    head = [f"Thread {thread}: {len(entries)} entries", *narrate(entries)]
    return "\n".join([*head, _verdict(_verify(thread, entries))]), 0


async def search(archive: Archive, words: Sequence[str]) -> Found:
    """Entries that hold all of these words, whatever their case: a reference, an id, a name, a text."""
    wanted, lines, looked = [word.casefold() for word in words], [], 0
    for one in await archive.threads(EVERY_THREAD):
        looked += 1
        for entry in await archive.read(one.thread):
            text = json.dumps([entry.type, entry.run, entry.payload], ensure_ascii=False).casefold()
            if all(word in text for word in wanted):
                said = sentence(entry).partition("\n")[0]
                lines.append(visible(f"{one.thread}  seq {entry.seq}  {entry.at}  {entry.type}  {said}"))
    if not lines:
        return f"Nothing in {looked} threads holds {' and '.join(words)}.", 1
    return "\n".join(lines), 0


async def write_export(archive: Archive, text: str, form: str, out: Path | None) -> Found:
    """The log as a file or on standard output."""
    thread = await resolve(archive, text)
    entries = await archive.read(thread)
    if not entries:
        return _unknown(thread), 1
    content = export(thread, entries, form)
    if out is None:
        return content.rstrip("\n"), 0
    try:
        await asyncio.to_thread(out.write_text, content, encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"--out {out}: it cannot be written ({error.strerror})") from None
    return f"{len(entries)} entries written to {out}; head {entries[-1].hash}", 0


async def verify_thread(archive: Archive, text: str, head: str | None) -> Found:
    """The stored log of a thread."""
    thread = await resolve(archive, text)
    entries = await archive.read(thread)
    if not entries:
        return _unknown(thread), 1
    found = _verify(thread, entries, head)
    return _verdict(found), 0 if found.whole else 1


def verify_file(path: Path, head: str | None) -> Found:
    """An exported file, offline: nothing but the file is read."""
    try:
        # Not splitlines: it also ends lines at characters that a text in an entry may hold.
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        return f"BROKEN: {path} holds a line that is not JSON ({error})", 1
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from None
    if not lines:
        return f"BROKEN: {path} holds no entry", 1
    found = verify(None, [line if isinstance(line, dict) else {} for line in lines], head)
    return _verdict(found), 0 if found.whole else 1


def _verify(thread: ThreadId, entries: Sequence[Entry], head: str | None = None) -> Verdict:
    return verify(thread, [entry.dump() for entry in entries], head)


def _verdict(found: Verdict) -> str:
    if not found.whole:
        return visible(f"BROKEN at entry {found.broken_at}: {found.why}. {found.entries} entries before it hold.")
    erased = f", {found.erased} payloads erased" if found.erased else ""
    return f"WHOLE: {found.entries} entries{erased}; head {found.head}"


def _unknown(thread: ThreadId) -> str:
    return f"There is no log of {thread} here; `plimsoll audit threads` lists what there is."
