"""The hooks of a commissioner: optional requests about episodes and rounds, and what the answers add to a round.

All answers become part of one ``RoundDecided``; an invalid one raises ``CommissionerError`` and changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from ..commissioner.messages import (
    DescribeDivisionRequest,
    DescribeDivisionResponse,
    EpisodeCompletedRequest,
    EpisodeFailed,
    EpisodeResult,
    RankDivisionRequest,
    RankDivisionResponse,
    RoundCompletedRequest,
    RoundCompletedResponse,
    RoundStart,
)
from ..commissioner.values import COMPETING, LeaderboardRoundResultInfo, RoundResultInfo
from ..wording import listed
from .commissioning import Commission, legacy_events, refused, repeated
from .log import DueRound, RoundDecided, RoundPlace

__all__ = [
    "ask_about_episode",
    "ask_consequences",
    "ask_description",
    "ask_ranking",
    "with_consequences",
    "with_description",
    "with_ranking",
]


def ask_about_episode(
    start: RoundStart, told: EpisodeResult | EpisodeFailed, before: Sequence[EpisodeResult | EpisodeFailed]
) -> EpisodeCompletedRequest:
    """The request after an episode.

    Args:
        start: The message that started the round.
        told: The outcome of the episode.
        before: The outcomes of the episodes of the round that ended earlier.
    """
    result = told.to_json() if isinstance(told, EpisodeResult) else None
    return EpisodeCompletedRequest(
        round_start=start.model_dump(mode="json", exclude={"type"}),
        episode_result=result,
        episode_failed=told.to_json() if result is None else None,
        completed_episode_results=tuple(one.to_json() for one in before if isinstance(one, EpisodeResult)),
        failed_episodes=tuple(one.to_json() for one in before if isinstance(one, EpisodeFailed)),
    )


def ask_consequences(commission: Commission, due: DueRound, decided: RoundDecided) -> RoundCompletedRequest:
    """The request after a round.

    Args:
        commission: The tournament before the round is over.
        due: The round.
        decided: What the commissioner has decided about it so far.
    """
    return RoundCompletedRequest(
        league=commission.info,
        division=commission.division(due.division),
        all_divisions=commission.divisions(),
        round_config=due.config,
        round_results=_results(commission, due.round, decided),
        division_memberships=tuple(one for one in commission.memberships() if str(one.division_id) == due.division),
        recent_results=tuple(
            result
            for number, before in commission.recent(commission.league.decided).items()
            if commission.league.rounds[number].division == due.division
            for result in _results(commission, number, before)
        ),
    )


def with_consequences(commission: Commission, decided: RoundDecided, response: RoundCompletedResponse) -> RoundDecided:
    """Add the consequences of a round: further moves, and follow-up rounds.

    A follow-up round is left out if its division already has a pending round, or if it exceeds the tournament's number
    of rounds.

    Raises:
        CommissionerError: A move or a round is invalid, as in ``Commission``.
    """
    events = (*response.policy_membership_events, *legacy_events(response.membership_changes))
    after = commission.after(decided)
    moves = {move.name: move for move in (*decided.moves, *after.moves(events))}
    return decided.model_copy(
        update={"moves": tuple(moves.values()), "follow_up": after.due_rounds(response.follow_up_rounds)}
    )


def ask_ranking(after: Commission, division: str) -> RankDivisionRequest:
    """The request for the standings of a division.

    Args:
        after: The tournament as it is after the round.
        division: Id of the division.
    """
    completed = tuple(one for one in after.rounds_known() if one.status == "completed")
    decided = after.recent(after.league.decided)
    return RankDivisionRequest(
        league=after.info,
        division=after.division(division),
        completed_rounds=tuple(one for one in completed if str(one.division_id) == division),
        recent_rounds=tuple(one for one in after.rounds_known() if str(one.division_id) == division),
        round_results=tuple(
            LeaderboardRoundResultInfo(
                round_id=after.id_of("round", number),
                policy_version_id=after.player(place.name),
                rank=place.rank,
                score=place.score,
                player_id=place.name,
                player_name=place.name,
            )
            for number, one in decided.items()
            for result in one.results
            if result.division == division
            for place in result.rankings
        ),
    )


def with_ranking(commission: Commission, decided: RoundDecided, response: RankDivisionResponse) -> RoundDecided:
    """Add the standings of the round's division.

    Raises:
        CommissionerError: The standings contain an unknown player, or one twice.
    """
    ids = [entry.player_id for entry in response.rankings]
    known = set(commission.everybody)
    if unknown := [id for id in ids if id not in known]:
        raise refused(f"It ranks unknown players: {listed(unknown)}.")
    if twice := repeated(ids):
        raise refused(f"It ranks {listed(twice)} more than once.")
    places = [RoundPlace(name=one.player_id, rank=one.rank, score=one.score) for one in response.rankings]
    return decided.model_copy(update={"standings": tuple(sorted(places, key=lambda place: place.rank))})


def ask_description(after: Commission, division: str) -> DescribeDivisionRequest:
    """The request for the description of a division (``ask_ranking``)."""
    return DescribeDivisionRequest(
        league=after.info,
        division=after.division(division),
        active_memberships=tuple(
            one for one in after.memberships() if one.status == COMPETING and str(one.division_id) == division
        ),
        recent_rounds=tuple(one for one in after.rounds_known() if str(one.division_id) == division),
    )


def with_description(decided: RoundDecided, response: DescribeDivisionResponse) -> RoundDecided:
    """Add the description of the round's division."""
    words: Mapping[str, str] = response.description.model_dump(exclude_none=True)
    return decided.model_copy(update={"description": dict(words)})


def _results(commission: Commission, number: int, decided: RoundDecided) -> tuple[RoundResultInfo, ...]:
    id: uuid.UUID = commission.id_of("round", number)
    return tuple(
        RoundResultInfo(
            round_id=id, policy_version_id=commission.player(place.name), rank=place.rank, score=place.score
        )
        for result in decided.results
        for place in result.rankings
    )
