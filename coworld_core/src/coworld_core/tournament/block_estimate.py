"""Estimates how many blocks a tournament will have."""

from __future__ import annotations

from .pairing_rule import Field, PairingRule, TournamentMatch
from .pairings import Commissioned
from .tournament_log import RoundScheduled, TournamentRules

__all__ = ["expected_blocks"]

_ROUNDS_AHEAD = 32
"""Number of rounds to simulate; the remaining ones are assumed to be like these."""


def expected_blocks(
    pairing: PairingRule | None, field: Field, blocks: int, rules: TournamentRules, open_round: RoundScheduled | None
) -> int | None:
    """Estimate the total number of blocks, assuming that the earlier entrant always wins; None if it is unknown.

    Args:
        pairing: Decides which players meet.
        field: The state of the tournament.
        blocks: Number of scheduled blocks.
        rules: The rules of the tournament.
        open_round: The round in progress, if any.
    """
    most = rules.max_blocks
    if pairing is None or isinstance(pairing, Commissioned):
        return None
    if open_round is not None:
        under_way = {one.match: TournamentMatch(players=one.players, name=one.name) for one in open_round.blocks}
        byes = [TournamentMatch(players=(name,), name="bye") for name in open_round.byes]
        field = field.after([*under_way.values(), *byes])
    for _ in range(_ROUNDS_AHEAD):
        matches = pairing.next_round(field)
        real = [match for match in matches if len(match.players) > 1]
        blocks += len(real) * rules.blocks
        if not real or blocks >= most:
            return min(blocks, most)
        field = field.after(matches)
    if rules.rounds is None:
        return None
    return min(most, blocks * rules.rounds // field.rounds_played)
