"""Talking to a Coworld platform: one async client, its resources by noun, and what can go wrong.

::

    async with CoworldClient.from_login() as api:
        async for episode in api.episodes.list(mine=True):
            print(episode.id, episode.status)

Names are imported when they are first used.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from ._retry import Backoff
    from .client import CoworldClient
    from .credentials import CredentialStore, Token
    from .errors import (
        ApiConnectionError,
        ApiError,
        ApiShapeError,
        ApiStatusError,
        ApiTimeoutError,
        BadRequest,
        Conflict,
        Forbidden,
        Gone,
        LinkExpired,
        NotAuthenticated,
        NotFound,
        NotLoggedIn,
        ServerError,
        TooManyRequests,
        Unprocessable,
    )
    from .pages import AsyncPager, Page
    from .watching import Change, Changes

_HOMES = {
    "_retry": ("Backoff",),
    "client": ("CoworldClient",),
    "credentials": ("CredentialStore", "Token"),
    "errors": (
        "ApiConnectionError",
        "ApiError",
        "ApiShapeError",
        "ApiStatusError",
        "ApiTimeoutError",
        "BadRequest",
        "Conflict",
        "Forbidden",
        "Gone",
        "LinkExpired",
        "NotAuthenticated",
        "NotFound",
        "NotLoggedIn",
        "ServerError",
        "TooManyRequests",
        "Unprocessable",
    ),
    "pages": ("AsyncPager", "Page"),
    "watching": ("Change", "Changes"),
}
"""Where each public name lives."""

__all__ = [
    "ApiConnectionError",
    "ApiError",
    "ApiShapeError",
    "ApiStatusError",
    "ApiTimeoutError",
    "AsyncPager",
    "Backoff",
    "BadRequest",
    "Change",
    "Changes",
    "Conflict",
    "CoworldClient",
    "CredentialStore",
    "Forbidden",
    "Gone",
    "LinkExpired",
    "NotAuthenticated",
    "NotFound",
    "NotLoggedIn",
    "Page",
    "ServerError",
    "Token",
    "TooManyRequests",
    "Unprocessable",
    "__version__",
]

__version__ = version("coworld-client")
__getattr__, _names = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return ["__version__", *_names()]
