"""What a pairing is: a pure function from what has been played to the next round of matches."""

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
    """What the pairing knows it by, e.g. its place in a bracket."""


@dataclass(frozen=True, kw_only=True)
class PlayedMatch(TournamentMatch):
    """A match that is over."""

    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Each player's mean over the blocks that count; empty for a bye, and when none counts."""

    def points(self, player: str) -> float:
        """1 for a win over everybody, 1/2 against those that scored the same; a bye is a win, playing alone none."""
        if len(self.players) == 1:
            return 0.0 if self.scores else 1.0
        others = [score for name, score in self.scores.items() if name != player]
        if not others:
            return 0.0
        own = self.scores[player]
        return sum(1.0 if own > score else 0.5 if own == score else 0.0 for score in others) / len(others)


@dataclass(frozen=True, kw_only=True)
class PastRounds:
    """Rounds that are over, added up."""

    rounds: int = 0
    """How many there are."""
    matches: int = 0
    """How many matches they had, byes included."""
    points: Mapping[str, float] = field(default_factory=dict[str, float])
    """What everybody has won in them (``PlayedMatch.points``)."""
    counted: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many matches of each player count, byes included."""
    entered: Mapping[str, int] = field(default_factory=dict[str, int])
    """In how many rounds each player had a match."""
    meetings: Sequence[tuple[tuple[str, ...], int]] = ()
    """Who met, in the order of their names, and in how many matches; a bye is a meeting of one."""
    carried: Any = None
    """What the pairing wants to know of them besides (``CarryingRule.carry``)."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """Everything that a pairing may look at."""

    entrants: tuple[str, ...]
    """Who is in the tournament, in the order of entry: the first is the first seed."""
    everybody: tuple[str, ...]
    """The same, with those that have withdrawn."""
    seats: int
    seed: int
    rounds: int | None = None
    """How many rounds were asked for; None: as many as the pairing takes by itself."""
    played: Sequence[tuple[PlayedMatch, ...]] = ()
    """The rounds that are over. There may be very many: go over them once, and keep no more than is needed."""
    past: PastRounds = PastRounds()
    """The rounds before those, added up; without any unless the pairing is a ``CarryingRule``."""

    @property
    def rounds_played(self) -> int:
        """How many rounds are over."""
        return self.past.rounds + len(self.played)

    def goes_on(self, by_itself: int) -> bool:
        """Whether there are players, and another round to play."""
        return len(self.entrants) > 1 and self.rounds_played < (by_itself if self.rounds is None else self.rounds)

    def after(self, matches: Sequence[TournamentMatch]) -> Field:
        """What it would be after another round in which everybody beats those that entered later."""
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
        """What everybody has won so far (``PlayedMatch.points``)."""
        return self.points_and_matches()[0]

    def points_and_matches(self) -> tuple[dict[str, float], Counter[str]]:
        """What everybody has won so far, and in how many matches that count, byes included."""
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
        """Who met, in the order of their names, and in how many matches; a bye is a meeting of one."""
        found = Counter(dict(self.past.meetings))
        found.update(tuple(sorted(match.players)) for matches in self.played for match in matches)
        return found

    def rounds_entered(self) -> Counter[str]:
        """In how many rounds each player had a match, byes included."""
        found = Counter(self.past.entered)
        for matches in self.played:
            found.update({name for match in matches for name in match.players})
        return found

    def added_up(self, carried: Any) -> PastRounds:
        """All rounds that are over, for a later field's ``past``.

        Args:
            carried: What the pairing wants to know of them besides.
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
    """What an entry point of the group ``coworld.pairings`` refers to."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """The matches that come next; none when the tournament is over."""
        ...

    def places(self, field: Field) -> Sequence[str]:
        """Everybody by place, the first one first; empty where the rating decides."""
        ...


@runtime_checkable
class CarryingRule(PairingRule, Protocol):
    """A pairing that does without the rounds once they are added up.

    A tournament by it can be stored between two rounds and go on from there (``Tournament.state``). ``field.past`` has
    the sums, ``field.played`` the rounds since.
    """

    def carry(self, field: Field) -> Any:
        """What it needs to know of all rounds so far besides their sums, as JSON: later ``field.past.carried``."""
        ...
