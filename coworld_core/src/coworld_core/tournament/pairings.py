"""Pairings by rounds: round robin, free play, Swiss, and a ladder."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..evaluation.designs import block_seed
from .pairing_rule import Field, TournamentMatch

__all__ = ["Commissioned", "commissioner", "free_play", "ladder", "round_robin", "swiss"]

_FREE_ROUNDS = 10
_TRIES, _TRIES_EACH = 20_000, 20
"""Steps of the search for a Swiss round without rematches, at least and for each player; then rematches are allowed."""


def _chance(field: Field) -> random.Random:
    """The random numbers of the next round."""
    return random.Random(block_seed(field.seed, -1 - field.rounds_played))


class _BySums:
    def carry(self, field: Field) -> Any:
        """Nothing; the totals are enough."""
        del field


class _ByRating(_BySums):
    def places(self, field: Field) -> Sequence[str]:
        """Empty; the rating decides."""
        del field
        return ()


class RoundRobin(_ByRating):
    """Each round, every group of as many players as there are seats meets once."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """All groups, in an order drawn by the seed."""
        if not field.goes_on(1):
            return ()
        size = len(field.entrants) if field.seats == 1 else min(field.seats, len(field.entrants))
        groups = [group for group in itertools.combinations(field.entrants, size) if field.may_meet(group)]
        _chance(field).shuffle(groups)
        return tuple(TournamentMatch(players=group) for group in groups)


class FreePlay(_ByRating):
    """Each round, tables are drawn at random; players that have played least are seated first."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """As many full tables as there are players for."""
        if not field.goes_on(_FREE_ROUNDS):
            return ()
        met = Counter[str]()
        for players, times in field.meetings().items():
            met.update(dict.fromkeys(players, times))
        size = min(max(2, field.seats), len(field.entrants))
        order = list(field.entrants)
        chance = _chance(field)
        chance.shuffle(order)
        # The sort is stable, so chance decides between players that have played equally often
        seated = _seated(sorted(order, key=lambda name: met[name]), size, field)
        chance.shuffle(seated)
        return tuple(TournamentMatch(players=table) for table in _tables(seated, size, field))


def _by_owner(names: Sequence[str], field: Field) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(field.owners.get(name, name), []).append(name)
    return list(found.values())


def _seated(order: Sequence[str], size: int, field: Field) -> list[str]:
    """The players for full tables, the first ones first, as many as fit with no two of one owner at a table."""
    while True:
        tables = len(order) // size
        kept = {name for names in _by_owner(order, field) for name in names[:tables]}
        if len(kept) == len(order):
            return list(order[: tables * size])
        order = [name for name in order if name in kept]


def _tables(seated: Sequence[str], size: int, field: Field) -> list[tuple[str, ...]]:
    """Full tables of players that `_seated` has chosen."""
    owners = _by_owner(seated, field)
    if len(owners) == len(seated):
        return [tuple(seated[at : at + size]) for at in range(0, len(seated), size)]
    # Dealt out owner by owner, no two come to one table
    dealt = [name for names in sorted(owners, key=len, reverse=True) for name in names]
    tables = len(seated) // size
    return [tuple(dealt[at::tables]) for at in range(tables)]


class Swiss(_BySums):
    """Each round, players with similar points meet, without rematches as long as possible."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """Pairs by points; with an odd number, the lowest that has had no bye gets one."""
        if not field.goes_on(max(1, math.ceil(math.log2(max(2, len(field.entrants)))))):
            return ()
        active = set(field.entrants)
        ranked = [name for name in self.places(field) if name in active]
        met = {frozenset(players) for players in field.meetings()}
        rested = {name for one in met if len(one) == 1 for name in one}
        byes: list[TournamentMatch] = []
        if len(ranked) % 2:
            lowest = next((name for name in reversed(ranked) if name not in rested), ranked[-1])
            ranked.remove(lowest)
            byes.append(TournamentMatch(players=(lowest,), name="bye"))
        pairs = _pairs(ranked, met, field) or _neighbours(ranked, field)
        return (*(TournamentMatch(players=pair) for pair in pairs), *byes)

    def places(self, field: Field) -> Sequence[str]:
        """By points, then by the points of their opponents (Buchholz), then by order of entry."""
        points, buchholz = field.points(), field.buchholz()
        return sorted(field.everybody, key=lambda name: (-points[name], -buchholz[name]))


def _pairs(ranked: Sequence[str], met: set[frozenset[str]], field: Field) -> list[tuple[str, str]] | None:
    """Pair neighbours that have not met and may; None if that is impossible or takes too long to find."""
    end = len(ranked)
    if not ranked:
        return []
    # Who comes next of those that are not paired yet. No recursion: there may be more players than Python allows calls
    following, previous = [*range(1, end + 1), 0], [end, *range(end)]
    found: list[tuple[int, int]] = []
    first, other = 0, following[0]
    for _ in range(max(_TRIES, _TRIES_EACH * end)):
        while other == end:
            if not found:
                return None
            # Undo the last pair, and go on after it
            first, other = found.pop()
            for one in (other, first):
                following[previous[one]] = previous[following[one]] = one
            other = following[other]
        pair = ranked[first], ranked[other]
        if frozenset(pair) not in met and field.may_meet(pair):
            found.append((first, other))
            for one in (first, other):
                following[previous[one]], previous[following[one]] = following[one], previous[one]
            first = following[end]
            if first == end:
                return [(ranked[one], ranked[two]) for one, two in found]
            other = following[first]
        else:
            other = following[other]
    return None


def _neighbours(ranked: Sequence[str], field: Field) -> list[tuple[str, str]]:
    """Pair each player with the next one that it may meet, from the first on; those left over rest."""
    found: list[tuple[str, str]] = []
    waiting = [*reversed(ranked)]
    while waiting:
        first = waiting.pop()
        for at in range(len(waiting) - 1, -1, -1):
            if field.may_meet((first, waiting[at])):
                found.append((first, waiting.pop(at)))
                break
    return found


class Ladder:
    """Neighbours on a ladder meet; a player that beats the one above takes its place. Newcomers start at the bottom."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """The first with the second and so on; in the next round the second with the third."""
        if not field.goes_on(2 * len(field.entrants)):
            return ()
        active = set(field.entrants)
        rungs = [name for name in self.places(field) if name in active]
        # Two players meet in every round
        begin = field.rounds_played % 2 if len(rungs) > 2 else 0
        return tuple(TournamentMatch(players=pair) for pair in _neighbours(rungs[begin:], field))

    def places(self, field: Field) -> Sequence[str]:
        """The current order of the ladder."""
        rungs: list[str] = list(field.past.carried or ())
        known = set(rungs)
        rungs += [name for name in field.everybody if name not in known]
        for match in (match for matches in field.played for match in matches):
            upper, lower = match.players
            if match.scores and match.scores[lower] > match.scores[upper]:
                # Those between the two have withdrawn, or belong to one of their owners
                rungs.remove(lower)
                rungs.insert(rungs.index(upper), lower)
        return rungs

    def carry(self, field: Field) -> Any:
        """The order of the ladder; how it came about no longer matters."""
        return list(self.places(field))


class Commissioned(_ByRating):
    """A commissioner decides; its decisions are in the log (`coworld_core.tournament.league`)."""

    def next_round(self, field: Field) -> Sequence[TournamentMatch]:
        """Empty; the commissioner schedules the rounds."""
        del field
        return ()


commissioner = Commissioned()
round_robin = RoundRobin()
free_play = FreePlay()
swiss = Swiss()
ladder = Ladder()
