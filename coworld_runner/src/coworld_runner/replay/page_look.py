"""Looks at a page in a headless browser: what it complains of, what it asks of others, and what it shows."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio

from coworld_core.text.terminal import strip_controls

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page, Route

__all__ = ["INSTALL_BROWSER", "WatchedPage", "open_browser", "watched_page"]

INSTALL_BROWSER: Final = "Install Chromium and `pip install coworld-runner[browser]`, so that pages are looked at, too."

_BROWSERS: Final = (
    *("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("microsoft-edge", "microsoft-edge-stable"),
)
_VARIABLE: Final = "COWORLD_BROWSER"
"""Names the browser's program; `none`: no browser."""
_SIZE: Final = {"width": 960, "height": 600}
_CLOSING: Final = 5.0
_LOOK_AGAIN: Final = 0.2
_PICTURE: Final = 10.0
"""Seconds to take a picture."""
_OWN: Final = ("data", "blob", "about")
"""Schemes of addresses that lead nowhere."""
_COLOURS: Final = """async data => {
  const picture = await createImageBitmap(await (await fetch(data)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height), context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const pixels = context.getImageData(0, 0, picture.width, picture.height).data;
  for (let at = 4; at < pixels.length; at += 4)
    for (let part = 0; part < 3; part += 1) if (pixels[at + part] !== pixels[part]) return true;
  return false;
}"""
"""Whether a picture has more than one colour."""


@asynccontextmanager
async def open_browser() -> AsyncGenerator[tuple[Browser | None, str]]:
    """Open a browser: COWORLD_BROWSER if that is set, one of the usual names on the path, or playwright's own.

    Yields:
        The browser, or None and the reason.
    """
    named = os.environ.get(_VARIABLE, "")
    if named == "none":
        yield None, f"{_VARIABLE} is none"
        return
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError:
        yield None, "playwright is not installed"
        return
    program = next(filter(None, map(shutil.which, [named] if named else _BROWSERS)), named or None)
    arguments = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
    # As root, Chromium refuses to start with its sandbox
    arguments += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    playwright = await async_playwright().start()
    browser, why_not = None, ""
    try:
        try:
            browser = await playwright.chromium.launch(executable_path=program, args=arguments)
        except Error as error:
            why_not = f"no browser could be started ({error.message.strip().splitlines()[0]})"
        yield browser, why_not
    finally:
        with anyio.move_on_after(_CLOSING, shield=True):
            if browser is not None:
                await browser.close()
            await playwright.stop()


@dataclass(frozen=True, kw_only=True)
class WatchedPage:
    """A page whose errors and requests are noted."""

    page: Page
    hosts: set[str]
    """Every `host:port` that it reaches."""
    complaints: list[str] = field(default_factory=list[str])
    """Errors on its console, and uncaught errors."""
    outside: list[str] = field(default_factory=list[str])
    """What it asked of other hosts, which it did not get: addresses without their queries."""

    async def picture(self) -> bytes:
        """Return what it shows, as a PNG; empty if it cannot be shown any more."""
        from playwright.async_api import Error

        picture = b""
        # A call of playwright that is cancelled half-way complains later
        with anyio.CancelScope(shield=True), suppress(Error):
            picture = await self.page.screenshot(animations="disabled", timeout=_PICTURE * 1000)
        return picture

    async def shows_anything(self, picture: bytes) -> bool:
        """Whether a picture has more than one colour."""
        shows = False
        with anyio.CancelScope(shield=True):
            if picture:
                blank = await self.page.context.new_page()
                try:
                    data = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
                    shows = bool(await blank.evaluate(_COLOURS, data))
                finally:
                    await blank.close()
        return shows

    async def drawn(self, seconds: float) -> tuple[bytes, bool]:
        """Wait until it shows anything, at most for some seconds; returns its picture, and whether it does."""
        until = anyio.current_time() + seconds
        while True:
            picture = await self.picture()
            if (shows := await self.shows_anything(picture)) or anyio.current_time() > until:
                return picture, shows
            await anyio.sleep(_LOOK_AGAIN)


@asynccontextmanager
async def watched_page(browser: Browser, *hosts: str) -> AsyncGenerator[WatchedPage]:
    """Open an empty page that reaches only some hosts, and close it on leaving.

    Args:
        browser: An open browser.
        hosts: Every `host:port` that it reaches.
    """
    context = await browser.new_context(viewport={"width": _SIZE["width"], "height": _SIZE["height"]})
    try:
        watched = WatchedPage(page=await context.new_page(), hosts={*hosts})
        refused: set[str] = set()

        async def pass_on(route: Route) -> None:
            url = route.request.url
            parts = urlsplit(url)
            if parts.scheme in _OWN or parts.netloc in watched.hosts:
                await route.continue_()
                return
            refused.add(url)
            place = strip_controls(f"{parts.scheme}://{parts.netloc}{parts.path}")[:200]
            if place not in watched.outside:
                watched.outside.append(place)
            await route.abort()

        def note(message: ConsoleMessage) -> None:
            # That a request was refused here is no complaint of the page
            if message.type == "error" and message.location.get("url") not in refused:
                watched.complaints.append(strip_controls(message.text)[:300])

        await context.route("**/*", pass_on)
        watched.page.on("console", note)
        watched.page.on("pageerror", lambda error: watched.complaints.append(strip_controls(str(error))[:300]))
        yield watched
    finally:
        with anyio.move_on_after(_CLOSING, shield=True):
            await context.close()
