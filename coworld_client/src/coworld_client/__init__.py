"""A client for Coworld platforms: one async client, with an attribute per resource, and its errors.

`SyncClient` is the same for code that is not async.

::

    async with CoworldClient.from_login() as api:
        async for episode in api.episodes.list(mine=True):
            print(episode.id, episode.status)

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from ._version import __version__ as __version__
    from .client import CoworldClient as CoworldClient
    from .control.hosted_controller import HostedController as HostedController
    from .errors import ApiConnectionError as ApiConnectionError
    from .errors import ApiError as ApiError
    from .errors import ApiShapeError as ApiShapeError
    from .errors import ApiStatusError as ApiStatusError
    from .errors import ApiTimeoutError as ApiTimeoutError
    from .errors import BadRequest as BadRequest
    from .errors import Conflict as Conflict
    from .errors import Forbidden as Forbidden
    from .errors import Gone as Gone
    from .errors import LinkExpired as LinkExpired
    from .errors import NotAuthenticated as NotAuthenticated
    from .errors import NotFound as NotFound
    from .errors import NotLoggedIn as NotLoggedIn
    from .errors import NotOffered as NotOffered
    from .errors import ServerError as ServerError
    from .errors import TooManyRequests as TooManyRequests
    from .errors import Unprocessable as Unprocessable
    from .hosted_store import HostedStore as HostedStore
    from .pages import AsyncPager as AsyncPager
    from .pages import Page as Page
    from .sign_in.credentials import CredentialStore as CredentialStore
    from .sign_in.credentials import Token as Token
    from .sync import SyncClient as SyncClient
    from .transport._retry import Backoff as Backoff
    from .watch import Change as Change
    from .watch import Changes as Changes
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "._version": ("__version__",),
            ".client": ("CoworldClient",),
            ".control.hosted_controller": ("HostedController",),
            ".errors": (
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
                "NotOffered",
                "ServerError",
                "TooManyRequests",
                "Unprocessable",
            ),
            ".hosted_store": ("HostedStore",),
            ".pages": ("AsyncPager", "Page"),
            ".sign_in.credentials": ("CredentialStore", "Token"),
            ".sync": ("SyncClient",),
            ".transport._retry": ("Backoff",),
            ".watch": ("Change", "Changes"),
        },
    )
