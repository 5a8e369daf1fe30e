"""Starts episodes on a platform, finds them again, and follows those that you have requested."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

import coworld_core
from coworld_core.api import ExperienceDetail, ExperienceRequest, check_id
from coworld_core.api.platform_ids import is_uuid
from coworld_core.controller import (
    EPISODE_STATES,
    EpisodeChange,
    EpisodeSpec,
    EpisodeState,
    HostedGame,
    HostedPolicy,
    has_ended,
    read_states,
)
from coworld_core.errors import RemoteError, UsageError
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.records.labels import check_labels

from .._version import __version__
from ..resources._base import has_labels
from ..watch import Outage, next_pause, until_ended
from .episode_bodies import episode_body
from .hosted_episode import HostedEpisode, KnownGames, state_of
from .hosted_play import HostedPlay

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["HostedController"]

_NEWEST = 100
"""Number of requests, the newest, among which a watch looks for those that are going on."""
_RETRY_SECONDS = 300.0


class HostedController:
    """The episodes of a platform, an `EpisodeController`.

    ::

        async with CoworldClient.from_login() as api:
            controller = HostedController(api)
            episode = await controller.start(EpisodeSpec(coworld="nim", players=("mine:v3", "rival")))
            print((await episode.result()).scores)

    Each episode that it starts is an experience request of its own. They go on when the program ends.

    Args:
        client: A client, entered.
    """

    def __init__(self, client: CoworldClient) -> None:
        self._client = client
        self._games = KnownGames(client)

    async def game(self, coworld: str, players: Iterable[str] = ()) -> HostedGame:
        """A Coworld, and policies that are to be measured in it (`coworld_runner.HostedVenue`).

        ::

            game = await controller.game("nim", ["mine:v3", "mine:v2"])
            report = await compare(game, "mine:v3", "mine:v2", venue=HostedVenue(controller, game))

        Args:
            coworld: Its name or `cow_` id.
            players: Your policies: `name` (the newest version), `name:v3`, or a version's UUID.

        Raises:
            ManifestError: The platform's manifest is invalid.
            NotFound: There is no such Coworld or policy.
        """
        found = await self._client.coworlds.find(coworld)
        loaded = load_manifest(found.manifest, template=True)
        report = loaded.report.model_copy(update={"source": found.id})
        policies = {word: await self._policy(word) for word in dict.fromkeys(players)}
        return HostedGame(manifest=loaded.manifest, report=report, id=found.id, policies=policies)

    async def _policy(self, word: str) -> HostedPolicy:
        if is_uuid(word):
            return HostedPolicy(id=word, label=word)
        row = await self._client.policies.lookup(word)
        return HostedPolicy(id=row.id, label=f"{row.name}:v{row.version}")

    async def start(
        self, spec: EpisodeSpec, *, labels: Mapping[str, str] | None = None, idempotency_key: str = ""
    ) -> HostedEpisode:
        """Request an episode, and return once the platform has it in its queue.

        Args:
            spec: What is to be played; the variant is the first one of the Coworld, unless one is named.
            labels: Further labels, above those of the spec.
            idempotency_key: See `EpisodeController.start`; platforms know it for some days.

        Raises:
            UsageError: There is no such variant or field of the config, a label is none, or the players are not one, or
                one for each seat.
            ApiError: The platform refuses: there is no such Coworld or policy, or it keeps no labels.
            RemoteError: It has made no episode of the request (`no_episode`).
        """
        held = check_labels({**spec.labels, **(labels or {})})
        coworld = await self._games.find(spec.coworld)
        body = episode_body(coworld, spec, held)
        made = await self._client.experience.create(body, idempotency_key=idempotency_key or None)
        if not made.episodes:

            def begun(request: ExperienceDetail) -> bool:
                return bool(request.episodes) or request.status.is_terminal

            made = await until_ended(lambda: self._client.experience.get(made.id), ended=begun)
        if not made.episodes:
            raise RemoteError(
                f"{self._client.server} has made no episode for {made.id}: {made.error or made.status}.",
                code="no_episode",
                context={"request": made.id},
            )
        return HostedEpisode(self._client, self._games, made.episodes[0].id)

    async def episode(self, id: str) -> HostedEpisode | HostedPlay:
        """An episode that anybody has requested, or a game for people in which you take part.

        Args:
            id: `ereq_<uuid>`; `xreq_<uuid>` of a request for one episode; or `cps_<uuid>` of a game.

        Raises:
            UsageError: It is no such id (`bad_id`), or the request has several episodes (`several_episodes`).
            NotFound: There is none, or you may not see it.
        """
        if id.startswith("cps_"):
            return HostedPlay(self._client, self._games, (await self._client.hosted.get(id)).session_id)
        check_id(id, ("episode request", "experience request"))
        if id.startswith("xreq_"):
            request = await self._client.experience.get(id)
            if len(request.episodes) != 1:
                raise UsageError(
                    f"{id} has {len(request.episodes)} episodes.",
                    code="several_episodes",
                    hint="Name one of them by its own id.",
                    context={"request": id, "episodes": [row.id for row in request.episodes]},
                )
            return HostedEpisode(self._client, self._games, request.episodes[0].id)
        row = await self._client.episodes.get(id)
        return HostedEpisode(self._client, self._games, row.id)

    async def watch(
        self, *, states: Collection[str] = (), labels: Mapping[str, str] | None = None, full: bool = False
    ) -> AsyncGenerator[EpisodeChange]:
        """The episodes of your experience requests as they come into other states; see `EpisodeController.watch`.

        The platform is asked again and again, with growing pauses while nothing changes.

        Raises:
            UsageError: On iteration: a state is none (`no_such_state`), or the platform keeps no labels (`no_labels`).
            ApiError: On iteration: the platform cannot be reached for some minutes, or refuses.
        """
        wanted = read_states(states) or EPISODE_STATES
        outage = Outage(_RETRY_SECONDS)
        seen = _Seen()
        pause = 0.0
        while True:
            changed = False
            for request in await outage.survive(lambda: self._changed(seen)):
                for row in request.episodes:
                    state = state_of(row.status)
                    if seen.states.get(row.id) == state or not has_labels(row.tags, labels, self._client.server):
                        continue
                    changed = True
                    seen.states[row.id] = state
                    if state in wanted:
                        handle = HostedEpisode(self._client, self._games, row.id)
                        info = await handle.info_of(row) if full else None
                        yield EpisodeChange(id=row.id, state=state, info=info)
            pause = next_pause(pause, changed=changed)
            await anyio.sleep(pause)

    async def versions(self) -> dict[str, str]:
        """The versions of coworld here. Platforms do not tell theirs."""
        return {"coworld-core": coworld_core.__version__, "coworld-client": __version__}

    async def _changed(self, seen: _Seen) -> list[ExperienceDetail]:
        """The requests that have changed since the last look, oldest first."""
        rows = await self._client.experience.list(mine=True, limit=_NEWEST)
        listed = {row.id for row in rows}
        # Those that were going on, and have fallen out of the newest
        rows += [await self._client.experience.get(id) for id in seen.going_on if id not in listed]
        changed: list[ExperienceDetail] = []
        for row in reversed(rows):
            before, now = seen.marks.get(row.id), _mark(row)
            if before != now and not (seen.first and row.status.is_terminal and not _going_on(row)):
                changed.append(await self._client.experience.get(row.id))
            seen.marks[row.id] = now
            if _going_on(row):
                seen.going_on[row.id] = None
            else:
                seen.going_on.pop(row.id, None)
        if seen.first:
            # What has ended before is no news
            ended = (row for request in changed for row in request.episodes if has_ended(state_of(row.status)))
            seen.states |= {row.id: state_of(row.status) for row in ended}
        seen.first = False
        return changed


class _Seen:
    """What a watch has seen so far."""

    def __init__(self) -> None:
        self.first = True
        self.states: dict[str, EpisodeState] = {}
        self.marks: dict[str, tuple[Any, ...]] = {}
        self.going_on: dict[str, None] = {}


def _mark(row: ExperienceRequest) -> tuple[Any, ...]:
    counts = (row.pending_count, row.submitted_count, row.running_count, row.completed_count, row.failed_count)
    return (str(row.status), *counts)


def _going_on(row: ExperienceRequest) -> bool:
    """Whether episodes of a request may still change; those of one that was cancelled may have begun before."""
    return not row.status.is_terminal or row.pending_count + row.submitted_count + row.running_count > 0
