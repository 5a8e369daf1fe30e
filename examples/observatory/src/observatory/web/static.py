"""Static files and templates of the pages."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from coworld_core.text import shown_duration, shown_size

__all__ = ["ASSETS", "asset", "icon", "templates"]

_EPISODE = re.compile(r"ereq_[0-9a-f-]{36}")
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    directory = Path(__file__).with_name("static")
    return {
        path.name: (path.read_bytes(), _TYPES[path.suffix]) for path in directory.iterdir() if path.suffix in _TYPES
    }


@cache
def ASSETS() -> str:  # noqa: N802 - a constant that is read from the disk when first asked for
    """Digest of all files, used in their addresses, so that a changed file has a new address."""
    digest = hashlib.sha256()
    for name in sorted(_files()):
        digest.update(_files()[name][0])
    return digest.hexdigest()[:12]


async def icon(_: Request) -> Response:
    """The icon that browsers request if a page, such as a game's, names none."""
    content, media_type = _files()["observatory.svg"]
    return Response(content, media_type=media_type, headers={"Cache-Control": "public, max-age=86400"})


async def asset(request: Request) -> Response:
    """Serve a static file."""
    found = _files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    content, media_type = found
    current = request.query_params.get("v") == ASSETS()
    headers = {"Cache-Control": "public, max-age=31536000, immutable" if current else "no-cache"}
    return Response(content, media_type=media_type, headers=headers)


@cache
def templates() -> jinja2.Environment:
    """The templates, with automatic escaping."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("observatory.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["score"] = _score
    environment.filters["grade"] = "{:.3g}".format
    environment.filters["size"] = shown_size
    environment.filters["linked"] = _linked
    environment.filters["duration"] = shown_duration
    return environment


def _linked(text: str) -> Markup:
    """A text in which the ids of episodes are links."""
    return Markup(_EPISODE.sub(r'<a href="/episodes/\g<0>">\g<0></a>', str(escape(text))))  # noqa: S704 - escaped before


def _score(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value == value else "?"
