"""Builds the requests to a tournament's commissioner, and turns its answers into events.

Each answer is checked as a whole: it becomes one event, or raises `CommissionerError` and changes nothing.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from ..commissioner.messages import (
    EpisodeFailed,
    EpisodeResult,
    LeagueMigrationConfigRequest,
    LeagueMigrationConfigResponse,
    LeagueMigrationRequest,
    LeagueMigrationResponse,
    RoundComplete,
    RoundStart,
    ScheduleEpisodes,
    ScheduleRoundsRequest,
    state_bytes,
)
from ..commissioner.values import (
    ACTIVE,
    COMPETING,
    DivisionInfo,
    EpisodeWish,
    LeagueInfo,
    MembershipChange,
    MembershipEvent,
    MembershipInfo,
    RecentResult,
    RoundInfo,
    RoundSpec,
    SeatScore,
    VariantInfo,
)
from ..errors import CommissionerError
from ..evaluation.block_ledger import JudgedBlock
from ..text.phrases import listed
from .league import CommissionedLeague
from .standings import Tournament
from .tournament_log import (
    DivisionPlaces,
    DueRound,
    LeagueDivision,
    LeagueSet,
    Move,
    RoundDecided,
    RoundPlace,
    ScheduledBlock,
)

__all__ = ["EPISODES_A_ROUND", "STATE_BYTES", "Commission", "OwnIds", "legacy_events", "refused"]

_Value = TypeVar("_Value")
_Name = TypeVar("_Name", str, uuid.UUID)

OwnIds: TypeAlias = Callable[[str, object], uuid.UUID | None]
"""The id that an object of a tournament has elsewhere, by kind (`league`, `division`, `round`, `player`,
`membership`) and name; None: it has none."""

EPISODES_A_ROUND = 1000
"""Maximum number of episodes in a round."""
STATE_BYTES = 10 * 1024 * 1024
"""Maximum size of the state that is kept for a commissioner between rounds, in bytes of JSON."""
_RECENT = 20
"""How many recent rounds a commissioner is told about."""


def repeated(names: Iterable[_Name]) -> list[_Name]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def refused(message: str) -> CommissionerError:
    """The error for an invalid answer of a commissioner."""
    return CommissionerError(message, code="commissioner_refused")


class Commission:
    """A tournament as its commissioner sees it. Ids follow from its rules, so every run has the same.

    Args:
        tournament: The tournament.
        game_config: The config of the variant to play.
        league: Its state; by default that of the tournament.
        own_ids: The ids that its objects have elsewhere.
    """

    def __init__(
        self,
        tournament: Tournament,
        game_config: dict[str, Any],
        *,
        league: CommissionedLeague | None = None,
        own_ids: OwnIds | None = None,
    ) -> None:
        self._tournament = tournament
        self.league = league or tournament.league
        self._own_ids: OwnIds = own_ids or (lambda _kind, _name: None)
        rules = tournament.rules
        self._variant = VariantInfo(
            id=rules.variant, name=rules.variant, game_config=game_config, num_agents=rules.slot_count
        )
        self._space = self._own_ids("league", "") or uuid.uuid5(
            uuid.NAMESPACE_URL, f"coworld:{rules.coworld}:{rules.manifest_sha256}:{rules.variant}:{rules.seed}"
        )

    def id_of(self, kind: str, name: object) -> uuid.UUID:
        """The id of an object of the tournament."""
        return self._own_ids(kind, name) or uuid.uuid5(self._space, f"{kind}:{name}")

    def player(self, name: str) -> uuid.UUID:
        """The id of a player (`policy_version_id`)."""
        return self.id_of("player", name)

    @property
    def info(self) -> LeagueInfo:
        """The league."""
        return LeagueInfo(id=self._space, commissioner_key="container")

    def divisions(self) -> tuple[DivisionInfo, ...]:
        """All divisions; a single default one until a commissioner has named any."""
        known = self.league.divisions.values() or [
            LeagueDivision(id=str(self.id_of("division", "")), name="All", level=0)
        ]
        return _infos(known)

    def division(self, id: str) -> DivisionInfo:
        """An existing division."""
        return next(one for one in self.divisions() if str(one.id) == id)

    @property
    def everybody(self) -> list[str]:
        """All players, including those that have withdrawn."""
        return [*self._tournament.plan.players()]

    def recent(self, rounds: Mapping[int, _Value]) -> dict[int, _Value]:
        """The last rounds, as many as a commissioner is told about."""
        return dict([*rounds.items()][-_RECENT:])

    def places(self) -> Iterator[tuple[int, str, RoundPlace]]:
        """The places given in the last rounds, each with the round's number and the division's id."""
        for number, decided in self.recent(self.league.decided).items():
            for result in decided.results:
                for place in result.rankings:
                    yield number, result.division, place

    def rounds_known(self) -> tuple[RoundInfo, ...]:
        """The last rounds that were due."""
        decided, dropped = self.league.decided, self.league.dropped
        return tuple(
            RoundInfo(
                id=self.id_of("round", number),
                division_id=uuid.UUID(due.division),
                round_number=number,
                status="completed" if number in decided else "failed" if number in dropped else "pending",
                round_config=due.config,
                created_at=self.league.created[number].isoformat(),
                completed_at=self.league.ended[number].isoformat() if number in self.league.ended else None,
            )
            for number, due in self.recent(self.league.rounds).items()
        )

    def memberships(self, names: Iterable[str] | None = None) -> tuple[MembershipInfo, ...]:
        """The memberships of players; by default of all that have not withdrawn."""
        first = self.divisions()[0].id
        found: list[MembershipInfo] = []
        for name in self._tournament.active if names is None else names:
            one = self.league.membership(name)
            found.append(
                MembershipInfo(
                    id=self.id_of("membership", name),
                    league_id=self._space,
                    division_id=uuid.UUID(one.division) if one.division else first,
                    policy_version_id=self.player(name),
                    player_id=name,
                    status=one.status,
                    substatus=one.substatus or (ACTIVE if one.status == COMPETING else None),
                    # Every entrant has exactly one program
                    is_champion=True,
                )
            )
        return tuple(found)

    # --- divisions

    def ask_divisions(self) -> LeagueMigrationConfigRequest:
        """The request for the divisions."""
        return LeagueMigrationConfigRequest(league=self.info, divisions=self.divisions())

    def ask_members(self, divisions: Sequence[LeagueDivision]) -> LeagueMigrationRequest:
        """The request for the members of the new divisions."""
        return LeagueMigrationRequest(league=self.info, divisions=_infos(divisions), memberships=self.memberships())

    def new_divisions(self, response: LeagueMigrationConfigResponse) -> tuple[LeagueDivision, ...]:
        """The divisions that a commissioner wants; the current ones if it names none.

        Raises:
            CommissionerError: Two share a name.
        """
        before = {one.name: str(one.id) for one in self.divisions()}
        if not response.divisions:
            return tuple(
                LeagueDivision(id=str(one.id), name=one.name, level=one.level, type=one.type)
                for one in self.divisions()
            )
        names = [one.name for one in response.divisions]
        if twice := repeated(names):
            raise refused(f"Its divisions are not told apart by name: {listed(twice)} stands for several.")
        found: dict[str, LeagueDivision] = {}
        for one in response.divisions:
            # A commissioner says the same each time, so a division may have its new name already, or be new.
            former = one.previous_name if one.previous_name in before else one.name
            id = before.get(former) or str(self.id_of("division", one.name))
            while id in found:
                id = str(self.id_of("division", f"{one.name}:{id}"))
            found[id] = LeagueDivision(
                id=id, name=one.name, level=one.level, type=one.type, description=one.description
            )
        return tuple(found.values())

    def league_set(
        self, commissioner: str, divisions: Sequence[LeagueDivision], response: LeagueMigrationResponse
    ) -> LeagueSet:
        """The event for a migration.

        Raises:
            CommissionerError: It moves an unknown player, moves one from the wrong division or to an unknown one, or
                leaves one in a division that no longer exists.
        """
        there = {one.id for one in divisions}
        moves = self.moves(response.policy_membership_events, there)
        moved = {move.name for move in moves}
        if self.league.divisions:
            names = [name for name in self._tournament.active if name not in moved]
            left = [name for name in names if self.league.membership(name).division not in there]
            if left:
                raise refused(f"It leaves {listed(left)} in a division that no longer exists.")
        return LeagueSet(commissioner=commissioner, divisions=tuple(divisions), moves=moves)

    # --- rounds

    def ask_rounds(self) -> ScheduleRoundsRequest:
        """The request for the rounds that are due."""
        return ScheduleRoundsRequest(
            league=self.info,
            divisions=self.divisions(),
            active_memberships=tuple(one for one in self.memberships() if one.status == COMPETING),
            recent_rounds=self.rounds_known(),
        )

    def due_rounds(self, specs: Sequence[RoundSpec]) -> tuple[DueRound, ...]:
        """The rounds that a commissioner wants: one per division without a pending one, up to the number to be played.

        Raises:
            CommissionerError: A round names unknown players.
        """
        names = {self.player(name): name for name in self._tournament.active}
        league, limit = self.league, self._tournament.rules.rounds
        coming = [due for at, due in league.rounds.items() if at not in league.decided and at not in league.dropped]
        taken = {due.division for due in coming}
        room = len(specs) if limit is None else limit - len(league.decided) - len(coming)
        number, found = max([self._tournament.last_round, *league.rounds]), list[DueRound]()
        for spec in specs:
            division = str(spec.division_id)
            if division not in league.divisions or division in taken or len(found) >= room:
                continue
            wanted = spec.round_config.entrant_policy_version_ids or ()
            if unknown := [str(id) for id in wanted if id not in names]:
                raise refused(f"It wants a round of unknown players: {listed(unknown)}.")
            taken.add(division)
            found.append(
                DueRound(
                    round=number + len(found) + 1,
                    division=division,
                    entrants=tuple(names[id] for id in wanted),
                    config=spec.round_config.model_dump(mode="json", exclude_none=True),
                )
            )
        return tuple(found)

    def start(self, due: DueRound) -> RoundStart:
        """The message that starts a round."""
        league = self.league
        results = [
            RecentResult(
                round_id=self.id_of("round", number),
                division_id=uuid.UUID(division),
                round_number=number,
                policy_version_id=self.player(place.name),
                rank=place.rank,
                score=place.score,
            )
            for number, division, place in self.places()
        ]
        return RoundStart(
            round_id=str(self.id_of("round", due.round)),
            round_number=due.round,
            league=self.info,
            # The round's own division comes first
            divisions=tuple(sorted(self.divisions(), key=lambda division: str(division.id) != due.division)),
            memberships=self.memberships(league.entrants(due, self._tournament.active)),
            recent_results=tuple(results),
            variants=(self._variant,),
            state=league.state,
        )

    # --- episodes

    def mistakes(
        self, due: DueRound, message: ScheduleEpisodes, known: Mapping[str, object], *, room: int
    ) -> dict[str, str]:
        """The mistakes in the episodes that a commissioner requests, by request id.

        Args:
            due: The round.
            message: The commissioner's request.
            known: Earlier requests, by id.
            room: How many more episodes are allowed.
        """
        ids = [request.request_id for request in message.episodes]
        names = self._seatable(due)
        found: dict[str, str] = {}
        for place, request in enumerate(message.episodes):
            unknown = [str(id) for id in request.policy_version_ids if id not in names]
            seats = len(request.policy_version_ids)
            if request.request_id in known or request.request_id in ids[:place]:
                found[request.request_id] = "there is a request with this id already"
            elif request.variant_id != self._variant.id:
                found[request.request_id] = f"the variant that is played is {self._variant.id!r}"
            elif seats != self._variant.num_agents:
                found[request.request_id] = f"it seats {seats} players, and the game has {self._variant.num_agents}"
            elif unknown:
                found[request.request_id] = f"in this round nobody competes as {listed(unknown)}"
            elif len(known) + place >= min(EPISODES_A_ROUND, room):
                found[request.request_id] = f"there is room for {max(0, min(EPISODES_A_ROUND, room) - len(known))} more"
        return found

    def block(self, due: DueRound, request: EpisodeWish) -> ScheduledBlock:
        """A valid request as a block; its real number is not known yet."""
        names = self._seatable(due)
        lineup = tuple(names[id] for id in request.policy_version_ids)
        return ScheduledBlock(block=1, match=1, players=tuple(dict.fromkeys(lineup)), lineup=lineup, seed=request.seed)

    def outcome_message(
        self, request_id: str, scheduled: ScheduledBlock, judged: JudgedBlock
    ) -> EpisodeResult | EpisodeFailed:
        """The outcome of an episode, as a message to the commissioner."""
        if judged.fate != "counted":
            return EpisodeFailed(request_id=request_id, error=judged.reason)
        return EpisodeResult(
            request_id=request_id,
            scores=tuple(
                SeatScore(policy_version_id=self.player(name), player_id=name, score=score)
                for name, score in zip(scheduled.lineup, judged.tables[0], strict=True)
            ),
        )

    def decided(self, due: DueRound, message: RoundComplete, earlier: Sequence[MembershipEvent] = ()) -> RoundDecided:
        """The event for the end of a round. A state that is too large is left out; the round still counts.

        Args:
            due: The round.
            message: What the commissioner says about it.
            earlier: Changes that it requested during the round.

        Raises:
            CommissionerError: A place goes to a player outside the round, twice to one player, or to another division;
                or a move names an unknown membership or a wrong division.
        """
        names = self._seatable(due)
        results: list[DivisionPlaces] = []
        for ranking in message.results:
            if str(ranking.division_id) != due.division or results:
                raise refused("It gives places in a division other than the round's, or twice in the same.")
            ids = [entry.policy_version_id for entry in ranking.rankings]
            if unknown := [str(id) for id in ids if id not in names]:
                raise refused(f"It gives places to players that are not in the round: {listed(unknown)}.")
            if twice := sorted(names[id] for id in repeated(ids)):
                raise refused(f"It gives {listed(twice)} more than one place.")
            places = [
                RoundPlace(name=names[entry.policy_version_id], rank=entry.rank, score=entry.score)
                for entry in ranking.rankings
            ]
            places.sort(key=lambda place: place.rank)
            results.append(DivisionPlaces(division=due.division, rankings=tuple(places)))
        size = state_bytes(message.state)
        return RoundDecided(
            round=due.round,
            results=tuple(results),
            moves=self.moves((*earlier, *message.policy_membership_events, *legacy_events(message.membership_changes))),
            display=message.round_display,
            state=message.state if size <= STATE_BYTES else None,
            state_refused=size if size > STATE_BYTES else 0,
        )

    def after(self, event: RoundDecided) -> Commission:
        """The tournament as it would be after an event."""
        return Commission(
            self._tournament, self._variant.game_config, league=self.league.after(event), own_ids=self._own_ids
        )

    # --- lookup by id

    def _seatable(self, due: DueRound) -> dict[uuid.UUID, str]:
        return {self.player(name): name for name in self.league.entrants(due, self._tournament.active)}

    def moves(self, events: Sequence[MembershipEvent], divisions: Collection[str] | None = None) -> tuple[Move, ...]:
        """Changes of memberships as moves of players, one each.

        Args:
            events: The changes, in order.
            divisions: Ids of the divisions that they may lead to; by default of the existing ones.

        Raises:
            CommissionerError: A membership is unknown, or a move is from or to a wrong division.
        """
        divisions = self.league.divisions if divisions is None else divisions
        members = {self.id_of("membership", name): name for name in self._tournament.active}
        found: dict[str, Move] = {}
        for event in events:
            name = members.get(event.league_policy_membership_id)
            if name is None:
                raise refused(f"It changes the membership {event.league_policy_membership_id}, which does not exist.")
            was = found[name].division if name in found else self.league.membership(name).division
            was = was or str(self.divisions()[0].id)
            if event.from_division_id is not None and str(event.from_division_id) != was:
                raise refused(f"It moves {name} from a division that {name} is not in.")
            to = str(event.to_division_id) if event.to_division_id is not None else was
            if to not in divisions:
                raise refused(f"It puts {name} in a division that does not exist.")
            found[name] = Move(
                name=name, division=to, status=event.status, substatus=event.substatus, reason=event.reason
            )
        return tuple(found.values())


def _infos(divisions: Iterable[LeagueDivision]) -> tuple[DivisionInfo, ...]:
    return tuple(DivisionInfo(id=uuid.UUID(one.id), name=one.name, level=one.level, type=one.type) for one in divisions)


def legacy_events(changes: Iterable[MembershipChange]) -> tuple[MembershipEvent, ...]:
    """Convert changes of memberships from the older form to the newer one."""
    return tuple(
        MembershipEvent(
            league_policy_membership_id=change.membership_id,
            from_division_id=change.from_division_id,
            to_division_id=change.to_division_id,
            status=COMPETING if change.is_active else "inactive",
            reason=change.reason,
        )
        for change in changes
    )
