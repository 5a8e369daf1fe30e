"""The pages of every game: each one file, with style and script put into it, and nothing fetched from elsewhere.

They are put together because a page may be opened below any path prefix of a proxy that passes on its own routes only.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Document", "common", "document", "render", "script_digest"]


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
    return document(common("page.html"), style=common("common.css"), script=common("common.js") + common(f"{page}.js"))


def common(name: str) -> str:
    """A part that pages are made of."""
    return (files(__name__) / name).read_text("utf-8")


def document(html: str, *, style: str, script: str, frames: str = "'none'") -> Document:
    """A page with its style and script put into it.

    Args:
        html: The document, with `/*style*/` and `/*script*/` where they go.
        style: The style.
        script: The script.
        frames: What it may show in frames, as a policy says it.
    """
    policy = (
        f"default-src 'none'; style-src '{script_digest(style)}'; script-src '{script_digest(script)}'; img-src data:; "
        # A hosted page is told its socket by `?address=`, which may be anywhere.
        f"connect-src 'self' ws: wss:; frame-src {frames}; base-uri 'none'; form-action 'none'"
    )
    return Document(html=html.replace("/*style*/", style).replace("/*script*/", script), policy=policy)


def script_digest(text: str) -> str:
    """By what a policy knows a style or a script that is part of a page."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
