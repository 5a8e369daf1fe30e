"""Pages in a real browser: opened in windows of their own, and held to complain about nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, sync_playwright

__all__ = ["DESK", "PHONE", "Pages", "Size", "browsing", "counted_down", "note_statuses", "opening", "visit"]

Size = dict[str, int]

DESK: Size = {"width": 1280, "height": 800}
PHONE: Size = {"width": 390, "height": 844}

_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_PATIENCE = 20_000
"""Milliseconds that a page may take for anything."""


_MOVED = "net::ERR_NETWORK_CHANGED"
"""Whatever is being loaded when a network comes or goes on this machine, as those of Docker do all the time."""
_LOOKED_AT = "willReadFrequently"
"""A test that waits for a picture reads its pixels again and again; no page of ours does."""
_NO_FAULT = ("WebSocket connection to", _MOVED, _LOOKED_AT)


def visit(page: Page, url: str | None = None) -> None:
    """Open an address, or the present one anew; try again when a network came or went meanwhile.

    The browser then shows a page of its own and soon loads the address again by itself. Each gets in the way of
    whoever asks for it in that moment.
    """
    for last in (*[False] * 9, True):
        try:
            if url is None:
                page.reload()
            else:
                page.goto(url)
            return
        except Error as error:
            if last or not any(text in error.message for text in (_MOVED, "interrupted by another navigation")):
                raise
            page.wait_for_timeout(100)


def note_statuses(page: Page) -> None:
    """Have a game's page keep every status it shows from now on."""
    page.evaluate("""() => {
        const status = document.getElementById("status");
        window.statuses = [];
        new MutationObserver(() => statuses.push(status.textContent)).observe(status, { childList: true });
    }""")


def counted_down(page: Page) -> bool:
    """Whether the noted statuses have counted down to the start of the game, in order."""
    shown: list[str] = page.evaluate("statuses.filter(text => text.startsWith('Starts in '))")
    return bool(shown) and shown == sorted(shown, reverse=True)


class Pages(Protocol):
    """Opens an address in a window of its own.

    ``alone`` pages may load nothing but themselves, and write nothing on the console; of others only errors and
    warnings count.
    """

    def __call__(self, url: str, *, size: Size = DESK, dark: bool = False, alone: bool = False) -> Page: ...


@contextmanager
def browsing() -> Generator[Browser]:
    """Debian's chromium, started; the test is skipped without it, and in CI fails."""
    # without the windows around its pages, a page takes a third of the time
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed, and in CI it must be")
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opening(browser: Browser) -> Generator[Pages]:
    """Opens pages; afterwards none of them may have complained, opened a dialog or window, or strayed."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(url: str, *, size: Size = DESK, dark: bool = False, alone: bool = False) -> Page:
        def note(message: ConsoleMessage) -> None:
            # a refused or lost socket is always reported; whether it should have been is the test's business
            serious = message.type in ("error", "warning") and not any(text in message.text for text in _NO_FAULT)
            if alone or serious:
                complaints.append(f"console: {message.text}")

        context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light")  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(_PATIENCE)
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("popup", lambda popup: complaints.append(f"popup: {popup.url}"))

        def note_request(asked: Request) -> None:
            # what a page made itself comes from nowhere else
            if asked.url != url and not asked.url.startswith(("data:", "blob:")):
                complaints.append(f"request: {asked.url}")

        if alone:
            page.on("request", note_request)
        visit(page, url)
        return page

    try:
        yield open_page
    finally:
        for context in contexts:
            context.close()
    assert complaints == []
