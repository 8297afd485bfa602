"""The scripted service and the real client on it, as the client's own tests have them."""

from __future__ import annotations

from tests.claude.conftest import place

__all__ = ["place"]
