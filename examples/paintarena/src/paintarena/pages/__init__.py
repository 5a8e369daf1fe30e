"""The browser pages: each one file, with shared style and script put into it, and nothing fetched from elsewhere."""

from functools import cache
from importlib.resources import files

from coworld_runner.serving.pages import Document, document


@cache
def render(page: str) -> Document:
    """Return `player`, `global`, `admin` or `replay`, with `common.css`, `common.js` and its own script inside."""
    folder = files(__name__)
    names = (f"{page}.html", "common.css", "common.js", f"{page}.js")
    shell, style, common, own = ((folder / name).read_text("utf-8") for name in names)
    return document(shell, style=style, script=common + own)
