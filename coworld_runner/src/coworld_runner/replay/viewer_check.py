"""Checks a static replay viewer: its files, and its page in a headless browser if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from coworld_core.errors import UsageError
from coworld_core.issues import Issue
from coworld_core.text.phrases import listed
from coworld_core.text.terminal import strip_controls

from ..package.viewer_bundle import ViewerBundle, read_bundle
from .page_look import INSTALL_BROWSER, open_browser, watched_page
from .viewer_server import open_viewer

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["ViewerLook", "check_viewer", "check_viewer_files", "look_at_viewer"]

_SETTLE: Final = 1.0
"""Seconds in which a page that has fetched the replay may still report errors."""
_LOOK_AGAIN: Final = 0.1
_HOST: Final = """<!doctype html><body style="margin:0"><script>
window.said = [];
addEventListener("message", event => { if (event.data && event.data.src === "coworld-replay") said.push(event.data) });
</script>"""
"""Stands in for a platform's page, which shows viewers in a frame and listens to their messages."""


async def check_viewer_files(directory: Path) -> tuple[ViewerBundle | None, Issue]:
    """Check the files of a viewer.

    Returns:
        The viewer, or None if it cannot be served; and a fact, or an error.
    """
    try:
        bundle = await anyio.to_thread.run_sync(read_bundle, directory)
    except UsageError as error:
        return None, Issue(code=error.code, message=error.message, hint=error.hint)
    files = f"The replay viewer has {len(bundle.files)} files and a page."
    return bundle, Issue(code="viewer_files", severity="info", message=files)


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
    bundle, found = await check_viewer_files(directory)
    if bundle is None:
        return [found]
    async with open_browser() as (browser, why_not):
        if browser is None:
            message = f"The viewer was not opened: {why_not}."
            return [found, Issue(code="viewer_not_opened", severity="warning", message=message, hint=INSTALL_BROWSER)]
        look = await look_at_viewer(browser, bundle, replay, packed=packed, seconds=seconds)
    return [found, *look.issues]


@dataclass(frozen=True, kw_only=True)
class ViewerLook:
    """What a viewer was seen to do."""

    issues: tuple[Issue, ...]
    picture: bytes
    """A PNG."""


@dataclass(frozen=True, kw_only=True)
class _PageReport:
    """Observations of the page."""

    fetched: bool
    drawn: bool
    complaints: tuple[str, ...]
    """Errors on its console, and uncaught errors."""
    outside: tuple[str, ...]
    """What it asked of other hosts."""
    messages: tuple[dict[str, Any], ...]
    """Messages from the viewer to the page around it."""

    def says(self, kind: str) -> dict[str, Any] | None:
        """Return the viewer's first message of a kind."""
        return next((message for message in self.messages if message.get("type") == kind), None)


async def look_at_viewer(
    browser: Browser, bundle: ViewerBundle, replay: Path, *, packed: bool, seconds: float
) -> ViewerLook:
    """Have a viewer show a replay in a browser, in a frame, as platforms do; other arguments as for `check_viewer`."""
    async with open_viewer(bundle, replay, packed=packed) as session, watched_page(browser, session.address) as watched:
        page = watched.page
        frame = f'<iframe src="{session.link}" style="width:100%;height:100vh;border:0;display:block"></iframe>'
        await page.set_content(f"{_HOST}{frame}", wait_until="commit")
        with anyio.move_on_after(seconds):
            await session.fetched.wait()
            await anyio.sleep(_SETTLE)
            # A page that reports progress also reports when it is ready
            while (said := await _posted(page)) and not {"ready", "error"} & {str(each.get("type")) for each in said}:  # noqa: ASYNC110
                await anyio.sleep(_LOOK_AGAIN)
        picture, drawn = await watched.drawn(_SETTLE if session.fetched.is_set() else 0)
        report = _PageReport(
            fetched=session.fetched.is_set(),
            drawn=drawn,
            complaints=tuple(watched.complaints),
            outside=tuple(watched.outside),
            messages=tuple(await _posted(page)),
        )
    return ViewerLook(issues=tuple(_issues(report, seconds)), picture=picture)


async def _posted(page: Page) -> list[dict[str, Any]]:
    return await page.evaluate("window.said")


def _issues(report: _PageReport, seconds: float) -> Iterator[Issue]:
    if report.fetched:
        yield Issue(code="viewer_fetches", severity="info", message="The viewer fetches the replay.")
    else:
        message = f"The viewer did not fetch the replay within {seconds:g} s."
        hint = "It finds the address in `#replay=` or, failing that, in `?replay=`."
        yield Issue(code="viewer_fetches", message=message, hint=hint)
    for words in dict.fromkeys(report.complaints):
        hint = "Open the viewer in a browser, and read its console."
        yield Issue(code="viewer_complains", message=f"The viewer's console: {words}", hint=hint)
    if report.outside:
        message = f"The viewer asks other hosts, which it may not reach: {listed(report.outside, limit=4)}."
        hint = "Put into its directory what it needs."
        yield Issue(code="viewer_asks_others", message=message, hint=hint)
    if (error := report.says("error")) is not None:
        words = f"The viewer says that it failed: {strip_controls(str(error.get('message', '')))[:300]}"
        yield Issue(code="viewer_failed", message=words)
    elif report.messages and report.says("ready") is None:
        words = f"The viewer says that it loads, but did not say within {seconds:g} s that it is ready."
        hint = 'Post {src: "coworld-replay", type: "ready"}.'
        yield Issue(code="viewer_not_ready", severity="warning", message=words, hint=hint)
    if report.fetched and not report.drawn:
        message = "The viewer draws nothing: its page is of one colour."
        yield Issue(code="viewer_blank", message=message, hint="Draw the replay's first moment when it is there.")
    elif report.drawn:
        yield Issue(code="viewer_draws", severity="info", message="The viewer draws something.")
