"""The episodes that a platform plays of a Coworld when it has been uploaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio

from coworld_core import durations
from coworld_core.api import CertificationState, Coworld, EpisodeRequest, check_id

from ..errors import ApiConnectionError, ApiStatusError, Forbidden, NotAuthenticated, NotFound
from ..transport._connection import path
from ..transport._replies import read_list
from ..transport._retry import worth_retrying

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["CoworldStatus", "SmokeVerdict", "coworld_status", "wait_for_smoke"]

SmokeVerdict = Literal["none", "pending", "passed", "failed"]
"""``none``: no episode yet; ``pending``: not all have ended; ``passed``: all completed; ``failed``: one did not."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


@dataclass(frozen=True, kw_only=True)
class CoworldStatus:
    """A Coworld on a platform, and how its first episodes went."""

    coworld: Coworld
    episodes: tuple[EpisodeRequest, ...]
    """Those the platform plays of it by itself."""
    certification: CertificationState | None = None
    """What the platform's own certification says, where there is one."""

    @property
    def verdict(self) -> SmokeVerdict:
        """What the episodes say. One that failed decides it, whatever the others do."""
        if not self.episodes:
            return "none"
        if any(row.status.is_terminal and not row.status.is_success for row in self.episodes):
            return "failed"
        return "passed" if all(row.status.is_success for row in self.episodes) else "pending"

    @property
    def decided(self) -> bool:
        """Whether the verdict is final."""
        return self.verdict in ("passed", "failed")


async def coworld_status(client: CoworldClient, coworld_id: str, *, timeout: float | None = None) -> CoworldStatus:
    """A Coworld, and how the episodes that the platform plays of it stand.

    Args:
        client: The platform.
        coworld_id: ``cow_…``.
        timeout: Seconds for each attempt.

    Raises:
        NotFound: There is no such Coworld.
        ApiError, ApiConnectionError: The platform refused, or cannot be reached.
    """
    coworld = await client.coworlds.get(coworld_id, timeout=timeout)
    return CoworldStatus(
        coworld=coworld,
        episodes=await _episodes(client, coworld_id, timeout),
        certification=await _certification(client, coworld_id, timeout),
    )


async def wait_for_smoke(
    client: CoworldClient,
    coworld_id: str,
    *,
    deadline: float = durations.HOSTED_SMOKE,
    begins_within: float | None = None,
    on_change: Callable[[CoworldStatus], object] | None = None,
    timeout: float | None = None,
) -> CoworldStatus:
    """Wait until the verdict of ``coworld_status`` is final, or the deadline has passed.

    Args:
        client: The platform.
        coworld_id: ``cow_…``.
        deadline: Seconds.
        begins_within: Seconds after which episodes that have not begun are waited for no longer; None: until the
            deadline.
        on_change: Told how it stands, first and whenever that has changed.
        timeout: Seconds for each attempt of a call.

    Returns:
        How it stands at the end; look at ``decided``.

    Raises:
        NotFound: There is no such Coworld.
        ApiError, ApiConnectionError: The platform refused, or cannot be reached.
    """
    status = await coworld_status(client, coworld_id, timeout=timeout)
    if on_change is not None:
        on_change(status)
    pause = _FIRST_PAUSE
    begun_by = anyio.current_time() + (deadline if begins_within is None else begins_within)
    with anyio.move_on_after(deadline):
        while not status.decided:
            left = begun_by - anyio.current_time()
            if status.verdict == "none" and left <= 0:
                break
            await anyio.sleep(min(pause, left) if status.verdict == "none" else pause)
            try:
                now = await coworld_status(client, coworld_id, timeout=timeout)
            except (ApiConnectionError, ApiStatusError) as error:
                if not worth_retrying(error, "GET", keyed=False):
                    raise
                # a platform that is away for a moment is not the Coworld's failure
                pause = _LONGEST_PAUSE
                continue
            changed = _standing(now) != _standing(status)
            status = now
            pause = _FIRST_PAUSE if changed else min(pause * 1.5, _LONGEST_PAUSE)
            if changed and on_change is not None:
                on_change(status)
    return status


def _standing(status: CoworldStatus) -> tuple[object, ...]:
    state = status.certification.state if status.certification is not None else None
    return state, *((row.id, str(row.status)) for row in status.episodes)


async def _episodes(client: CoworldClient, coworld_id: str, timeout: float | None) -> tuple[EpisodeRequest, ...]:
    target = path("/v2/coworlds/{}/episode-requests", check_id(coworld_id, "coworld"))
    params = {"source": "coworld_upload", "limit": 100}
    try:
        return read_list(EpisodeRequest, await client.connection.call("GET", target, params=params, timeout=timeout))
    except ApiStatusError as error:
        if error.status not in (404, 405, 422):
            raise
    # an older platform does not say where an episode comes from; those of leagues have a round
    rows = [row async for row in client.episodes.list(coworld=coworld_id, limit=1000, timeout=timeout)]
    return tuple(row for row in rows if row.round_id is None)


async def _certification(client: CoworldClient, coworld_id: str, timeout: float | None) -> CertificationState | None:
    try:
        return await client.coworlds.certification(coworld_id, timeout=timeout)
    except (NotFound, Forbidden, NotAuthenticated):
        return None
