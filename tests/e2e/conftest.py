"""One browser for all these tests, as it takes longer to start than most of them, and windows of its own for each."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser
from support.browser import Pages, browsing, opening


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def pages(browser: Browser) -> Generator[Pages]:
    """Opens pages; afterwards none of them may have complained."""
    with opening(browser) as pages:
        yield pages
