"""The pages of every game: each one file, with style and script put into it, and nothing fetched from elsewhere.

They are put together because a page may be opened below any path prefix of a proxy that passes on its own routes only.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Document", "render"]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A finished page.

    Attributes:
        html: The whole document.
        policy: The `Content-Security-Policy` that lets exactly its own style and script run.
    """

    html: str
    policy: str


@cache
def render(page: str) -> Document:
    """A page: `player`, `global` or `replay`."""
    folder = files(__name__)
    style = (folder / "common.css").read_text("utf-8")
    script = (folder / "common.js").read_text("utf-8") + (folder / f"{page}.js").read_text("utf-8")
    html = (folder / "page.html").read_text("utf-8").replace("/*style*/", style).replace("/*script*/", script)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        # A hosted page is told its socket by `?address=`, which may be anywhere.
        "connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'"
    )
    return Document(html=html, policy=policy)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
