"""The work that both sides do: a question, a prompt of 4.4 KB, and a page of 2 KiB a turn that nobody has seen yet."""

from __future__ import annotations

import random
from functools import cache

MODEL = "claude-sonnet-5-5"
MAX_OUTPUT_TOKENS = 8192
PROMPT_BYTES = 4400
PAGE_BYTES = 2048
TOOL = "read_page"
TOOL_WORDS = "Read one page of the archive by its number; each page stands alone and none repeats another."
_SYLLABLES = [
    "ra",
    "be",
    "ko",
    "ti",
    "lu",
    "sen",
    "mar",
    "dol",
    "vi",
    "gan",
    "pe",
    "fo",
    "ster",
    "ul",
    "im",
    "cha",
    "ne",
    "wor",
    "lis",
    "ta",
]


def _prose(seed: str, size: int, line: int = 80) -> str:
    """Words in lines, as long as said to the byte, different for each seed."""
    chance = random.Random(seed)
    lines: list[str] = []
    total = 0
    while total <= size:
        words: list[str] = []
        while sum(map(len, words)) + len(words) < line - 10:
            words.append("".join(chance.choices(_SYLLABLES, k=chance.randint(1, 3))))
        lines.append(" ".join(words) + ".")
        total += len(lines[-1]) + 1
    return "\n".join(lines)[:size].rstrip().ljust(size, ".")


SYSTEM = _prose("prompt", PROMPT_BYTES)


@cache
def page(number: int) -> str:
    """What the tool returns for that page."""
    return _prose(f"page {number}", PAGE_BYTES)


def question(session: str) -> str:
    """What a person asks; the server tells sessions apart by it."""
    token = session.replace(".", "_")
    return f"session-{token} wants every page of the archive read, one after the other, and a short summary."
