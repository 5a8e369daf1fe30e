"""Episodes that were played, and their files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from httpx2 import Headers

from coworld_core.api import (
    ARTIFACT_TYPES,
    BUNDLE_PARTS,
    ArtifactType,
    BundlePart,
    EpisodeProgress,
    EpisodeRequest,
    EpisodeStats,
    EpisodeView,
    PlayerEvidence,
    PolicyRef,
    check_id,
    is_id,
)
from coworld_core.errors import UsageError
from coworld_core.hints import Hint

from .._many_ids import many_ids
from ..errors import ApiStatusError, Forbidden, LinkExpired, NotFound
from ..pages import AsyncPager
from ..transfers._links import web_link, with_fresh_link
from ..transport._connection import path
from ..transport._replies import Reply, read, read_list
from ._base import Resource, label_query, optional_id
from ._episode_lists import EpisodeSource, episode_filter, listed_elsewhere
from ._episode_places import (
    NOT_HERE,
    Episode,
    download_first,
    evidence_of_job,
    id_of,
    results_of_bundle,
    route_of_slot,
)
from ._names import named

if TYPE_CHECKING:
    from ..transfers.files import Downloaded, OnProgress

__all__ = ["Episodes"]


class Episodes(Resource):
    """Episodes that were played, and their files."""

    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        round: str | None = None,
        player: str | None = None,
        coworld: str | None = None,
        policy: str | PolicyRef | None = None,
        mine: bool = False,
        with_replay: bool = False,
        status: str | Collection[str] | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[EpisodeRequest]:
        """List episodes, newest first; each argument is a filter.

        Filters that a server lacks are applied here while its pages are read, so `limit` counts matching rows.

        Args:
            league: Name or id of a league with one division; name the `division` of another one.
            division: Name or id of a division.
            round: `round_…`.
            player: Id or name of a player: of the league if one is named, else of yours.
            coworld: `cow_…`, or a name for its canonical version.
            policy: `NAME`, `NAME:v3` or the UUID of a version; of any owner.
            mine: Only those in which one of your policies plays.
            with_replay: Only those with a replay.
            status: Only those with this status, or one of these.
            labels: Only those with these labels; `*`, `?` and `[…]` are wildcards in their values.
            limit: Maximum number of rows.
            offset: Number of the server's rows to skip.
            cursor: Where to begin: the `next_cursor` of a page.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: The server keeps no labels (`no_labels`), or the league has several divisions
                (`division_needed`).
        """
        if league is not None and division is not None and is_id(division, "division"):
            raise UsageError(
                "A division names its league, too.",
                code="division_and_league",
                hint=Hint("leave_out_league", "Leave out the league."),
            )
        named(league, "league")
        params: dict[str, Any] = {
            "division_id": named(division, "division", league=league),
            "round_id": optional_id(round, "round"),
            "player_id": named(player, "player", league=league),
            "coworld_id": named(coworld, "coworld"),
            "tags": label_query(labels),
        }
        ref = PolicyRef.parse(policy) if isinstance(policy, str) else policy
        wanted = (status,) if isinstance(status, str) else status
        filtered = ref is not None or mine or with_replay or wanted is not None or coworld is not None or bool(labels)
        source = EpisodeSource(self._connection, params, timeout)

        async def fetch(*, limit: int | None, offset: int | None, cursor: str | None) -> Reply:
            await self._look_up(params, timeout)
            if league is not None and params["division_id"] is None:
                params["division_id"] = await self._client.leagues.only_division(league, timeout=timeout)
            if not (league or division or player):
                source.elsewhere = listed_elsewhere(round=round, coworld=params["coworld_id"], ref=ref)
            return await source.fetch(limit=limit, offset=offset, cursor=cursor)

        async def prepare() -> Callable[[EpisodeRequest], bool]:
            await self._look_up(params, timeout)
            mine_only = await self.my_policy_versions(timeout=timeout) if mine else None
            return episode_filter(
                ref=ref,
                coworld=params["coworld_id"],
                with_replay=with_replay,
                statuses=wanted,
                mine=mine_only,
                labels=labels,
                server=self._client.server,
            )

        return AsyncPager(
            fetch,
            EpisodeRequest,
            limit=limit,
            offset=offset,
            cursor=cursor,
            page_size=200,
            keep=prepare if filtered else None,
        )

    def progress(
        self,
        ids: str | Sequence[str],
        *,
        view: EpisodeView = "progress",
        status: str | Collection[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[EpisodeProgress]:
        """List a short form of episodes, on servers that have it; `page.extra` has `unavailable_ids`.

        Args:
            ids: 1 to 50 ids, all of experience requests or all of episode requests.
            view: `results` includes scores, participants and replay as well.
            status: Only those with this status, or one of these.
            limit: Maximum number of rows.
            cursor: Where to begin: the `next_cursor` of a page.
            timeout: Seconds for each attempt.
        """
        wanted = (status,) if isinstance(status, str) else tuple(status or ())
        params = {"ids": many_ids(ids), "view": view, "status": wanted or None}
        return self._list(
            EpisodeProgress,
            "/v2/episode-requests",
            params,
            limit=limit,
            cursor=cursor,
            page_size=200,
            timeout=timeout,
        )

    async def get(self, episode_id: str, *, timeout: float | None = None) -> EpisodeRequest:
        """One episode.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        target = path("/v2/episode-requests/{}", check_id(episode_id, "episode request"))
        return await self._get(EpisodeRequest, target, timeout=timeout)

    async def my_policy_versions(self, *, timeout: float | None = None) -> frozenset[str]:
        """The ids of all versions of your policies, whether they play in a league or not."""
        found = {row.id async for row in self._client.policies.list(timeout=timeout)}
        async for membership in self._client.memberships.list(mine=True, timeout=timeout):
            found.add(membership.policy_version.id)
        return frozenset(found - {""})

    async def stats(self, episode: Episode, *, timeout: float | None = None) -> EpisodeStats:
        """The statistics of an episode, as the game counts them.

        Raises:
            NotFound: It has none.
        """
        target = path("/v2/episode-requests/{}/episode-stats", id_of(episode))
        reply = await self._or_job(target, episode, "/jobs/{}/episode-stats", timeout=timeout)
        return read(EpisodeStats, reply)

    async def results(self, episode: Episode, *, timeout: float | None = None) -> Any:
        """The game's results: a JSON object with `scores`, one for each slot, and any other fields.

        Raises:
            NotFound: It has none, or none yet.
            ApiShapeError: They are not JSON.
        """
        content = await self.artifact(episode, "results", timeout=timeout)
        reply = Reply(status=200, headers=Headers(), content=content, what=f"results of {id_of(episode)}")
        return reply.json()

    async def artifact(self, episode: Episode, kind: ArtifactType, *, timeout: float | None = None) -> bytes:
        """One of an episode's artifacts as the server keeps it, up to 64 MiB; see `download_artifact` for more.

        Args:
            episode: The episode.
            kind: `spec`, `game-config`, `logs` (the game's), `error-info`, `results` or `replay`.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: It has none, or none yet.
            Forbidden: You may not see it.
        """
        if kind not in ARTIFACT_TYPES:
            raise UsageError(f"{kind!r} is not an artifact.", code="bad_artifact", hint=f"One of {ARTIFACT_TYPES}.")
        target = path("/v2/episode-requests/{}/artifacts/{}", id_of(episode), kind)
        if kind not in ("results", "replay", "logs"):
            return (await self._connection.call("GET", target, timeout=timeout, elsewhere=True)).content
        if kind != "results":
            return (await self._or_job(target, episode, "/jobs/{}/artifacts/" + kind, timeout=timeout)).content
        try:
            return (await self._connection.call("GET", target, timeout=timeout, elsewhere=True)).content
        except NOT_HERE as error:
            # Everyone who may see the episode may get a bundle of its results; only the team may ask the job
            content = await results_of_bundle(self._connection, id_of(episode), timeout)
            if content is not None:
                return content
            reply = await self._job(error, episode, "/jobs/{}/artifacts/results", timeout=timeout)
            return reply.content

    async def game_log(self, episode: Episode, *, timeout: float | None = None) -> str:
        """The log of the game, up to 64 MiB.

        Raises:
            NotFound: If there is none, or not yet.
        """
        return (await self.artifact(episode, "logs", timeout=timeout)).decode("utf-8", "replace")

    async def agent_logs(
        self, episode: Episode, *, mine: bool = False, timeout: float | None = None
    ) -> tuple[PlayerEvidence, ...]:
        """Which players left a log or an artifact that you may see, by slot.

        Older servers tell this only to their team. There, these are the slots of your own policies, and whether there
        is a log or an artifact is unknown (None).

        Args:
            episode: The episode.
            mine: Only the slots of your policies.
            timeout: Seconds for each attempt.
        """
        seats = await self._evidence(episode, timeout)
        if not mine:
            return seats
        own = await self.my_policy_versions(timeout=timeout)
        return tuple(seat for seat in seats if seat.policy_version_id in own)

    async def _evidence(self, episode: Episode, timeout: float | None) -> tuple[PlayerEvidence, ...]:
        target = path("/v2/episode-requests/{}/policy-artifacts", id_of(episode))
        try:
            return read_list(PlayerEvidence, await self._connection.call("GET", target, timeout=timeout))
        except NOT_HERE:
            full = await self._whole(episode, timeout)
        try:
            return await evidence_of_job(self._connection, full, timeout)
        except (NotFound, Forbidden):
            mine = await self.my_policy_versions(timeout=timeout)
        return tuple(
            PlayerEvidence(
                position=seat.position, policy_version_id=seat.policy_version_id, policy_name=seat.policy_name
            )
            for seat in full.participants
            if seat.policy_version_id in mine
        )

    async def agent_log(self, episode: Episode, position: int, *, timeout: float | None = None) -> str:
        """The log of the player in a slot, up to 64 MiB. Hosted platforms keep its last 10,000 lines.

        Args:
            episode: The episode.
            position: The slot, from 0.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: If there is none, or no such slot.
            Forbidden: If the policy is not yours.
        """
        full = await self._whole(episode, timeout)
        target = route_of_slot(full, position, "policy-logs")
        return (await self._or_job(target, full, f"/jobs/{{}}/policy-logs/{position}", timeout=timeout)).text

    async def annotations(
        self, episode: Episode, policy: str | PolicyRef, *, timeout: float | None = None
    ) -> tuple[Any, ...]:
        """The notes of a policy (`NAME`, `NAME:v3` or a version's UUID), a JSON value per line, on servers with them.

        Raises:
            NotFound: There are no notes, or the server does not keep them.
            ApiShapeError: A line is not JSON.
        """
        version = await self._client.policies.version_id(policy, timeout=timeout)
        target = path("/v2/episode-requests/{}/{}/annotations", id_of(episode), version)
        reply = await self._connection.call("GET", target, timeout=timeout, elsewhere=True)
        lines = (line for line in reply.content.splitlines() if line.strip())
        return tuple(dataclasses.replace(reply, content=line).json() for line in lines)

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
        sources = [route_of_slot(full, position, "policy-artifact")]
        if full.job_id:
            sources.append(path("/jobs/{}/policy-artifact/{}", full.job_id, str(position)))
        return await download_first(
            self._connection, sources, target, "artifact", timeout=timeout, on_progress=on_progress
        )

    async def download_log(
        self,
        episode: Episode,
        target: Path,
        *,
        position: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download a log: the game's, or that of the player in a slot; see `download_artifact`."""
        full = await self._whole(episode, timeout) if position is not None else episode
        job = full.job_id if isinstance(full, EpisodeRequest) else None
        if position is None:
            sources = [path("/v2/episode-requests/{}/artifacts/logs", id_of(episode))]
            sources += [path("/jobs/{}/artifacts/logs", job)] if job else []
        else:
            sources = [route_of_slot(cast("EpisodeRequest", full), position, "policy-logs")]
            sources += [path("/jobs/{}/policy-logs/{}", job, str(position))] if job else []
        return await download_first(self._connection, sources, target, "log", timeout=timeout, on_progress=on_progress)

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
            return await download_first(
                self._connection,
                places,
                target,
                "replay",
                unpack=unpack,
                limit=limit,
                timeout=timeout,
                on_progress=on_progress,
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
            # The episode's own route has the replay, or reports the actual problem
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
        """Download everything about an episode that you may see, as one zip; its `manifest.json` lists the contents.

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

    async def _whole(self, episode: Episode, timeout: float | None) -> EpisodeRequest:
        return episode if isinstance(episode, EpisodeRequest) else await self.get(episode, timeout=timeout)

    async def _or_job(self, target: str, episode: Episode, job: str, *, timeout: float | None) -> Reply:
        """Get a target or, on older servers, the route of the job, which only the team may use."""
        try:
            return await self._connection.call("GET", target, timeout=timeout, elsewhere=True)
        except NOT_HERE as error:
            return await self._job(error, episode, job, timeout=timeout)

    async def _job(self, error: ApiStatusError, episode: Episode, job: str, *, timeout: float | None) -> Reply:
        """Get the job's answer; if that is missing or forbidden too, raise the first error."""
        full = await self._whole(episode, timeout)
        if not full.job_id:
            raise error
        try:
            return await self._connection.call("GET", path(job, full.job_id), timeout=timeout, elsewhere=True)
        except (*NOT_HERE, Forbidden):
            raise error from None
