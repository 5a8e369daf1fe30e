"""Episodes: what was played, and what is left of it."""

from __future__ import annotations

import dataclasses
import io
import re
import zipfile
from collections.abc import Callable, Collection, Sequence
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
)
from coworld_core.errors import UsageError
from coworld_core.zips import BROKEN_ZIP

from .._links import web_link, with_fresh_link
from .._replies import Reply
from .._transport import MAX_BODY, path
from ..errors import ApiShapeError, ApiStatusError, Forbidden, Gone, LinkExpired, NotFound, Unprocessable
from ..pages import AsyncPager
from ._base import Resource, optional_id, read, read_list
from ._episode_lists import EpisodeSource, episode_filter, listed_elsewhere, many_ids

if TYPE_CHECKING:
    from ..transfers import Downloaded, OnProgress

__all__ = ["Episodes"]

_NOT_HERE = (NotFound, Unprocessable)
"""What servers say of a route or a kind of artifact that they do not know."""

Episode = str | EpisodeRequest
"""An ``ereq_`` id, or the episode request itself, which saves asking for it."""


class Episodes(Resource):
    """Episodes: what was played, and what is left of it."""

    def list(
        self,
        *,
        division: str | None = None,
        round: str | None = None,
        player: str | None = None,
        coworld: str | None = None,
        policy: str | PolicyRef | None = None,
        mine: bool = False,
        with_replay: bool = False,
        status: str | Collection[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[EpisodeRequest]:
        """Episodes, newest first; each argument leaves out the others.

        What a server cannot filter by is filtered here while its pages are read, so ``limit`` counts what is wanted.

        Args:
            division: ``div_…``.
            round: ``round_…``.
            player: ``ply_…``.
            coworld: ``cow_…``.
            policy: ``NAME``, ``NAME:v3`` or the UUID of a version, of anyone's policies.
            mine: Only those in which a policy of yours plays.
            with_replay: Only those that have a replay.
            status: Only those that stand so, or in one of these ways.
            limit: How many at most.
            offset: How many of the server's rows to skip.
            cursor: Where to begin, as a page says.
            timeout: Seconds for each attempt.
        """
        params = {
            "division_id": optional_id(division, "division"),
            "round_id": optional_id(round, "round"),
            "player_id": optional_id(player, "player"),
            "coworld_id": optional_id(coworld, "coworld"),
        }
        ref = PolicyRef.parse(policy) if isinstance(policy, str) else policy
        wanted = (status,) if isinstance(status, str) else status
        filtered = ref is not None or mine or with_replay or wanted is not None or coworld is not None
        elsewhere = listed_elsewhere(round=round, coworld=coworld, ref=ref) if not (division or player) else None

        async def prepare() -> Callable[[EpisodeRequest], bool]:
            mine_only = await self.my_policy_versions(timeout=timeout) if mine else None
            return episode_filter(ref=ref, coworld=coworld, with_replay=with_replay, statuses=wanted, mine=mine_only)

        return AsyncPager(
            EpisodeSource(self._connection, params, elsewhere, timeout).fetch,
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
        """Episodes in short, on servers that have this; ``page.extra`` names ``unavailable_ids``.

        Args:
            ids: 1 to 50 ids, all of experience requests or all of episode requests.
            view: ``results`` to be told scores, participants and replay as well.
            status: Only those that stand so, or in one of these ways.
            limit: How many at most.
            cursor: Where to begin, as a page says.
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
            NotFound: There is none, or it is not yours to see.
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
        """Numbers of an episode, as the game counts.

        Raises:
            NotFound: It has none.
        """
        target = path("/v2/episode-requests/{}/episode-stats", _id(episode))
        reply = await self._or_job(target, episode, "/jobs/{}/episode-stats", timeout=timeout)
        return read(EpisodeStats, reply)

    async def results(self, episode: Episode, *, timeout: float | None = None) -> Any:
        """What the game handed back: a JSON object with ``scores``, one for each slot, and whatever else it tells.

        Raises:
            NotFound: It has none, or none yet.
            ApiShapeError: They are no JSON.
        """
        content = await self.artifact(episode, "results", timeout=timeout)
        reply = Reply(status=200, headers=Headers(), content=content, what=f"results of {_id(episode)}")
        return reply.json()

    async def artifact(self, episode: Episode, kind: ArtifactType, *, timeout: float | None = None) -> bytes:
        """One of an episode's artifacts as the server keeps it, up to 64 MiB; see ``download_artifact`` for more.

        Args:
            episode: The episode.
            kind: ``spec``, ``game-config``, ``logs`` (the game's), ``error-info``, ``results`` or ``replay``.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: It has none, or none yet.
            Forbidden: It is not yours to see.
        """
        if kind not in ARTIFACT_TYPES:
            raise UsageError(f"{kind!r} is not an artifact.", code="bad_artifact", hint=f"One of {ARTIFACT_TYPES}.")
        target = path("/v2/episode-requests/{}/artifacts/{}", _id(episode), kind)
        if kind not in ("results", "replay", "logs"):
            return (await self._connection.call("GET", target, timeout=timeout, elsewhere=True)).content
        if kind != "results":
            return (await self._or_job(target, episode, "/jobs/{}/artifacts/" + kind, timeout=timeout)).content
        try:
            return (await self._connection.call("GET", target, timeout=timeout, elsewhere=True)).content
        except _NOT_HERE as error:
            # a bundle of the results alone is for everyone who may see the episode; the job is for the team
            content = await self._results_of_bundle(_id(episode), timeout)
            if content is not None:
                return content
            reply = await self._job(error, episode, "/jobs/{}/artifacts/results", timeout=timeout)
            return reply.content

    async def game_log(self, episode: Episode, *, timeout: float | None = None) -> str:
        """The log of the game, up to 64 MiB.

        Raises:
            NotFound: There is none, or none yet.
        """
        return (await self.artifact(episode, "logs", timeout=timeout)).decode("utf-8", "replace")

    async def agent_logs(
        self, episode: Episode, *, mine: bool = False, timeout: float | None = None
    ) -> tuple[PlayerEvidence, ...]:
        """Which players left a log or an artifact that you may see, by slot.

        On older servers that tell this to their team alone, these are the slots of your own policies, and whether
        there is a log or an artifact is not known (None).

        Args:
            episode: The episode.
            mine: Only those of policies of yours.
            timeout: Seconds for each attempt.
        """
        seats = await self._evidence(episode, timeout)
        if not mine:
            return seats
        own = await self.my_policy_versions(timeout=timeout)
        return tuple(seat for seat in seats if seat.policy_version_id in own)

    async def _evidence(self, episode: Episode, timeout: float | None) -> tuple[PlayerEvidence, ...]:
        target = path("/v2/episode-requests/{}/policy-artifacts", _id(episode))
        try:
            return read_list(PlayerEvidence, await self._connection.call("GET", target, timeout=timeout))
        except _NOT_HERE:
            full = await self._whole(episode, timeout)
        try:
            return await self._evidence_of_job(full, timeout)
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
            NotFound: There is none, or no such slot.
            Forbidden: The policy is not yours.
        """
        full = await self._whole(episode, timeout)
        target = self._of_slot(full, position, "policy-logs")
        return (await self._or_job(target, full, f"/jobs/{{}}/policy-logs/{position}", timeout=timeout)).text

    async def annotations(
        self, episode: Episode, policy_version_id: str, *, timeout: float | None = None
    ) -> tuple[Any, ...]:
        """What a policy noted while it played, one JSON value a line, on servers that keep this.

        Raises:
            NotFound: There is nothing, or the server does not keep it.
            ApiShapeError: A line is no JSON.
        """
        version = check_id(policy_version_id, "policy version")
        target = path("/v2/episode-requests/{}/{}/annotations", _id(episode), version)
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
        """The artifact of the player in a slot, as a file: a zip of up to 200 MB.

        Args:
            episode: The episode.
            position: The slot, from 0.
            target: The file.
            timeout: Seconds of silence before the connection counts as lost.
            on_progress: Told of every step.

        Raises:
            NotFound: There is none, or no such slot.
            Forbidden: The policy is not yours.
            TransferRefused: What came is not whole.
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
        """A log as a file: the game's, or that of the player in a slot; see ``download_artifact``."""
        full = await self._whole(episode, timeout) if position is not None else episode
        job = full.job_id if isinstance(full, EpisodeRequest) else None
        if position is None:
            sources = [path("/v2/episode-requests/{}/artifacts/logs", _id(episode))]
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
        """The replay as a file.

        Args:
            episode: The episode.
            target: The file.
            unpack: Whether to undo the compression of storage, so that the file is what the game wrote.
            limit: Largest replay in bytes, unpacked.
            timeout: Seconds of silence before the connection counts as lost.
            on_progress: Told of every step.

        Raises:
            NotFound: There is none, or none yet.
            LinkExpired: The link to it has run out, so has the one asked for then, and there is no other way to it.
            TransferRefused: What came is not whole, or more than the limit.
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
        except (*_NOT_HERE, LinkExpired) as error:
            refused = error
        try:
            # the episode's own route says what is the matter
            return await fetch(*sources)
        except _NOT_HERE:
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
        """Everything of an episode that you may see, as one zip; its ``manifest.json`` says what is in it.

        Args:
            episode: The episode.
            target: The file.
            include: Only these parts.
            limit: Largest bundle in bytes.
            timeout: Seconds of silence before the connection counts as lost.
            on_progress: Told of every step.

        Raises:
            UsageError: A part that is none.
            NotFound: There is no such episode, or it is not over.
        """
        from ..transfers import download

        unknown = [part for part in include or () if part not in BUNDLE_PARTS]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is not a part of a bundle.", code="bad_part", hint=f"Parts: {', '.join(BUNDLE_PARTS)}."
            )
        return await download(
            self._connection,
            path("/v2/episode-requests/{}/bundle", _id(episode)),
            target,
            params={"include": ",".join(include)} if include else None,
            what="bundle",
            limit=limit,
            timeout=timeout,
            on_progress=on_progress,
        )

    # --- where things are

    async def _whole(self, episode: Episode, timeout: float | None) -> EpisodeRequest:
        return episode if isinstance(episode, EpisodeRequest) else await self.get(episode, timeout=timeout)

    def _of_slot(self, episode: EpisodeRequest, position: int, what: str) -> str:
        seat = next((seat for seat in episode.participants if seat.position == position), None)
        if seat is None:
            slots = ", ".join(str(seat.position) for seat in episode.participants) or "none"
            raise NotFound(f"The episode {episode.id} has no slot {position}.", status=404, hint=f"Its slots: {slots}.")
        if not seat.policy_version_id:
            raise NotFound(f"In slot {position} of {episode.id} no policy plays.", status=404)
        return path(f"/v2/episode-requests/{{}}/{{}}/{what}/{{}}", episode.id, seat.policy_version_id, str(position))

    async def _or_job(self, target: str, episode: Episode, job: str, *, timeout: float | None) -> Reply:
        """What is at a target, or on older servers, at the route of the job, which is for the team alone."""
        try:
            return await self._connection.call("GET", target, timeout=timeout, elsewhere=True)
        except _NOT_HERE as error:
            return await self._job(error, episode, job, timeout=timeout)

    async def _job(self, error: ApiStatusError, episode: Episode, job: str, *, timeout: float | None) -> Reply:
        """The job's answer; if it has none either, or is not for us, the first refusal is what counts."""
        full = await self._whole(episode, timeout)
        if not full.job_id:
            raise error
        try:
            return await self._connection.call("GET", path(job, full.job_id), timeout=timeout, elsewhere=True)
        except (*_NOT_HERE, Forbidden):
            raise error from None

    async def _fetched(
        self,
        sources: Sequence[str],
        target: Path,
        what: str,
        *,
        unpack: bool = False,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        from ..transfers import download

        refusal: ApiStatusError | None = None
        for source in sources:
            try:
                return await download(
                    self._connection,
                    source,
                    target,
                    what=what,
                    unpack=unpack,
                    limit=limit,
                    timeout=timeout,
                    on_progress=on_progress,
                )
            except (*_NOT_HERE, Forbidden, Gone) as error:
                if isinstance(error, Forbidden) and refusal is None:
                    raise
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    async def _results_of_bundle(self, episode_id: str, timeout: float | None) -> bytes | None:
        target = path("/v2/episode-requests/{}/bundle", episode_id)
        try:
            reply = await self._connection.call("GET", target, params={"include": "results"}, timeout=timeout)
        except (*_NOT_HERE, Forbidden):
            return None
        try:
            with zipfile.ZipFile(io.BytesIO(reply.content)) as bundle:
                entry = bundle.getinfo("results.json")
                with bundle.open(entry) as file:
                    content = file.read(MAX_BODY + 1)
        except KeyError:
            return None
        except BROKEN_ZIP as error:
            raise ApiShapeError(f"The answer to {reply.what} is no zip: {error}.", code="not_a_zip") from None
        if len(content) > MAX_BODY:
            raise ApiShapeError(f"The results of {episode_id} are larger than {MAX_BODY:,} bytes.", code="too_large")
        return content

    async def _evidence_of_job(self, episode: EpisodeRequest, timeout: float | None) -> tuple[PlayerEvidence, ...]:
        if not episode.job_id:
            raise NotFound(f"The episode {episode.id} has no job.", status=404)
        logs, artifacts = [
            _numbers((await self._connection.call("GET", path(route, episode.job_id), timeout=timeout)).json())
            for route in ("/jobs/{}/policy-logs", "/jobs/{}/policy-artifact")
        ]
        seats = {seat.position: seat for seat in episode.participants}
        return tuple(
            PlayerEvidence(
                position=number,
                policy_version_id=seats[number].policy_version_id if number in seats else None,
                policy_name=seats[number].policy_name if number in seats else None,
                has_log=number in logs,
                has_artifact=number in artifacts,
            )
            for number in sorted(logs | artifacts)
        )


def _id(episode: Episode) -> str:
    return check_id(episode if isinstance(episode, str) else episode.id, "episode request")


def _numbers(names: Any) -> set[int]:
    """The slots in names such as ``policy_agent_3.log``."""
    if not isinstance(names, list):
        return set()
    found = (re.search(r"_([0-9]{1,6})\.[a-z]+$", str(name)) for name in cast("list[Any]", names))
    return {int(match[1]) for match in found if match}
