"""Debian's Chromium, headless, for the tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, async_playwright

# Without the background flags Chromium talks to the outside at its start.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A fresh page; any error of a script on it fails the test."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "no Chromium: `make test` installs Debian's; elsewhere set CHROMIUM to its path"
    errors: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=QUIET)
        page = await browser.new_page(viewport={"width": 1000, "height": 900})
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        await browser.close()
    assert errors == []
