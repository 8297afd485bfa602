"""`plimsoll audit`, asked of a store in memory and of exported files: what it says and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.app.audit import Found, search, show, threads, verify_file, verify_thread, write_export
from bot.core.chain import Entry
from bot.core.errors import Misconfigured
from bot.core.events import MessageIgnored, RunFinished, Usage
from bot.core.words import ThreadId
from bot.lab.clock import LabClock
from bot.lab.memory import MemoryStore
from tests.builders import THREAD
from tests.console.logs import HOSTILE, changed, log, sealed

PERMALINK = f"https://acme.slack.com/archives/{THREAD.channel}/p1780000000000100"
OTHER = replace(THREAD, root_ts="1780000000.000200")
UNKNOWN = "T0PLIMSOLL/C0SUPPORT/1.000001"


def archive(entries: list[Entry], thread: ThreadId = THREAD) -> Any:
    """What a store with that one thread answers."""
    store = MemoryStore(LabClock())
    store.memory.actor(thread).log.extend(entries)
    return store.archive


def files_in(folder: Path) -> list[str]:
    """Their names."""
    return [one.name for one in folder.iterdir()]


async def exported(tmp_path: Path, entries: list[Entry]) -> Path:
    """The log as a file of lines."""
    file = tmp_path / "log.jsonl"
    await write_export(archive(entries), str(THREAD), "jsonl", file)
    return file


async def test_the_list_of_threads_gives_each_with_its_length_and_head() -> None:
    """An auditor can note the heads and come back."""
    text, code = await threads(archive(log()))

    assert code == 0
    assert str(THREAD) in text and f"{len(log())} entries" in text and log()[-1].hash[:16] in text


async def test_a_reference_finds_its_thread_and_entry() -> None:
    """And nothing else."""
    ended = RunFinished(
        outcome="failed",
        stop_reason="model_error",
        text="I stopped.",
        messages=[],
        usage=Usage(),
        cost_usd=0,
        reference="ref-1a2b",
    )
    entries = sealed([MessageIgnored(ts="1.0", reason="talk"), ended, MessageIgnored(ts="2.0", reason="talk")])

    text, code = await search(archive(entries), ["ref-1a2b"])

    assert code == 0
    assert text.startswith(f"{THREAD}  seq 2  {entries[1].at}  RunFinished  failed / model_error")
    assert "\n" not in text


async def test_a_search_wants_every_word_whatever_its_case() -> None:
    """Over all threads; what is not there is a finding."""
    store = MemoryStore(LabClock())
    for thread in (THREAD, OTHER):
        store.memory.actor(thread).log.extend(log())

    text, code = await search(store.archive, ["RUNfinished", "Answered"])
    none, failed = await search(store.archive, ["RunFinished", "no such word"])

    assert code == 0 and {line.split("  ")[0] for line in text.splitlines()} == {str(THREAD), str(OTHER)}
    assert (none, failed) == ("Nothing in 2 threads holds RunFinished and no such word.", 1)


async def test_what_a_search_shows_is_printable_and_erased_payloads_are_not_found() -> None:
    """Hostile texts cannot move the terminal; what is gone is gone."""
    text, _ = await search(archive(log(HOSTILE)), [""])
    erased = [replace(one, payload=None, salt=None) for one in log()]

    assert all(line.isprintable() for line in text.splitlines())
    assert (await search(archive(erased), ["U0ALICE"]))[1] == 1


async def test_no_thread_at_all_is_no_mistake() -> None:
    """On a fresh installation."""
    assert await threads(MemoryStore(LabClock()).archive) == ("No thread has a log here yet.", 0)


@pytest.mark.parametrize("name", [str(THREAD), PERMALINK, f"{PERMALINK}?thread_ts=1780000000.000100&cid=C0SUPPORT"])
async def test_a_thread_is_shown_by_name_or_by_the_link_that_slack_copies(name: str) -> None:
    """The whole log, and that it is whole."""
    text, code = await show(archive(log()), name)

    assert code == 0
    assert text.startswith(f"Thread {THREAD}: {len(log())} entries")
    assert text.endswith(f"WHOLE: {len(log())} entries; head {log()[-1].hash}")


@pytest.mark.parametrize("name", [UNKNOWN, "https://acme.slack.com/archives/C0OTHER/p1780000000000100"])
async def test_an_unknown_thread_is_a_finding_that_says_where_to_look(name: str, tmp_path: Path) -> None:
    """For every question that names a thread; no file is written."""
    asked: list[Found] = [
        await show(archive(log()), name),
        await verify_thread(archive(log()), name, None),
        await write_export(archive(log()), name, "jsonl", tmp_path / "out"),
    ]

    assert [code for _, code in asked] == [1, 1, 1]
    assert all("`plimsoll audit threads` lists what there is" in text for text, _ in asked)
    assert files_in(tmp_path) == []


async def test_a_stored_log_that_somebody_changed_is_shown_and_said_to_be_broken() -> None:
    """With the first entry that does not hold; the exit code of verify is a finding."""
    entries = changed(log(), 4, payload={"call_id": "call-1", "verdict": "\x1b[2Jallowed"})

    text, _ = await show(archive(entries), str(THREAD))
    said, code = await verify_thread(archive(entries), str(THREAD), None)

    assert code == 1
    assert text.endswith(said)
    assert said.startswith("BROKEN at entry 4: its payload is not what was written. 3 entries before it hold.")
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ["Broken.", HOSTILE, "a\u2028b\u2029c\x85d\x1ce"])
async def test_an_exported_file_verifies_offline(tmp_path: Path, text: str) -> None:
    """Whatever line ends the texts in it hold."""
    said, code = verify_file(await exported(tmp_path, log(text)), log(text)[-1].hash)

    assert (said, code) == (f"WHOLE: {len(log(text))} entries; head {log(text)[-1].hash}", 0)


async def test_a_file_whose_texts_hold_other_line_ends_unescaped_verifies_too(tmp_path: Path) -> None:
    """Another tool may have written the same lines again without escapes."""
    file = tmp_path / "log.jsonl"
    lines = [json.dumps(entry.dump(), ensure_ascii=False) for entry in log("a\u2028b\x85c")]
    file.write_text("\r\n".join(lines), encoding="utf-8")

    assert verify_file(file, None)[1] == 0


async def test_one_changed_letter_in_a_file_is_found_and_placed(tmp_path: Path) -> None:
    """A finding."""
    file = await exported(tmp_path, log("Three units."))
    file.write_text(file.read_text().replace("Three units.", "Seven units.", 1))

    said, code = verify_file(file, None)

    assert code == 1
    assert said.startswith("BROKEN at entry 2: its payload is not what was written")


async def test_a_cut_tail_is_found_with_an_anchored_head_only(tmp_path: Path) -> None:
    """Without the anchor nobody could tell."""
    file = await exported(tmp_path, log())
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))

    assert verify_file(file, None)[1] == 0
    said, code = verify_file(file, log()[-1].hash)
    assert code == 1 and "its end was cut off, or it is another log" in said


async def test_a_head_of_before_still_holds_when_the_log_has_grown(tmp_path: Path) -> None:
    """An anchor is noted once."""
    assert verify_file(await exported(tmp_path, log()), log()[3].hash.upper())[1] == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no entry"),
        (b"\n \n", "holds no entry"),
        (b"{\n", "a line that is not JSON"),
        (b"\xff\xfe", "a line that is not JSON"),
        (b"[" * 100_000, "a line that is not JSON"),
        (b'{"seq": ' + b"9" * 5000 + b"}", "a line that is not JSON"),
        (b"[]", "BROKEN at entry 1"),
        (b"null", "BROKEN at entry 1"),
        (b'{"seq": 1}', "BROKEN at entry 1"),
        (b'{"seq": 1, "prev": {"\\u001b[2J": 1}}', "BROKEN at entry 1"),
    ],
)
def test_a_file_that_is_no_log_is_a_finding(tmp_path: Path, content: bytes, said: str) -> None:
    """In one printable line, however it is made."""
    file = tmp_path / "log.jsonl"
    file.write_bytes(content)

    text, code = verify_file(file, None)

    assert code == 1
    assert said in text and text.isprintable()


async def test_an_export_that_cannot_be_written_is_a_mistake_of_usage(tmp_path: Path) -> None:
    """It names the option."""
    with pytest.raises(Misconfigured, match=r"--out .*nowhere.*: it cannot be written"):
        await write_export(archive(log()), str(THREAD), "md", tmp_path / "nowhere" / "log.md")
