"""From a command's options to an open client, and around it what every platform command does alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from coworld_client import CoworldClient
from coworld_client.credentials import SessionExpired
from coworld_client.errors import NotLoggedIn
from coworld_core.api import PolicyRef

from .output import Output
from .platform_options import Connection
from .running import Running, run_async

__all__ = ["find_version", "opened", "run_api"]

UNKNOWN = "Whether the server still did what it was asked is not known."
"""Said when a command that changes something is interrupted."""


def run_api(
    out: Output,
    connection: Connection,
    body: Callable[[CoworldClient, Running], Awaitable[int]],
    *,
    anonymous: bool = False,
    changes: bool = False,
) -> int:
    """Run a command's body with a client, and return its exit status.

    Args:
        out: Where to narrate.
        connection: Which server, and as whom.
        body: The work.
        anonymous: Whether it can be done without a login, where there is none.
        changes: Whether it changes something on the server.

    Raises:
        NotLoggedIn: There is no token for the server.
        CoworldError: What the work raised.
    """

    async def work(running: Running) -> int:
        running.so_far = UNKNOWN if changes else ""
        async with opened(connection, anonymous=anonymous) as api:
            return await body(api, running)

    return run_async(out, work)


@asynccontextmanager
async def opened(connection: Connection, *, anonymous: bool = False) -> AsyncGenerator[CoworldClient]:
    """A client for a server, signed in as asked.

    Args:
        connection: Which server, and as whom.
        anonymous: Whether nobody will do, where there is no login.
    """
    named = connection.as_user or connection.as_player is not None
    try:
        client = CoworldClient.from_login(connection.server, identity=connection.identity, elevated=connection.elevated)
    except NotLoggedIn as error:
        # a player whose session has ended is never somebody else, nor nobody
        if not anonymous or named or isinstance(error, SessionExpired):
            raise
        client = CoworldClient.anonymous(connection.server)
    async with client as api:
        yield api


async def find_version(api: CoworldClient, policy: str) -> PolicyRef:
    """The one version of a policy of yours that a name means; the id of a version is taken as it is.

    Raises:
        NotFound: You have no such policy.
    """
    ref = PolicyRef.parse(policy)
    return ref if ref.id is not None else PolicyRef(id=(await api.policies.lookup(ref)).id)
