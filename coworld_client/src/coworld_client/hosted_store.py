"""The episodes of a platform as a store: the same words as for those of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import anyio

from coworld_core.api import EpisodeRequest
from coworld_core.errors import UsageError
from coworld_core.records.episode_store import fits_episode, samples_of, too_few, with_labels
from coworld_core.records.run_entries import SeatEntry, StoredEpisode, StoredEpisodes
from coworld_core.records.run_filter import RunFilter
from coworld_core.records.samples import RecordedSample

from .errors import NotFound
from .watch import next_pause

if TYPE_CHECKING:
    from .client import CoworldClient

__all__ = ["HostedStore"]

_ENDED = {"completed": "completed", "failed": "failed", "cancelled": "interrupted", "canceled": "interrupted"}
"""The statuses of episodes that are over, and their words on a machine."""


class HostedStore:
    """The episodes of a platform: an `EpisodeStore` over a client.

    ::

        async with CoworldClient.from_login() as api:
            store = HostedStore(api)
            done = await store.wait_for(10, labels={"exp": "a"}, timeout=600)

    Args:
        api: The client, open.
        mine: Only episodes in which one of your policies plays; otherwise all that you may see.
    """

    def __init__(self, api: CoworldClient, *, mine: bool = False) -> None:
        self._api = api
        self._mine = mine
        self._games: dict[str, tuple[str, str]] = {}
        """Name and version of Coworlds, by id."""

    async def episodes(
        self,
        asked: RunFilter | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> StoredEpisodes:
        """Return episodes, the newest first; `EpisodeStore.episodes`.

        What the platform does not search for is looked at here, page by page: `limit` and `since` shorten that.
        """
        wanted = with_labels(asked, labels)
        _refuse(wanted)
        statuses = [status for status, word in _ENDED.items() if wanted.status in ("", word)]
        found: list[StoredEpisode] = []
        pager = self._api.episodes.list(mine=self._mine, status=statuses, labels=wanted.labels or None)
        async for row in pager:
            if limit is not None and len(found) >= limit:
                break
            episode = await self._entry(row)
            if fits_episode(episode, wanted):
                found.append(episode)
            elif wanted.since is not None and episode.started_at is not None and episode.started_at < wanted.since:
                # All that follow were requested earlier
                break
        return StoredEpisodes(episodes=tuple(found))

    async def wait_for(
        self,
        count: int,
        asked: RunFilter | None = None,
        *,
        timeout: float,
        labels: Mapping[str, str] | None = None,
    ) -> StoredEpisodes:
        """Wait until so many episodes are over; `EpisodeStore.wait_for`."""
        found = await self.episodes(asked, labels=labels, limit=count)
        pause = next_pause(0, changed=True)
        with anyio.move_on_after(timeout):
            while len(found) < count:
                await anyio.sleep(pause)
                before, found = len(found), await self.episodes(asked, labels=labels, limit=count)
                pause = next_pause(pause, changed=len(found) > before)
        if len(found) < count:
            raise too_few(len(found), count, timeout)
        return found

    async def iter_samples(self, episode: StoredEpisode | str) -> AsyncIterator[RecordedSample]:
        """Iterate over the turns of an episode, whose replay is downloaded; `EpisodeStore.iter_samples`."""
        id = episode if isinstance(episode, str) else episode.id
        row = await self._api.episodes.get(id)
        from .uploads._spool import spool_directory

        async with spool_directory() as directory:
            file = directory / "replay"
            try:
                await self._api.episodes.download_replay(row, file)
            except NotFound as error:
                raise UsageError(
                    f"The episode {id} has no samples: {self._api.server} has no replay of it.",
                    code="no_samples",
                    context={"episode": id},
                ) from error
            replay = await anyio.Path(file).read_bytes()
        for turn in samples_of(replay, episode=id):
            yield turn

    async def delete(self, episode: StoredEpisode | str) -> None:
        """Refuse: platforms keep what was played; `EpisodeStore.delete`."""
        id = episode if isinstance(episode, str) else episode.id
        raise UsageError(
            f"{self._api.server} deletes no episodes, so {id} stays.",
            code="cannot_delete",
            hint="A platform's operator decides how long replays and logs are kept.",
            context={"episode": id},
        )

    async def _entry(self, row: EpisodeRequest) -> StoredEpisode:
        name, version = await self._game(row.coworld_id)
        status = _ENDED.get(str(row.status), str(row.status))
        seconds = (row.completed_at - row.started_at).total_seconds() if row.completed_at and row.started_at else None
        return StoredEpisode(
            id=row.id,
            coworld=name,
            version=version,
            variant=row.variant_id or "",
            seed=row.seed,
            status=status,
            ok=status == "completed",
            started_at=row.created_at,
            seconds=seconds,
            error_type=str(row.error_type) if row.error_type else None,
            party="player" if row.error_type == "player_error" else None,
            fault_slot=row.failed_policy_index,
            message=row.error,
            seats=tuple(
                SeatEntry(
                    slot=seat.position,
                    name=seat.policy_name or seat.name or "",
                    player_id=seat.player_id,
                    image=seat.label,
                    digest="",
                    score=score,
                )
                for seat, score in zip(row.participants, row.seat_scores, strict=True)
            ),
            labels=row.tags or {},
        )

    async def _game(self, id: str | None) -> tuple[str, str]:
        if id is None:
            return "", ""
        if id not in self._games:
            try:
                coworld = await self._api.coworlds.get(id)
            except NotFound:
                # An episode may be visible whose Coworld is private
                self._games[id] = ("", "")
            else:
                self._games[id] = (coworld.name, coworld.version)
        return self._games[id]


def _refuse(asked: RunFilter) -> None:
    if asked.kind not in ("", "episode"):
        raise _unknown("the kind of a run")
    if asked.digest:
        raise _unknown("the digest of a player")
    if asked.status and asked.status not in _ENDED.values():
        raise UsageError(
            f"No episode that is over is {asked.status!r}.",
            code="cannot_filter",
            hint="It is completed, failed or interrupted.",
        )


def _unknown(what: str) -> UsageError:
    return UsageError(
        f"A platform does not tell {what}, so episodes cannot be found by it.",
        code="cannot_filter",
        hint="Choose by game, variant, player, labels, status, fault, score or time.",
    )
