"""A client for Coworld platforms: one async client, with an attribute per resource, and its errors.

`SyncClient` is the same for code that is not async.

::

    async with CoworldClient.from_login() as api:
        async for episode in api.episodes.list(mine=True):
            print(episode.id, episode.status)

Names are imported on first use.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
