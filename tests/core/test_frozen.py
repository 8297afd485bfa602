"""Copies of frozen values, held against the standard library's."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot import core
from bot.core.frozen import replace
from bot.core.state import Run, Session
from tests.builders import THREAD


@given(
    st.fixed_dictionaries({}, optional={"entries": st.integers(), "principal": st.text(), "bot_runs": st.integers()})
)
def test_a_copy_is_what_the_standard_library_makes(changes: dict[str, object]) -> None:
    """Equal, of the same type, still frozen; the original stays as it was."""
    before = Session(THREAD, run=Run("r", "U0ALICE", "1", 300.0))

    after = replace(before, **changes)

    assert after == dataclasses.replace(before, **changes)
    assert before == Session(THREAD, run=Run("r", "U0ALICE", "1", 300.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.entries = 1  # type: ignore[misc]  # that is the point


def test_a_field_that_is_not_there_is_refused() -> None:
    """A slip of the pen is loud."""
    with pytest.raises(TypeError, match="Session has no field entrys"):
        replace(Session(THREAD), entrys=1)  # type: ignore[call-arg]  # that is the point


def test_no_frozen_value_of_the_core_derives_a_field_or_uses_slots() -> None:
    """What such a copy could not do."""
    modules = [importlib.import_module(f"bot.core.{one.name}") for one in pkgutil.iter_modules(core.__path__)]
    kinds = {kind for module in modules for kind in vars(module).values() if dataclasses.is_dataclass(kind)}

    odd = [kind for kind in kinds if hasattr(kind, "__post_init__") or "__slots__" in vars(kind)]

    assert {Session, Run} <= kinds
    assert odd == []
