"""What the messages of a commissioner's socket are made of."""

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
"""The substatus of a competing membership that its owner nominates."""
BENCHED = "benched"
"""The substatus of one that its owner does not."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""A text that stands for something."""


class Part(BaseModel):
    """A part of a message. Fields that are not known here are passed over, as the published version does."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class LeagueInfo(Part):
    """The league."""

    id: UUID
    commissioner_key: str | None = None
    commissioner_config: dict[str, Any] | None = None


class DivisionInfo(Part):
    """A division of it."""

    id: UUID
    name: str
    level: int
    type: str = "competition"


class DivisionConfig(Part):
    """A division as a commissioner wants it."""

    name: Name
    level: int
    type: str = "competition"
    description: str | None = None
    previous_name: str | None = None
    """What it is called until now, where it is renamed."""


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
    """Whether its owner nominates it; not the commissioner's to change."""


class RecentResult(Part):
    """What a player achieved in a round before."""

    round_id: UUID
    division_id: UUID
    round_number: int
    policy_version_id: UUID
    rank: int
    score: float


class VariantInfo(Part):
    """A variant that may be played."""

    id: str
    name: str
    game_config: dict[str, Any]
    num_agents: PositiveInt = 1


class EpisodeWish(Part):
    """An episode that a commissioner wants played."""

    request_id: Name
    variant_id: Name
    policy_version_ids: Annotated[tuple[UUID, ...], Field(min_length=1)]
    """Who sits where, by slot."""
    seed: int | None = None
    tags: dict[str, str] = {}


class SeatScore(Part):
    """What a seat scored."""

    policy_version_id: UUID
    player_id: str | None = None
    score: float


class RankingEntry(Part):
    """The place of a player in a round."""

    policy_version_id: UUID
    player_id: str | None = None
    rank: PositiveInt
    score: FiniteFloat
    result_metadata: dict[str, Any] = {}


class DivisionRanking(Part):
    """The places in a division."""

    division_id: UUID
    rankings: tuple[RankingEntry, ...]


class MembershipChange(Part):
    """A change of a membership, in the older form."""

    membership_id: UUID
    from_division_id: UUID
    to_division_id: UUID | None = None
    is_active: bool = True
    reason: str


class MembershipEvidence(Part):
    """What a change of a membership rests on."""

    type: str
    public_id: str | None = None
    title: str
    summary: str | None = None
    metadata: dict[str, Any] = {}


class MembershipEvent(Part):
    """A change of a membership."""

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
    """What a round is to be."""

    stages: tuple[StageConfig, ...] | None = None
    entrant_policy_version_ids: tuple[UUID, ...] | None = None


class RoundSpec(Part):
    """A round that is due."""

    division_id: UUID
    round_config: RoundConfig
    execution_backend: str = "dispatch"
    notes: str | None = None


class RoundInfo(Part):
    """A round as its host knows it."""

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
    """A place that somebody had in a round."""

    round_id: UUID
    policy_version_id: UUID
    rank: int
    score: float
    result_metadata: dict[str, Any] = {}


class LeaderboardRoundResultInfo(RoundResultInfo):
    """The same, with whose it is."""

    player_id: str
    player_name: str | None = None


class DivisionLeaderboardEntry(Part):
    """The place of somebody in a division, over all rounds."""

    player_id: Name
    player_name: str | None = None
    rank: PositiveInt
    score: FiniteFloat
    rounds_played: Annotated[int, Field(ge=0)]
    policy_version_ids: frozenset[UUID] = frozenset()
    recent_rounds: tuple[dict[str, Any], ...] | None = None


class DivisionWords(Part):
    """What a commissioner says about a division."""

    round_schedule: str | None = None
    next_round: str | None = None
    round_structure: str | None = None
    leaderboard_rules: str | None = None
    scoring_mechanics: str | None = None
