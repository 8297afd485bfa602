"""What every test of the desk gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.desk import HelpDesk


@pytest.fixture
def desk(tmp_path: Path) -> HelpDesk:
    """Fresh records in a folder of their own."""
    return HelpDesk(tmp_path)
