"""If somebody asks "what does a long run cost?", the answer is here: nearly all of it is read from the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.lab.messages_script import Call, Reply, Turn
from tests.live import POLICY, live

pytestmark = pytest.mark.wire
TURNS = 20
TOOLS = '''
import hashlib
from pydantic import BaseModel
from bot.core.authority import Authority
from bot.core.tool import tool

class Page(BaseModel):
    number: int

@tool(authority=Authority.OBSERVE)
async def page(args: Page, context) -> str:
    """Read one page of the archive."""
    return "\\n".join(hashlib.sha256(f"{args.number}.{line}".encode()).hexdigest() for line in range(32))
'''


class _Pages:
    """Reads page after page, then answers."""

    def __init__(self) -> None:
        self.asked = 0

    def reply(self, request: dict[str, Any]) -> Reply:
        self.asked += 1
        return Turn(calls=[Call("page", {"number": self.asked})]) if self.asked < TURNS else Turn("Read.")


async def test_a_run_of_twenty_turns_reads_nine_tenths_of_its_input_from_the_cache(tmp_path: Path) -> None:
    """By the service's own accounts, though every page is a stranger's and lowers what may be done."""
    (tmp_path / "pages.py").write_text(TOOLS)
    policy = POLICY + '\n[tools]\nmodules = ["tools.helpdesk", "pages"]\n'
    async with live(tmp_path, brain=_Pages(), policy=policy) as world:
        await world.start()

        await world.answer(await world.ask("read the archive"), timeout_s=30)

        usages = [one.usage for one in world.model.asked if one.usage]
        read = sum(one["cache_read_input_tokens"] for one in usages)
        whole = read + sum(one["cache_creation_input_tokens"] + one["input_tokens"] for one in usages)
        assert len(usages) == TURNS
        assert read / whole >= 0.9, f"{read / whole:.3f}"
        first = world.model.requests[0]
        for one in world.model.requests:
            assert (one["system"], one["tools"]) == (first["system"], first["tools"])
