"""Lists of episodes: where servers have them, and the filters that servers lack."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from coworld_core.api import EpisodeRequest, PolicyRef

from ..errors import ApiStatusError
from ..transport._connection import Connection, Params, path
from ..transport._replies import Reply
from ._base import has_labels

__all__ = ["EpisodeSource", "episode_filter", "listed_elsewhere"]


class EpisodeSource:
    """Gets pages of episodes from wherever a server lists them.

    Args:
        connection: The platform.
        params: Query parameters of the common list.
        timeout: Seconds for each attempt.

    Attributes:
        elsewhere: The list of one round, policy version or Coworld, for servers whose common list takes only ids.
    """

    def __init__(self, connection: Connection, params: Params, timeout: float | None) -> None:
        self._connection = connection
        self._params = params
        self.elsewhere: str | None = None
        self._timeout = timeout
        self._moved = False

    async def fetch(self, *, limit: int | None, offset: int | None, cursor: str | None) -> Reply:
        """One page."""
        place: Params = {"limit": limit, "offset": None if cursor else offset, "cursor": cursor}
        if not self._moved:
            try:
                params = {**self._params, **place}
                return await self._connection.call("GET", "/v2/episode-requests", params=params, timeout=self._timeout)
            except ApiStatusError as error:
                # Newer servers take only ids here, and have separate lists for rounds, versions and Coworlds
                if error.status not in (400, 422) or self.elsewhere is None:
                    raise
                self._moved = True
        assert self.elsewhere is not None
        place = {
            "limit": None if limit is None else min(limit, 100),
            "cursor": cursor,
            "tags": self._params.get("tags"),
        }
        return await self._connection.call("GET", self.elsewhere, params=place, timeout=self._timeout)


def listed_elsewhere(*, round: str | None, coworld: str | None, ref: PolicyRef | None) -> str | None:
    """Where newer servers list the episodes of a round, of a policy version or of a Coworld; None for others."""
    if round is not None:
        return path("/v2/rounds/{}/episode-requests", round)
    if ref is not None and ref.id is not None:
        return path("/v2/policy-versions/{}/episode-requests", ref.id)
    return path("/v2/coworlds/{}/episode-requests", coworld) if coworld is not None else None


def episode_filter(
    *,
    ref: PolicyRef | None,
    coworld: str | None,
    with_replay: bool,
    statuses: Collection[str] | None,
    mine: frozenset[str] | None,
    labels: Mapping[str, str] | None,
    server: str,
) -> Callable[[EpisodeRequest], bool]:
    """A filter of episodes.

    Args:
        ref: The policy that must play.
        coworld: The Coworld that must be played.
        with_replay: Whether there must be a replay.
        statuses: The statuses to accept.
        mine: Policy versions of which at least one must play.
        labels: Patterns for labels.
        server: The server, for messages.
    """

    def keep(row: EpisodeRequest) -> bool:
        return (
            (coworld is None or row.coworld_id == coworld)
            and (not with_replay or bool(row.replay_url))
            and (statuses is None or str(row.status) in statuses)
            and (ref is None or _plays(ref, row))
            and (mine is None or not mine.isdisjoint(_versions(row)))
            and has_labels(row.tags, labels, server)
        )

    return keep


def _versions(row: EpisodeRequest) -> frozenset[str]:
    return frozenset((*row.policy_version_ids, *(seat.policy_version_id or "" for seat in row.participants)))


def _plays(ref: PolicyRef, row: EpisodeRequest) -> bool:
    return (ref.id in _versions(row)) if ref.id is not None else any(map(ref.matches, row.participants))
