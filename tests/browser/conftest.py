"""Chromium, driven by Playwright. Without it every test here fails: a page that nobody opened is not tested."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.reports.conftest import make_run

__all__ = ["make_run"]

HERE = Path(__file__).parent
# The sandbox needs rights that a container does not give; the others keep Chromium from asking the network.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
LIMIT_MS = 60_000
expect.set_options(timeout=LIMIT_MS)  # `expect` has its own limit, not that of the page

OpenPage = Callable[..., Page]


WIDTH_PHONE_PX = 390
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.fail("Chromium is not installed; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens an address: a page of this width in pixels, light or dark. An error in its script fails the test."""
    errors: list[str] = []

    def open_one(address: str, width: int = 1400, scheme: str = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
        page = context.new_page()
        page.set_default_timeout(LIMIT_MS)
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(address)
        return page

    yield open_one
    for context in browser.contexts:
        context.close()
    assert errors == []
