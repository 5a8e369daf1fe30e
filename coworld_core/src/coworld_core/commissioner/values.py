"""The parts of the messages on a commissioner's socket."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, StringConstraints

__all__ = [
    "ACTIVE",
    "BENCHED",
    "COMPETING",
    "DivisionConfig",
    "DivisionInfo",
    "DivisionLeaderboardEntry",
    "DivisionRanking",
    "DivisionWords",
    "EpisodeWish",
    "LeaderboardRoundResultInfo",
    "LeagueInfo",
    "MembershipChange",
    "MembershipEvent",
    "MembershipEvidence",
    "MembershipInfo",
    "Name",
    "Part",
    "RankingEntry",
    "RecentResult",
    "RoundConfig",
    "RoundInfo",
    "RoundResultInfo",
    "RoundSpec",
    "SeatScore",
    "StageConfig",
    "VariantInfo",
]

COMPETING = "competing"
"""The status of a membership that takes part in rounds."""
ACTIVE = "active"
"""The substatus of a competing membership nominated by its owner."""
BENCHED = "benched"
"""The substatus of a competing membership not nominated by its owner."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""A non-empty name or id."""


class Part(BaseModel):
    """A part of a message. Unknown fields are ignored, as in the published version."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class LeagueInfo(Part):
    """A league."""

    id: UUID
    commissioner_key: str | None = None
    commissioner_config: dict[str, Any] | None = None


class DivisionInfo(Part):
    """A division of a league."""

    id: UUID
    name: str
    level: int
    type: str = "competition"


class DivisionConfig(Part):
    """A division that a commissioner wants."""

    name: Name
    level: int
    type: str = "competition"
    description: str | None = None
    previous_name: str | None = None
    """Its current name, if it is to be renamed."""


class MembershipInfo(Part):
    """A player in a division."""

    id: UUID
    league_id: UUID
    division_id: UUID
    policy_version_id: UUID
    player_id: str | None = None
    status: str = COMPETING
    substatus: str | None = None
    is_champion: bool = False
    """Whether its owner nominates it; the commissioner cannot change this."""


class RecentResult(Part):
    """A player's result in an earlier round."""

    round_id: UUID
    division_id: UUID
    round_number: int
    policy_version_id: UUID
    rank: int
    score: float


class VariantInfo(Part):
    """A variant that can be played."""

    id: str
    name: str
    game_config: dict[str, Any]
    num_agents: PositiveInt = 1


class EpisodeWish(Part):
    """An episode that a commissioner wants played."""

    request_id: Name
    variant_id: Name
    policy_version_ids: Annotated[tuple[UUID, ...], Field(min_length=1)]
    """The policy versions that play, by slot."""
    seed: int | None = None
    tags: dict[str, str] = {}


class SeatScore(Part):
    """The score of a seat."""

    policy_version_id: UUID
    player_id: str | None = None
    score: float


class RankingEntry(Part):
    """The rank of a player in a round."""

    policy_version_id: UUID
    player_id: str | None = None
    rank: PositiveInt
    score: FiniteFloat
    result_metadata: dict[str, Any] = {}


class DivisionRanking(Part):
    """The ranking of a division."""

    division_id: UUID
    rankings: tuple[RankingEntry, ...]


class MembershipChange(Part):
    """A change to a membership, in the older form."""

    membership_id: UUID
    from_division_id: UUID
    to_division_id: UUID | None = None
    is_active: bool = True
    reason: str


class MembershipEvidence(Part):
    """Evidence for a change to a membership."""

    type: str
    public_id: str | None = None
    title: str
    summary: str | None = None
    metadata: dict[str, Any] = {}


class MembershipEvent(Part):
    """A change to a membership."""

    league_policy_membership_id: UUID
    from_division_id: UUID | None = None
    to_division_id: UUID | None = None
    status: Name
    substatus: str | None = None
    reason: str
    end_time: str | None = None
    notes: str | None = None
    evidence: tuple[MembershipEvidence, ...] = ()


class StageConfig(Part):
    """A stage of a round."""

    label: str = "Round"
    num_episodes: PositiveInt = 1
    min_episodes_per_entrant: PositiveInt | None = None
    self_play: bool = False


class RoundConfig(Part):
    """The configuration of a round."""

    stages: tuple[StageConfig, ...] | None = None
    entrant_policy_version_ids: tuple[UUID, ...] | None = None


class RoundSpec(Part):
    """A round that is due."""

    division_id: UUID
    round_config: RoundConfig
    execution_backend: str = "dispatch"
    notes: str | None = None


class RoundInfo(Part):
    """A round as known to the host."""

    id: UUID
    public_id: str | None = None
    division_id: UUID
    round_number: int
    status: str
    round_config: dict[str, Any] = {}
    created_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None


class RoundResultInfo(Part):
    """A result in a round."""

    round_id: UUID
    policy_version_id: UUID
    rank: int
    score: float
    result_metadata: dict[str, Any] = {}


class LeaderboardRoundResultInfo(RoundResultInfo):
    """A result in a round, with its player."""

    player_id: str
    player_name: str | None = None


class DivisionLeaderboardEntry(Part):
    """The standing of a player in a division, over all rounds."""

    player_id: Name
    player_name: str | None = None
    rank: PositiveInt
    score: FiniteFloat
    rounds_played: Annotated[int, Field(ge=0)]
    policy_version_ids: frozenset[UUID] = frozenset()
    recent_rounds: tuple[dict[str, Any], ...] | None = None


class DivisionWords(Part):
    """A commissioner's description of a division."""

    round_schedule: str | None = None
    next_round: str | None = None
    round_structure: str | None = None
    leaderboard_rules: str | None = None
    scoring_mechanics: str | None = None
