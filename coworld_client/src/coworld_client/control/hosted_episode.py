"""An episode of a platform, as the controller of one hands it out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from coworld_core.api import Coworld, EpisodeRequest, RequestStatus
from coworld_core.controller import (
    EPISODE_STATES,
    EpisodeEvent,
    EpisodeInfo,
    EpisodeState,
    already_ended,
    bad_cursor,
    has_ended,
)
from coworld_core.episode.outcome import FaultParty
from coworld_core.episode.record import PlayerFault
from coworld_core.episode.verdict import party_of
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.records.run_entries import SeatEntry

from ..errors import ApiError, Conflict
from ..watch import until_ended

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["HostedEpisode", "KnownGames", "state_of"]

_WAITING = ("pending", "submitted", "dispatched")


class KnownGames:
    """The Coworlds of a platform, each asked for once by its id."""

    def __init__(self, client: CoworldClient) -> None:
        self._client = client
        self._known: dict[str, Coworld] = {}

    async def find(self, named: str) -> Coworld:
        """A Coworld by its id, or by its name, which may stand for another version soon."""
        if named not in self._known:
            found = await self._client.coworlds.find(named)
            self._known[found.id] = found
            return found
        return self._known[named]

    async def names(self, coworld_id: str | None) -> tuple[str, str]:
        """Name and version; empty if the platform does not tell."""
        try:
            row = await self.find(coworld_id) if coworld_id is not None else None
        except ApiError:
            row = None
        return (row.name, row.version) if row is not None else ("", "")


class HostedEpisode:
    """An episode of a platform, an `EpisodeHandle`.

    A platform tells of an episode's states, and not of what happens in them: its events have no `event`. Several
    states that follow each other quickly may be told as the last of them.
    """

    def __init__(self, client: CoworldClient, games: KnownGames, id: str) -> None:
        self._client = client
        self._games = games
        self._id = id

    def __repr__(self) -> str:
        return f"<HostedEpisode {self._id} of {self._client.server}>"

    @property
    def id(self) -> str:
        """Its id, `ereq_<uuid>`."""
        return self._id

    async def events(self, *, after: str = "") -> AsyncGenerator[EpisodeEvent]:
        """The states that it comes into; see `EpisodeHandle.events`.

        Raises:
            UsageError: On iteration: the cursor is not one of these events (`bad_cursor`).
            ApiError: On iteration: the platform cannot be reached for some minutes, or refuses.
        """
        last, _, cursor = after.partition(":")
        if after and (last not in EPISODE_STATES or not cursor):
            raise bad_cursor(after)
        if after and has_ended(cast("EpisodeState", last)):
            return
        async with self._client.watch(self._id, cursor=cursor or None) as changes:
            async for change in changes:
                if change.episode is None:
                    return
                # A feed that begins again tells everything again
                if (state := state_of(change.episode.status)) != last:
                    last = state
                    yield EpisodeEvent(cursor=f"{state}:{change.cursor or ''}", state=state)

    async def info(self) -> EpisodeInfo:
        """What is known of it now.

        Raises:
            NotFound: It is gone, or you may not see it any more.
        """
        return await self.info_of(await self._client.episodes.get(self._id))

    async def info_of(self, row: EpisodeRequest) -> EpisodeInfo:
        """What a row of the platform says of it."""
        name, version = await self._games.names(row.coworld_id)
        state = state_of(row.status)
        party, error_type, error = _fault_of(row, state)
        return EpisodeInfo(
            id=row.id,
            state=state,
            coworld=name,
            version=version,
            variant=row.variant_id or "",
            labels=row.tags or {},
            players=tuple(seat.name for seat in _seats_of(row)),
            scores=await self._scores(row),
            created_at=row.created_at,
            started_at=row.started_at,
            ended_at=row.completed_at,
            error_type=error_type,
            error=error,
            party=party,
            fault_slot=row.failed_policy_index if party == "player" else None,
            player_faults=_player_faults(row, party),
            server=self._client.server,
        )

    async def seats(self) -> tuple[SeatEntry, ...]:
        """Who sits in it; the image of a policy is the id of its version.

        Raises:
            NotFound: As `info`.
        """
        row = await self._client.episodes.get(self._id)
        return _seats_of(row, await self._scores(row))

    async def results(self) -> dict[str, Any] | None:
        """The game's results; None: it has none, or not yet.

        Raises:
            NotFound: As `info`.
        """
        row = await self._client.episodes.get(self._id)
        found: Any = await self._client.episodes.results(row) if row.status.is_success else None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None

    async def terminate(self, *, hard: bool = False) -> None:
        """Cancel it, while it waits to begin. Platforms let an episode that has begun come to its end.

        Raises:
            UsageError: It has ended (`already_ended`), has begun, was not requested by itself, or is to be killed
                (`not_offered`).
        """
        row = await self._client.episodes.get(self._id)
        if has_ended(state_of(row.status)):
            raise already_ended(await self.info_of(row))
        if hard:
            raise self._not_offered("kills no episodes", hint="Ask for a cancellation: one that waits does not begin.")
        if row.experience_request_id is None:
            raise self._not_offered("cancels only what was requested as an experience")
        if state_of(row.status) == "running":
            raise self._already_started()
        request = await self._client.experience.get(row.experience_request_id)
        if request.episode_count > 1:
            raise UsageError(
                f"{self._id} is one of {request.episode_count} episodes of {request.id}, which are cancelled together.",
                code="part_of_a_request",
                hint=Hint("cancel_request", "Cancel that request with api.experience.cancel.", id=request.id),
                context={"id": self._id, "request": request.id},
            )
        try:
            await self._client.experience.cancel(request.id)
        except Conflict as error:
            raise already_ended(await self.info()) from error
        if state_of((await self._client.episodes.get(self._id)).status) == "running":
            raise self._already_started()

    async def result(self) -> EpisodeInfo:
        """Wait until it has ended, and return how.

        Raises:
            ApiError: The platform cannot be reached for some minutes, or refuses.
        """
        async for _ in self.events():
            pass
        # The feed may be ahead of the row by a moment
        row = await until_ended(
            lambda: self._client.episodes.get(self._id), ended=lambda row: has_ended(state_of(row.status))
        )
        return await self.info_of(row)

    async def _scores(self, row: EpisodeRequest) -> tuple[float | None, ...]:
        """The scores by slot: from the row, which has them by policy, or from the results."""
        if not row.status.is_success:
            return ()
        versions = [seat.policy_version_id for seat in row.participants]
        if len(set(versions)) == len(versions):
            by_version = {score.policy_version_id: score.score for score in row.scores}
            by_slot = {seat.position: by_version.get(seat.policy_version_id or "") for seat in row.participants}
            by_slot |= {person.position: person.score for person in row.people or ()}
            return tuple(by_slot.get(slot) for slot in range(max(by_slot, default=-1) + 1))
        try:
            results: Any = await self._client.episodes.results(row)
        except ApiError:
            return ()
        scores: Any = cast("Mapping[str, Any]", results).get("scores") if isinstance(results, Mapping) else None
        return tuple(cast("list[float]", scores)) if isinstance(scores, list) else ()

    def _already_started(self) -> UsageError:
        return self._not_offered("lets an episode that has begun come to its end")

    def _not_offered(self, what: str, *, hint: str | None = None) -> UsageError:
        return UsageError(
            f"{self._client.server} {what}: {self._id} goes on.",
            code="not_offered",
            hint=hint,
            context={"id": self._id},
        )


def _fault_of(row: EpisodeRequest, state: EpisodeState) -> tuple[FaultParty | None, str | None, str | None]:
    """Whose fault decided an episode, its type, and a sentence."""
    if state == "completed":
        first = row.player_faults[0] if row.player_faults else None
        return ("player", first.error_type, first.message) if first is not None else (None, None, None)
    if not has_ended(state):
        return None, row.error_type, row.error
    said = row.error or f"The episode is {row.status}."
    if state == "interrupted":
        return "operator", row.error_type or "interrupted", said
    kind = row.error_type or "platform_error"
    return party_of(kind, row.failed_policy_index), kind, said


def _player_faults(row: EpisodeRequest, party: FaultParty | None) -> tuple[PlayerFault, ...]:
    found = {
        fault.position: PlayerFault(
            slot=fault.position, error_type=fault.error_type or "player_error", message=fault.message or ""
        )
        for fault in reversed(row.player_faults)
        if fault.position >= 0
    }
    if party == "player" and (slot := row.failed_policy_index) is not None and slot not in found:
        found[slot] = PlayerFault(slot=slot, error_type=row.error_type or "player_error", message=row.error or "")
    return tuple(found[slot] for slot in sorted(found))


def _seats_of(row: EpisodeRequest, scores: Sequence[float | None] = ()) -> tuple[SeatEntry, ...]:
    """Policies and people, by slot."""
    policies = [(seat.position, seat.label, seat.player_id, seat.policy_version_id or "") for seat in row.participants]
    people = [(person.position, person.name or "", person.player_id, "") for person in row.people or ()]
    return tuple(
        SeatEntry(
            slot=slot,
            name=name,
            player_id=player_id,
            image=image,
            digest="",
            score=scores[slot] if 0 <= slot < len(scores) else None,
        )
        for slot, name, player_id, image in sorted([*policies, *people], key=lambda seat: seat[0])
    )


def state_of(status: RequestStatus) -> EpisodeState:
    """The state that a status of a platform stands for; an unknown status is one of an episode that has begun."""
    if status.is_success:
        return "completed"
    if status.is_cancelled:
        return "interrupted"
    if status.is_failure:
        return "failed"
    return "pending" if str(status) in _WAITING or not status else "running"
