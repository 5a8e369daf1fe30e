"""How many blocks a tournament will probably have."""

from __future__ import annotations

from .log import RoundScheduled, TournamentRules
from .pairing import Field, PairingRule, TournamentMatch
from .pairings import Commissioned

__all__ = ["expected_blocks"]

_ROUNDS_AHEAD = 32
"""How many rounds are tried out; after so many, those that are left are taken to be like them."""


def expected_blocks(
    pairing: PairingRule | None, field: Field, blocks: int, rules: TournamentRules, open_round: RoundScheduled | None
) -> int | None:
    """How many blocks there will be in all if whoever entered earlier wins; None if that is unknown.

    Args:
        pairing: Decides which players meet.
        field: What has been played.
        blocks: How many blocks are scheduled.
        rules: Those of the tournament.
        open_round: The round that is under way.
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
