"""The interface of pairings: pure functions from what has been played to the next round of matches."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

__all__ = ["CarryingRule", "Field", "PairingRule", "PastRounds", "PlayedMatch", "TournamentMatch"]


@dataclass(frozen=True, kw_only=True)
class TournamentMatch:
    """Players that are to meet. A match of one is a bye."""

    players: tuple[str, ...]
    name: str = ""
    """The pairing's name for the match, e.g. its place in a bracket."""


@dataclass(frozen=True, kw_only=True)
class PlayedMatch(TournamentMatch):
    """A match that is over."""

    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Each player's mean over the blocks that count; empty for a bye, and if none counts."""

    def points(self, player: str) -> float:
        """The share of opponents beaten, ties counting half; 1 for a bye, 0 for playing alone."""
        if len(self.players) == 1:
            return 0.0 if self.scores else 1.0
        others = [score for name, score in self.scores.items() if name != player]
        if not others:
            return 0.0
        own = self.scores[player]
        return sum(1.0 if own > score else 0.5 if own == score else 0.0 for score in others) / len(others)


@dataclass(frozen=True, kw_only=True)
class PastRounds:
    """The totals of finished rounds."""

    rounds: int = 0
    """Number of rounds."""
    matches: int = 0
    """Number of matches, byes included."""
    points: Mapping[str, float] = field(default_factory=dict[str, float])
    """The points of each player (`PlayedMatch.points`)."""
    counted: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of matches of each player that count, byes included."""
    entered: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of rounds in which each player had a match."""
    meetings: Sequence[tuple[tuple[str, ...], int]] = ()
    """The players of each meeting, sorted by name, and its number of matches; a bye is a meeting of one."""
    carried: Any = None
    """What else the pairing needs to know of these rounds (`CarryingRule.carry`)."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """The information that a pairing may use."""

    entrants: tuple[str, ...]
    """The active players, in order of entry: the first is the first seed."""
    everybody: tuple[str, ...]
    """All players in order of entry, including those that have withdrawn."""
    seats: int
    seed: int
    rounds: int | None = None
    """Number of rounds requested; None: as many as the pairing takes by default."""
    played: Sequence[tuple[PlayedMatch, ...]] = ()
    """The finished rounds. There may be very many: iterate over them once, and keep no more than is needed."""
    past: PastRounds = PastRounds()
    """The totals of the rounds before those; empty unless the pairing is a `CarryingRule`."""
    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who owns each player. Players of one owner must not meet: such a match is not played."""

    @property
    def rounds_played(self) -> int:
        """Number of finished rounds."""
        return self.past.rounds + len(self.played)

    def may_meet(self, players: Sequence[str]) -> bool:
        """Whether no two of these players have the same owner."""
        return len({self.owners.get(name, name) for name in players}) == len(players)

    def goes_on(self, by_itself: int) -> bool:
        """Whether there are players of two owners and another round to play; `by_itself` is the default number."""
        owners = {self.owners.get(name, name) for name in self.entrants}
        return len(owners) > 1 and self.rounds_played < (by_itself if self.rounds is None else self.rounds)

    def after(self, matches: Sequence[TournamentMatch]) -> Field:
        """The field after another round in which every player beats those that entered later."""
        first = {name: -float(at) for at, name in enumerate(self.everybody)}
        played = tuple(
            PlayedMatch(
                players=match.players,
                name=match.name,
                scores={name: first[name] for name in match.players} if len(match.players) > 1 else {},
            )
            for match in matches
        )
        return dataclasses.replace(self, played=(*self.played, played))

    def points(self) -> dict[str, float]:
        """The points of each player so far (`PlayedMatch.points`)."""
        return self.points_and_matches()[0]

    def points_and_matches(self) -> tuple[dict[str, float], Counter[str]]:
        """The points of each player so far, and its number of matches that count, byes included."""
        found = {name: self.past.points.get(name, 0.0) for name in self.everybody}
        met = Counter(self.past.counted)
        for match in (match for matches in self.played for match in matches):
            if not match.scores and len(match.players) > 1:
                continue
            for player in match.players:
                found[player] += match.points(player)
                met[player] += 1
        return found, met

    def meetings(self) -> Counter[tuple[str, ...]]:
        """The players of each meeting, sorted by name, and its number of matches; a bye is a meeting of one."""
        found = Counter(dict(self.past.meetings))
        found.update(tuple(sorted(match.players)) for matches in self.played for match in matches)
        return found

    def buchholz(self) -> dict[str, float]:
        """The sum of the points of each player's opponents, counted at each meeting."""
        points = self.points()
        found = dict.fromkeys(self.everybody, 0.0)
        for players, times in self.meetings().items():
            for name in players:
                found[name] += times * sum(points[other] for other in players if other != name)
        return found

    def rounds_entered(self) -> Counter[str]:
        """Number of rounds in which each player had a match, byes included."""
        found = Counter(self.past.entered)
        for matches in self.played:
            # In order, so that a stored state is the same each time it is computed
            found.update(dict.fromkeys((name for match in matches for name in match.players), 1))
        return found

    def added_up(self, carried: Any) -> PastRounds:
        """The totals of all finished rounds, for the `past` of a later field.

        Args:
            carried: What else the pairing needs to know of them.
        """
        points, counted = self.points_and_matches()
        return PastRounds(
            rounds=self.rounds_played,
            matches=self.past.matches + sum(map(len, self.played)),
            points=points,
            counted=counted,
            entered=self.rounds_entered(),
            meetings=tuple(self.meetings().items()),
            carried=carried,
        )


@runtime_checkable
class PairingRule(Protocol):
    """The interface of entry points in the group `coworld.pairings`."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """The matches of the next round; empty when the tournament is over."""
        ...

    def places(self, field: Field) -> Sequence[str]:
        """All players in order of their places; empty if the rating decides."""
        ...


@runtime_checkable
class CarryingRule(PairingRule, Protocol):
    """A pairing that does not need single rounds once they are added up.

    A tournament with it can be stored between two rounds and continue from there (`Tournament.state`). `field.past`
    has the totals, `field.played` the rounds since.
    """

    def carry(self, field: Field) -> Any:
        """What else it needs to know of all rounds so far, as JSON; it is later in `field.past.carried`."""
        ...
