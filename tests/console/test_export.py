"""A thread's log as a file: whole, verifiable by anybody, and inert whatever strangers wrote."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.console.export import FORMATS, export
from bot.core.chain import Entry, verify
from tests.builders import THREAD
from tests.console.logs import HOSTILE, log

FENCES = st.text(st.sampled_from("`~#\n >-*_[]()<!\\"), max_size=60)


class Tags(HTMLParser):
    """Every tag and attribute of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Kept."""
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Kept."""
        self.text += data


def test_lines_carry_the_whole_log_and_verify() -> None:
    """What was written comes back, hostile or not."""
    entries = log(HOSTILE)

    lines = [json.loads(line) for line in export(THREAD, entries, "jsonl").splitlines()]

    assert lines == [entry.dump() for entry in entries]
    assert verify(THREAD, lines, head=entries[-1].hash).whole


@given(st.text(max_size=40))
@settings(max_examples=50, deadline=None)
def test_an_entry_is_one_line_for_every_reader(text: str) -> None:
    """Also for one that ends lines at U+0085 or U+2028; and nothing in it moves a terminal."""
    entries = log(text)

    file = export(THREAD, entries, "jsonl")

    assert len(file.splitlines()) == file.count("\n") == len(entries)
    assert file.replace("\n", "").isprintable()
    assert verify(THREAD, [json.loads(line) for line in file.splitlines()]).whole


def test_letters_of_other_languages_stay_readable() -> None:
    """Only what cannot be shown is escaped."""
    assert "Grüße aus Łódź 🛳" in export(THREAD, log("Grüße aus Łódź 🛳"), "jsonl")


def test_an_erased_payload_is_exported_as_its_digest_alone() -> None:
    """And the file still verifies."""
    entries = [_erased(one) if one.seq == 2 else one for one in log("hunter2")]

    lines = [json.loads(line) for line in export(THREAD, entries, "jsonl").splitlines()]

    assert "payload" not in lines[1] and "salt" not in lines[1]
    assert (verify(THREAD, lines).whole, verify(THREAD, lines).erased) == (True, 1)


def _erased(entry: Entry) -> Entry:
    return Entry(**{**entry.__dict__, "payload": None, "salt": None})


def test_a_page_holds_no_tag_but_its_own() -> None:
    """A stranger's HTML is text on it."""
    page = Tags(export(THREAD, log(HOSTILE), "html"))

    assert set(page.tags) == {"meta", "title", "h1", "p", "code", "pre"}
    assert page.attributes == {"charset", "style"}
    assert "<script>alert(1)</script>" in page.text


@given(FENCES)
@settings(max_examples=100, deadline=None)
def test_a_markdown_file_is_a_heading_a_line_and_one_block_of_code(text: str) -> None:
    """Judged by a Markdown parser: no text of the log leaves its block."""
    tokens = MarkdownIt("commonmark").parse(export(THREAD, log(f"x{text}"), "md"))

    shape = ["heading_open", "inline", "heading_close", "paragraph_open", "inline", "paragraph_close", "fence"]
    assert [one.type for one in tokens] == shape


@pytest.mark.parametrize("form", ["html", "md"])
def test_what_a_terminal_or_reader_would_obey_is_shown_by_its_number(form: str) -> None:
    """Escape, bell, NUL, turned and hidden text."""
    file = export(THREAD, log(HOSTILE), form)

    assert not set("\x1b\x07\x00\r\x85\u2028\u202e\u200b") & set(file)
    assert all(f"U+{ord(one):04X}" in file for one in "\x1b\x07\x00\r\x85\u2028\u202e\u200b")


@pytest.mark.parametrize("form", ["html", "md"])
def test_a_file_for_people_names_thread_length_and_head(form: str) -> None:
    """So that it can be held against the log."""
    entries = log()

    file = export(THREAD, entries, form)

    assert str(THREAD) in file and f"{len(entries)} entries" in file and entries[-1].hash in file


def test_an_unknown_format_is_a_key_error() -> None:
    """The command line asks only for those it offers."""
    assert FORMATS == ("jsonl", "html", "md")
    with pytest.raises(KeyError):
        export(THREAD, log(), "pdf")
