"""What a pairing is: a pure function from what has been played to the next round of matches."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

__all__ = ["Field", "PairingRule", "PlayedMatch", "TournamentMatch"]


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

    def goes_on(self, by_itself: int) -> bool:
        """Whether there are players, and another round to play."""
        return len(self.entrants) > 1 and len(self.played) < (by_itself if self.rounds is None else self.rounds)

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
        found, met = dict.fromkeys(self.everybody, 0.0), Counter[str]()
        for match in (match for matches in self.played for match in matches):
            if not match.scores and len(match.players) > 1:
                continue
            for player in match.players:
                found[player] += match.points(player)
                met[player] += 1
        return found, met


@runtime_checkable
class PairingRule(Protocol):
    """What an entry point of the group ``coworld.pairings`` refers to."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """The matches that come next; none when the tournament is over."""
        ...

    def places(self, field: Field) -> Sequence[str]:
        """Everybody by place, the first one first; empty where the rating decides."""
        ...
