"""The browser pages: each is a single file with the shared style and script inlined, and fetches nothing else."""

from functools import cache
from importlib.resources import files

from coworld_runner.web import Document, document


@cache
def render(page: str) -> Document:
    """Return page `player`, `global`, `admin` or `replay` with `common.css`, `common.js` and its own script inlined."""
    folder = files(__name__)
    names = (f"{page}.html", "common.css", "common.js", f"{page}.js")
    shell, style, common, own = ((folder / name).read_text("utf-8") for name in names)
    return document(shell, style=style, script=common + own)
