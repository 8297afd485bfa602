"""What the tests of configuration share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the policy is."""
    return tmp_path / "plimsoll.toml"
