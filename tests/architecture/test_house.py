"""The house stays the house: sizes, rooms, docstrings, and what core may know."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted([*ROOT.glob("bot/**/*.py"), *ROOT.glob("tools/**/*.py")])
ALL = sorted([*SOURCES, *ROOT.glob("tests/**/*.py")])
MODULE_LINES, FUNCTION_LINES = 300, 40
CORE_KNOWS = sys.stdlib_module_names | {"pydantic", "rfc8785", "bot"}


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_no_module_is_longer_than_three_hundred_lines() -> None:
    """A longer one holds two ideas; there is no list of exceptions."""
    long = {str(path): lines for path in ALL if (lines := len(path.read_text().splitlines())) > MODULE_LINES}

    assert long == {}


def test_no_function_is_longer_than_forty_lines() -> None:
    """Of body and signature together; nested functions count for themselves as well."""
    long = {
        f"{path}:{node.name}": size
        for path in SOURCES
        for node in _functions(path)
        if (size := (node.end_lineno or 0) - node.lineno + 1 - _nested(node)) > FUNCTION_LINES
    }

    assert long == {}


def _nested(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return sum((one.end_lineno or 0) - one.lineno + 1 for one in inner)


def test_core_imports_nothing_beyond_the_standard_library_pydantic_and_rfc8785() -> None:
    """An allow-list: a new dependency has to be put there on purpose."""
    for path in (ROOT / "bot" / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert {name.split(".")[0] for name in names} <= CORE_KNOWS, path


def test_core_does_no_io_and_asks_no_clock() -> None:
    """Time and ids come in as values."""
    forbidden = {"asyncio", "time", "random", "secrets", "uuid", "logging", "socket", "os", "pathlib", "subprocess"}
    for path in (ROOT / "bot" / "core").rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert not forbidden & {name.split(".")[0] for name in names}, path
            assert not isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)), path
        assert ".now(" not in path.read_text() and "utcnow(" not in path.read_text(), path


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_public_name_says_what_it_is(path: Path) -> None:
    """Modules, classes and functions that others call have a docstring."""
    tree = ast.parse(path.read_text())
    missing = [] if not path.read_text().strip() or ast.get_docstring(tree) else [str(path)]
    for node in tree.body:
        public = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name[0] != "_"
        if public and not ast.get_docstring(node):
            missing.append(f"{path}:{node.name}")

    assert missing == []


def test_every_test_is_a_sentence_with_a_docstring() -> None:
    """Newcomers read them first."""
    unsaid = [
        f"{path.name}:{node.name}"
        for path in ROOT.glob("tests/**/test_*.py")
        for node in _functions(path)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert unsaid == []


def test_asking_for_help_does_not_pay_for_the_model_sdk() -> None:
    """`plimsoll --help` and the fast tests never import anthropic or mcp."""
    code = (
        "import sys; import bot.app.cli, bot.engine.worker, bot.store.redis_store; "
        "print([name for name in ('anthropic', 'mcp') if name in sys.modules])"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)

    assert out.stdout.strip() == "[]"
