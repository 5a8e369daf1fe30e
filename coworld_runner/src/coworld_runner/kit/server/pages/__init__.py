"""The pages of every game: each is one file with its style and script inline, and fetches nothing else.

Style and script are inline because a page may be opened under any path prefix of a proxy that forwards only the
documented routes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ....web.page_documents import Document, document

__all__ = ["common", "render"]


@cache
def render(page: str) -> Document:
    """Return the page `player`, `global` or `replay`."""
    scripts = ("common.js", *(("controls.js",) if page == "player" else ()), f"{page}.js")
    return document(common("page.html"), style=common("common.css"), script="".join(map(common, scripts)))


def common(name: str) -> str:
    """Return the text of a file that pages are built from."""
    return (files(__name__) / name).read_text("utf-8")
