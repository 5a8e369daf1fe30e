"""Downloads of an episode's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from coworld_core.api import BUNDLE_PARTS, BundlePart, EpisodeRequest
from coworld_core.errors import UsageError

from ..errors import LinkExpired, NotFound
from ..transfers._links import web_link, with_fresh_link
from ..transport._connection import path
from ._episode_places import NOT_HERE, Episode, EpisodePlaces, id_of

if TYPE_CHECKING:
    from ..transfers.files import Downloaded, OnProgress

__all__ = ["EpisodeFiles"]


class EpisodeFiles(EpisodePlaces):
    """Downloads of one episode."""

    async def download_artifact(
        self,
        episode: Episode,
        position: int,
        target: Path,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download the artifact of the player in a slot: a zip of up to 200 MB.

        Args:
            episode: The episode.
            position: The slot, from 0.
            target: The file.
            timeout: Seconds without data after which the connection counts as lost.
            on_progress: Called with the progress.

        Raises:
            NotFound: If there is none, or no such slot.
            Forbidden: If the policy is not yours.
            TransferRefused: If the transfer is incomplete.
        """
        full = await self._whole(episode, timeout)
        sources = [self._of_slot(full, position, "policy-artifact")]
        if full.job_id:
            sources.append(path("/jobs/{}/policy-artifact/{}", full.job_id, str(position)))
        return await self._fetched(sources, target, "artifact", timeout=timeout, on_progress=on_progress)

    async def download_log(
        self,
        episode: Episode,
        target: Path,
        *,
        position: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download a log: the game's, or that of the player in a slot; see ``download_artifact``."""
        full = await self._whole(episode, timeout) if position is not None else episode
        job = full.job_id if isinstance(full, EpisodeRequest) else None
        if position is None:
            sources = [path("/v2/episode-requests/{}/artifacts/logs", id_of(episode))]
            sources += [path("/jobs/{}/artifacts/logs", job)] if job else []
        else:
            sources = [self._of_slot(cast("EpisodeRequest", full), position, "policy-logs")]
            sources += [path("/jobs/{}/policy-logs/{}", job, str(position))] if job else []
        return await self._fetched(sources, target, "log", timeout=timeout, on_progress=on_progress)

    async def download_replay(
        self,
        episode: Episode,
        target: Path,
        *,
        unpack: bool = True,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download the replay.

        Args:
            episode: The episode.
            target: The file.
            unpack: Whether to undo the compression that the storage applied, so that the file is what the game wrote.
            limit: Largest replay in bytes, unpacked.
            timeout: Seconds without data after which the connection counts as lost.
            on_progress: Called with the progress.

        Raises:
            NotFound: If there is none, or not yet.
            LinkExpired: The link has expired, there is no fresh one that works, and there is no other route to it.
            TransferRefused: If the transfer is incomplete or exceeds the limit.
        """
        full = await self._whole(episode, timeout)
        sources = [path("/v2/episode-requests/{}/artifacts/replay", full.id)]
        if full.job_id:
            sources.append(path("/jobs/{}/artifacts/replay", full.job_id))
        if not full.replay_url and full.status and not full.status.is_success:
            raise NotFound(f"The episode {full.id} has no replay: it is {full.status}.", status=404)

        async def fetch(*places: str) -> Downloaded:
            return await self._fetched(
                places, target, "replay", unpack=unpack, limit=limit, timeout=timeout, on_progress=on_progress
            )

        async def renew() -> str | None:
            fresh = web_link((await self.get(full.id, timeout=timeout)).replay_url)
            return None if fresh == link else fresh

        if (link := web_link(full.replay_url)) is None:
            return await fetch(*sources)
        try:
            return await with_fresh_link(fetch, link, renew, what="replay")
        except (*NOT_HERE, LinkExpired) as error:
            refused = error
        try:
            # the episode's own route has the replay, or reports the actual problem
            return await fetch(*sources)
        except NOT_HERE:
            if isinstance(refused, LinkExpired):
                raise refused from None
            raise

    async def download_bundle(
        self,
        episode: Episode,
        target: Path,
        *,
        include: Sequence[BundlePart] | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download everything about an episode that you may see, as one zip; its ``manifest.json`` lists the contents.

        Args:
            episode: The episode.
            target: The file.
            include: Only these parts.
            limit: Largest bundle in bytes.
            timeout: Seconds without data after which the connection counts as lost.
            on_progress: Called with the progress.

        Raises:
            UsageError: A part is unknown.
            NotFound: There is no such episode, or it has not ended.
        """
        from ..transfers.files import download

        unknown = [part for part in include or () if part not in BUNDLE_PARTS]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is not a part of a bundle.", code="bad_part", hint=f"Parts: {', '.join(BUNDLE_PARTS)}."
            )
        return await download(
            self._connection,
            path("/v2/episode-requests/{}/bundle", id_of(episode)),
            target,
            params={"include": ",".join(include)} if include else None,
            what="bundle",
            limit=limit,
            timeout=timeout,
            on_progress=on_progress,
        )
