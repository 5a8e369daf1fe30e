"""Single and double elimination, with seeding and byes.

The bracket is recomputed each time from the results, which are found by match name. It holds the entrants of the first
round; later entrants are left out. A match without a winner is replayed, up to three matches in all; then the better
seed advances, as it does if both belong to one owner. A player that withdraws loses.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

from .pairing_rule import Field, PlayedMatch, TournamentMatch

__all__ = ["double_elimination", "single_elimination"]

_PLAYS = 3
_OPEN = "\0"
"""A player that is not yet known; an empty place is None."""
_Place = str | None


class _Bracket:
    """The state of a bracket while its results are replayed.

    Attributes:
        pending: Matches whose players are known but whose winner is not.
        out: Eliminated players, in the order of the bracket.
    """

    def __init__(self, field: Field, *, losses: int) -> None:
        first = {name for match in field.played[0] for name in match.players} if field.played else {*field.entrants}
        self.seeds = [name for name in field.everybody if name in first]
        self._active = {*field.entrants}
        self._field = field
        self._losses = losses
        self._lost = dict.fromkeys(self.seeds, 0)
        self._results: dict[str, list[PlayedMatch]] = {}
        for match in (match for matches in field.played for match in matches):
            self._results.setdefault(match.name, []).append(match)
        self.pending: list[TournamentMatch] = []
        self.out: list[str] = []

    def first_round(self) -> list[_Place]:
        """The seeds in bracket order: the best two can only meet in the final."""
        order = [0]
        while len(order) < len(self.seeds):
            size = 2 * len(order)
            order = [seed for one in order for seed in (one, size - 1 - one)]
        return [self.seeds[seed] if seed < len(self.seeds) else None for seed in order]

    def play(self, name: str, first: _Place, second: _Place) -> tuple[_Place, _Place]:
        """The winner and loser of a match, as far as known."""
        if _OPEN in (first, second):
            return _OPEN, _OPEN
        if first is None or second is None:
            return first if second is None else second, None
        # The better seed first
        players = tuple(sorted((first, second), key=self.seeds.index))
        winner = self._winner(self._results.get(name, []), players)
        if winner is None:
            self.pending.append(TournamentMatch(players=players, name=name))
            return _OPEN, _OPEN
        loser = players[1] if winner == players[0] else players[0]
        self._lost[loser] += 1
        if self._lost[loser] == self._losses:
            self.out.append(loser)
        return winner, loser

    def _winner(self, played: Sequence[PlayedMatch], players: Sequence[str]) -> str | None:
        total = 0.0
        for match in played:
            total += match.scores.get(players[0], 0.0) - match.scores.get(players[1], 0.0)
            if total:
                return players[0] if total > 0 else players[1]
        here = [player for player in players if player in self._active]
        if len(here) < len(players):
            return here[0] if here else players[0]
        return players[0] if len(played) >= _PLAYS or not self._field.may_meet(players) else None

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """The pending matches; the first round includes the byes."""
        if len(field.entrants) < 2 and not field.played:
            return ()
        if field.played:
            return self.pending
        meeting = {name for match in self.pending for name in match.players}
        return [
            *self.pending,
            *(TournamentMatch(players=(name,), name="bye") for name in self.seeds if name not in meeting),
        ]

    def places(self, field: Field) -> Sequence[str]:
        """Remaining players by seed, then eliminated ones, the last one out first."""
        stayed = [name for name in self.seeds if name not in self.out]
        late = [name for name in field.everybody if name not in self.seeds]
        return [*stayed, *reversed(self.out), *late]


def _winners(bracket: _Bracket) -> tuple[_Place, list[list[_Place]]]:
    """Play the winners' bracket; return its winner and the losers of each round."""
    row, losers, number = bracket.first_round(), list[list[_Place]](), 0
    while len(row) > 1:
        number += 1
        met = [bracket.play(f"winners {number}.{at // 2 + 1}", row[at], row[at + 1]) for at in range(0, len(row), 2)]
        row = [winner for winner, _ in met]
        losers.append([loser for _, loser in met])
    return row[0] if row else None, losers


class _Elimination(abc.ABC):
    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """The matches that can be played."""
        return self._bracket(field).next_round(field)

    def places(self, field: Field) -> Sequence[str]:
        """Remaining players by seed, then eliminated ones, the last one out first."""
        return self._bracket(field).places(field)

    @abc.abstractmethod
    def _bracket(self, field: Field) -> _Bracket: ...


class SingleElimination(_Elimination):
    """A player that loses once is out."""

    def _bracket(self, field: Field) -> _Bracket:
        bracket = _Bracket(field, losses=1)
        _winners(bracket)
        return bracket


class DoubleElimination(_Elimination):
    """A player that loses twice is out. The winners of both brackets meet in the final, which may be played twice."""

    def _bracket(self, field: Field) -> _Bracket:
        bracket = _Bracket(field, losses=2)
        best, losers = _winners(bracket)
        row = losers[0] if losers else []
        number = 0

        def meet(pairs: Sequence[tuple[_Place, _Place]]) -> list[_Place]:
            nonlocal number
            number += 1
            return [bracket.play(f"losers {number}.{at}", *pair)[0] for at, pair in enumerate(pairs, 1)]

        for coming in losers[1:]:
            row = meet(list(zip(row[::2], row[1::2], strict=True))) if len(row) > len(coming) else row
            # Pair from the other end, so that players do not meet again straight away
            row = meet(list(zip(row, reversed(coming), strict=True)))
        second = row[0] if row else None
        winner, _ = bracket.play("final", best, second)
        if winner not in (_OPEN, None) and winner == second:
            bracket.play("final again", best, second)
        return bracket


single_elimination = SingleElimination()
double_elimination = DoubleElimination()
