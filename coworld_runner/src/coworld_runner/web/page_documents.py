"""Finished pages: their style and script are inline, and their policy allows nothing else.

Style and script are inline because a page may be opened under any path prefix of a proxy that forwards only the
documented routes.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

__all__ = ["Document", "document", "script_digest"]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A finished page.

    Attributes:
        html: The whole document.
        policy: The `Content-Security-Policy` that allows only its own style and script.
    """

    html: str
    policy: str


def document(html: str, *, style: str, script: str, frames: str = "'none'") -> Document:
    """Return a page with its style and script inline.

    Args:
        html: The document, with the placeholders `/*style*/` and `/*script*/`.
        style: The style.
        script: The script.
        frames: The value of `frame-src` in its policy.
    """
    policy = (
        f"default-src 'none'; style-src '{script_digest(style)}'; script-src '{script_digest(script)}'; img-src data:; "
        # A hosted page gets its socket's address in `?address=`, which may be any host.
        f"connect-src 'self' ws: wss:; frame-src {frames}; base-uri 'none'; form-action 'none'"
    )
    return Document(html=html.replace("/*style*/", style).replace("/*script*/", script), policy=policy)


def script_digest(text: str) -> str:
    """Return the hash by which a policy allows an inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
