"""Checks a static replay viewer: its files, and its page in a headless browser if there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from coworld_core.errors import UsageError
from coworld_core.issues import Issue
from coworld_core.text.terminal import strip_controls

from ..package.viewer_bundle import read_bundle
from .viewer_server import open_viewer

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page

__all__ = ["check_viewer"]

_BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SETTLE: Final = 1.0
"""Seconds in which a page that has fetched the replay may still report errors."""
_LOOK_AGAIN: Final = 0.1
_CLOSING: Final = 5.0
_HOST: Final = """<!doctype html><script>
window.said = [];
addEventListener("message", event => { if (event.data && event.data.src === "coworld-replay") said.push(event.data) });
</script>"""
"""Stands in for a platform's page, which shows viewers in a frame and listens to their messages."""


async def check_viewer(directory: Path, replay: Path, *, packed: bool, seconds: float) -> list[Issue]:
    """Check that a viewer shows a replay.

    Args:
        directory: The viewer's directory.
        replay: The replay to show.
        packed: Whether to serve the replay as gzip.
        seconds: How long the page may take to fetch the replay and be ready.

    Returns:
        What was found: errors if the viewer does not show the replay, a warning if that is uncertain, and facts.
    """
    try:
        bundle = await anyio.to_thread.run_sync(read_bundle, directory)
    except UsageError as error:
        return [Issue(code=error.code, message=error.message, hint=error.hint)]
    files = f"The replay viewer has {len(bundle.files)} files and a page."
    found = [Issue(code="viewer_files", severity="info", message=files)]
    async with open_viewer(bundle, replay, packed=packed) as session, _browser() as (browser, why_not):
        if browser is None:
            message = f"The viewer was not opened: {why_not}."
            return [*found, Issue(code="viewer_not_opened", severity="warning", message=message, hint=_INSTALL)]
        report = await _look(browser, session.link, session.fetched, seconds)
    return [*found, *_issues(report, seconds)]


_INSTALL: Final = "Install Chromium and `pip install coworld-runner[browser]`, so that the page is checked, too."


@dataclass(frozen=True, kw_only=True)
class _PageReport:
    """Observations of the page."""

    fetched: bool
    complaints: tuple[str, ...]
    """Errors on its console, and uncaught errors."""
    said: tuple[dict[str, Any], ...]
    """Messages from the viewer to the page around it."""

    def says(self, kind: str) -> dict[str, Any] | None:
        """Return the viewer's first message of a kind."""
        return next((message for message in self.said if message.get("type") == kind), None)


@asynccontextmanager
async def _browser() -> AsyncGenerator[tuple[Browser | None, str]]:
    """Open a browser; yields it, or None and the reason."""
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError:
        yield None, "playwright is not installed"
        return
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
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


async def _look(browser: Browser, link: str, fetched: anyio.Event, seconds: float) -> _PageReport:
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(strip_controls(message.text)[:300])

    page = await browser.new_page()
    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(strip_controls(str(error))[:300]))
    await page.set_content(f'{_HOST}<iframe src="{link}" style="width:100%;height:90vh"></iframe>', wait_until="commit")
    with anyio.move_on_after(seconds):
        await fetched.wait()
        await anyio.sleep(_SETTLE)
        # A page that reports progress also reports when it is ready
        while (said := await _said(page)) and not {"ready", "error"} & {str(each.get("type")) for each in said}:  # noqa: ASYNC110
            await anyio.sleep(_LOOK_AGAIN)
    return _PageReport(fetched=fetched.is_set(), complaints=tuple(complaints), said=tuple(await _said(page)))


async def _said(page: Page) -> list[dict[str, Any]]:
    return await page.evaluate("window.said")


def _issues(report: _PageReport, seconds: float) -> list[Issue]:
    found = [
        Issue(code="viewer_fetches", severity="info", message="The viewer fetches the replay.")
        if report.fetched
        else Issue(
            code="viewer_fetches",
            message=f"The viewer did not fetch the replay within {seconds:g} s.",
            hint="It finds the address in `#replay=` or, failing that, in `?replay=`.",
        )
    ]
    found += [
        Issue(
            code="viewer_complains",
            message=f"The viewer's console: {words}",
            hint="Open the viewer in a browser, and read its console.",
        )
        for words in dict.fromkeys(report.complaints)
    ]
    if (error := report.says("error")) is not None:
        words = f"The viewer says that it failed: {strip_controls(str(error.get('message', '')))[:300]}"
        found.append(Issue(code="viewer_failed", message=words))
    elif report.said and report.says("ready") is None:
        words = f"The viewer says that it loads, but did not say within {seconds:g} s that it is ready."
        hint = 'Post {src: "coworld-replay", type: "ready"}.'
        found.append(Issue(code="viewer_not_ready", severity="warning", message=words, hint=hint))
    return found
