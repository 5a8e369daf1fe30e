"""Windows of its own for each of these tests, in the browser that those of a module share."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser
from support.browser import Pages, opening


@pytest.fixture
def pages(browser: Browser) -> Generator[Pages]:
    """Opens pages; afterwards none of them may have complained."""
    with opening(browser) as pages:
        yield pages
