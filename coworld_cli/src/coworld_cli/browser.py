"""Opening pages in a browser, only where there is a user to see them."""

from __future__ import annotations

import os
import sys
import webbrowser

from .output import Output

__all__ = ["open_page", "wants_browser"]


def wants_browser(asked: bool | None) -> bool:
    """Whether to open a browser: as asked, else only from a terminal on a desktop.

    Without a desktop `webbrowser` would start a text browser right in the terminal.
    """
    if asked is not None:
        return asked
    desktop = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(desktop) and sys.stdout.isatty() and sys.stderr.isatty() and not os.environ.get("CI")


async def open_page(url: str, out: Output) -> None:
    """Open a page in a browser, or ask the user to open it."""
    import anyio.to_thread

    try:
        opened = await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        out.note("No browser could be opened; open the link yourself.")
