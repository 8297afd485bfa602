"""Tool modules: found beside the configuration file, and refused in one line when they cannot be used."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bot.app.modules import load_tools
from bot.core.errors import Misconfigured

TOOL = """
from typing import Any
from pydantic import BaseModel
from bot.core.authority import Authority
from bot.core.tool import ToolContext, tool

class Args(BaseModel):
    order_id: str

@tool(authority=Authority.OBSERVE)
async def look(args: Args, context: ToolContext) -> Any:
    \"\"\"Look at an order.\"\"\"
    return {}
"""
BUILD = (
    TOOL.replace("@tool", "    @tool")
    .replace("async def", "    async def")
    .replace('    """L', '        """L')
    .replace("    return {}", "        return {}\n    return [look]")
    .replace("    @tool", "def build(resources):\n    assert resources['home'] == 'here'\n    @tool")
)
_numbers = itertools.count()
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Puts a module beside the configuration file and names it; the import path is as before afterwards."""
    before = list(sys.path)

    def make(text: str) -> str:
        name = f"tools_of_a_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield make
    sys.path[:] = before


@pytest.mark.parametrize("text", [TOOL, BUILD])
def test_a_module_beside_the_configuration_file_gives_its_tools(write: Write, tmp_path: Path, text: str) -> None:
    """Decorated functions, or what `build` makes of the resources."""
    found = load_tools([write(text)], tmp_path, {"home": "here"})

    assert [one.name for one in found] == ["look"]


def test_modules_give_their_tools_in_the_order_of_the_file(write: Write, tmp_path: Path) -> None:
    """One that is named twice counts once."""
    first, second = write(TOOL), write(TOOL.replace("look", "see"))

    assert [one.name for one in load_tools([second, first, second], tmp_path, {})] == ["see", "look"]


def test_a_tool_under_two_names_is_one_tool(write: Write, tmp_path: Path) -> None:
    """`other = look` is no second tool."""
    assert len(load_tools([write(TOOL + "\nother = look\n")], tmp_path, {})) == 1


def test_the_demonstrations_tools_are_found_from_any_folder(write: Write, tmp_path: Path) -> None:
    """They are installed, wherever the configuration is."""
    assert len(load_tools(["tools.helpdesk"], tmp_path, {"home": tmp_path})) > 10


def test_a_file_there_takes_the_place_of_no_library(write: Write, tmp_path: Path) -> None:
    """A folder with a `json.py` or a `tools.py` of somebody's must not change what we import."""
    load_tools([write(TOOL)], tmp_path, {})

    assert sys.path[-1] == str(tmp_path)
    assert sys.path[0] != str(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no\\n  database')", "cannot be imported (RuntimeError: no database)"),
        ("import sys; sys.exit(7)", "cannot be imported (SystemExit: 7)"),
        ("import no_such_library_here", "No module named 'no_such_library_here'"),
        ("def broken(:", "cannot be imported (SyntaxError: "),
        ("x = 1", "exports no tool; decorate functions with @tool or offer build()"),
        ("def build(resources): return []", "exports no tool"),
        ("def build(resources): return ['look']", "exports no tool"),
        ("def build(resources): return None", "cannot be imported (TypeError"),
        ("def build(resources): raise KeyError('home')", "cannot be imported (KeyError: 'home')"),
        (TOOL.replace('"""Look at an order."""', "pass"), "tool 'look': it has no docstring"),
        (TOOL.replace("async def", "def"), "tool 'look': write `async def name"),
    ],
)
def test_a_module_that_cannot_be_used_is_refused_in_one_line(
    write: Write, tmp_path: Path, text: str, said: str
) -> None:
    """It names the setting, the module and what was wrong with it."""
    name = write(text)

    with pytest.raises(Misconfigured) as caught:
        load_tools([name], tmp_path, {})

    assert str(caught.value).startswith(f"[tools] modules: {name!r}") and said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["no_such_module_here", "", ".relative", "tools/helpdesk.py", "no.such.module"])
def test_a_module_that_is_not_there_says_where_it_was_looked_for(write: Write, tmp_path: Path, name: str) -> None:
    """The folder by name: it may be another one than the operator thinks."""
    with pytest.raises(Misconfigured) as caught:
        load_tools([name], tmp_path, {})

    assert str(tmp_path) in str(caught.value)


def test_all_modules_that_cannot_be_used_are_named_at_once(write: Write, tmp_path: Path) -> None:
    """An operator corrects the file once."""
    bad = [write("1 / 0"), write("x = 1")]

    with pytest.raises(Misconfigured) as caught:
        load_tools([bad[0], write(TOOL), bad[1]], tmp_path, {})

    assert [line.split("'")[1] for line in str(caught.value).splitlines()] == bad
