"""The pages of every game: each is one file with its style and script inline, and fetches nothing else.

Style and script are inline because a page may be opened under any path prefix of a proxy that forwards only the
documented routes.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from coworld_core.text.svg_names import INLINE_SVG

from ....web.page_documents import Document, document

__all__ = ["common", "render"]


@cache
def render(page: str) -> Document:
    """Return the page `player`, `global` or `replay`."""
    more = {"player": ("shapes.js", "controls.js"), "replay": ("eyes.js",)}
    scripts = ("picture.js", *more.get(page, ()), f"{page}.js")
    allowed = json.dumps({name: sorted(names) for name, names in INLINE_SVG.items()})
    script = "".join((common("common.js"), f"const INLINE_SVG = {allowed};\n", *map(common, scripts)))
    return document(common("page.html"), style=common("common.css"), script=script)


def common(name: str) -> str:
    """Return the text of a file that pages are built from."""
    return (files(__name__) / name).read_text("utf-8")
