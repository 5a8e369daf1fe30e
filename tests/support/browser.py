"""Pages in a real browser, each in its own window; any error or warning fails the test."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, sync_playwright

from .needs import find_browser

__all__ = [
    "DESKTOP",
    "PHONE",
    "Pages",
    "Size",
    "assert_fits",
    "browsing",
    "counted_down",
    "note_statuses",
    "opening",
    "sign_in",
    "signed_in",
    "visit",
]

Size = dict[str, int]

DESKTOP: Size = {"width": 1280, "height": 800}
PHONE: Size = {"width": 390, "height": 844}

_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_PATIENCE = 20_000
"""Time limit in milliseconds for any action on a page."""


_MOVED = "net::ERR_NETWORK_CHANGED"
"""Error of a page that is loading while a network is added or removed on this machine, as Docker often does."""
_LOOKED_AT = "willReadFrequently"
"""A warning caused by tests that wait for a picture by reading its pixels repeatedly; our pages never do."""
_NO_FAULT = ("WebSocket connection to", _MOVED, _LOOKED_AT)


def visit(page: Page, url: str | None = None) -> None:
    """Open an address, or reload the current page; try again if a network was added or removed meanwhile.

    In that case the browser shows an error page and soon reloads the address by itself; each can interrupt another
    navigation at that moment.
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


def assert_fits(page: Page) -> None:
    """Fail if a page is wider than its window, once it has been laid out."""
    # Not wait_for_function: pages forbid what it does from the second look on
    for _ in range(100):
        if page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{page.url} is wider than its window")


def note_statuses(page: Page) -> None:
    """Make a game's page record every status that it shows from now on."""
    page.evaluate("""() => {
        const status = document.getElementById("status");
        window.statuses = [];
        new MutationObserver(() => statuses.push(status.textContent)).observe(status, { childList: true });
    }""")


def counted_down(page: Page) -> bool:
    """Whether the recorded statuses include a countdown to the start of the game, in order."""
    shown: list[str] = page.evaluate("statuses.filter(text => text.startsWith('Starts in '))")
    return bool(shown) and shown == sorted(shown, reverse=True)


class Pages(Protocol):
    """Opens an address in its own window.

    `alone` pages may load nothing but themselves and may not write to the console; on other pages, only errors and
    warnings on the console count.
    """

    def __call__(self, url: str, *, size: Size = DESKTOP, dark: bool = False, alone: bool = False) -> Page: ...


def sign_in(page: Page, token: str, then: str) -> None:
    """Sign in where a page asks for a token, and wait for the one that it leads to."""
    page.get_by_label("Token").fill(token)
    page.locator("main button").click()
    page.wait_for_url(then)


def signed_in(pages: Pages, server: str, token: str, path: str, **look: Any) -> Page:
    """A page of a platform in a window of its own, of somebody who has signed in; `look` as in `Pages`."""
    page = pages(f"{server}/sign-in?next={path}", **look)
    sign_in(page, token, server + path)
    return page


@contextmanager
def browsing() -> Generator[Browser]:
    """Start Debian's chromium."""
    program = find_browser()
    assert program is not None, "a test that needs a browser has the mark browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opening(browser: Browser) -> Generator[Pages]:
    """Open pages; fails at the end if a page logged an error, opened a dialog or window, or made a stray request."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(url: str, *, size: Size = DESKTOP, dark: bool = False, alone: bool = False) -> Page:
        def note(message: ConsoleMessage) -> None:
            # The browser reports every refused or lost socket; tests check for themselves whether that is right.
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
        # Playwright takes a click whose request fails for one that leads nowhere; shown if the test fails.
        page.on("requestfailed", lambda asked: print(f"{asked.method} {asked.url} failed: {asked.failure}"))

        def note_request(asked: Request) -> None:
            # Data and blob URLs are made by the page itself.
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
