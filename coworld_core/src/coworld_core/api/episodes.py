"""Episode requests: participants, results and artifacts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, computed_field

from ..roles.bundle import BUNDLE_PARTS, BundlePart
from ._open_enums import OpenText, RequestStatus
from ._wire_models import Time, Wire, newer, required
from .policies import label_of

__all__ = [
    "ARTIFACT_TYPES",
    "BUNDLE_PARTS",
    "AgentStats",
    "ArtifactType",
    "BundlePart",
    "EpisodeErrorType",
    "EpisodePerson",
    "EpisodeRequest",
    "EpisodeScore",
    "EpisodeStats",
    "Participant",
    "PlayerEvidence",
    "PolicyStats",
    "SeatFault",
]

ArtifactType = Literal["spec", "game-config", "logs", "error-info", "results", "replay"]
"""Types that `/artifacts/{type}` serves."""

ARTIFACT_TYPES: tuple[ArtifactType, ...] = ("spec", "game-config", "logs", "error-info", "results", "replay")
"""All artifact types."""


class EpisodeErrorType(OpenText):
    """Why an episode failed."""

    __slots__ = ()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """`player_error` to `crash`."""
        return (
            "player_error",
            "game_unhealthy",
            "game_contract_violation",
            "results_missing",
            "results_malformed",
            "replay_missing",
            "replay_unloadable",
            "episode_timeout",
            "crash",
        )


class Participant(Wire):
    """The occupant of a slot: a policy version or, on newer servers, a person."""

    position: int = required("The slot, from 0.", -1)
    policy_version_id: str | None = Field(default=None, description="UUID.")
    policy_id: str | None = Field(default=None, description="UUID.")
    policy_name: str | None = Field(default=None, description="Name of the policy.")
    version: int | None = Field(default=None, description="Number of the version.")
    player_id: str | None = Field(default=None, description="The player it belongs to, `ply_<uuid>`.")
    player_name: str | None = Field(default=None, description="Name of its player.")
    kind: str | None = newer("policy or human.")
    is_filler: bool | None = newer("Whether it only fills an empty seat.")
    user_id: str | None = newer("For a person: the user's id.")
    name: str | None = newer("For a person: the name shown.")

    @computed_field
    @property
    def label(self) -> str:
        """A label for display: `name:v3`, or a person's name."""
        return label_of(self.policy_name or self.name or "", self.version or 0)


class EpisodePerson(Wire):
    """A person in a slot of an episode that people have played."""

    position: int = required("The slot, from 0.", -1)
    user_id: str | None = Field(default=None, description="The user.")
    player_id: str | None = Field(default=None, description="The player as which they played.")
    name: str | None = Field(default=None, description="The name shown.")
    score: float | None = Field(default=None, description="Their score, once it is over.")


class EpisodeScore(Wire):
    """The score of a policy version in an episode."""

    policy_version_id: str = required("UUID.")
    score: float | None = required("The score given by the game.", None)


class SeatFault(Wire):
    """How a player failed in an episode, which may count all the same."""

    position: int = required("The slot, from 0.", -1)
    error_type: str | None = Field(default=None, description="Type of the fault.")
    message: str | None = Field(default=None, description="The fault in a sentence.")


class EpisodeRequest(Wire):
    """A requested episode: waiting, running or over."""

    id: str = required("`ereq_<uuid>`.")
    requester_user_id: str | None = Field(default=None, description="The user who requested it.")
    round_id: str | None = Field(default=None, description="The round it belongs to.")
    mod_name: str | None = Field(default=None, description="Name of the game's program, on older servers.")
    env_config_name: str | None = Field(default=None, description="Name of the configuration, on older servers.")
    coworld_id: str | None = Field(default=None, description="The Coworld that is played, `cow_<uuid>`.")
    game_config: dict[str, Any] | None = Field(
        default=None, description="The game config; servers leave it out of lists, and of leagues' unfinished episodes."
    )
    seed: int | None = Field(default=None, description="The game's seed.")
    max_steps: int | None = Field(default=None, description="Maximum number of steps, on older servers.")
    status: RequestStatus = required("Its status.", RequestStatus(""))
    policy_version_ids: tuple[str, ...] = Field(default=(), description="UUIDs of the policy versions, by slot.")
    participants: tuple[Participant, ...] = Field(default=(), description="The occupants of the slots.")
    people: tuple[EpisodePerson, ...] | None = newer("The people in slots, who are no participants.")
    job_id: str | None = Field(default=None, description="UUID of the job that runs it.")
    episode_id: str | None = Field(default=None, description="UUID of the episode, once it exists.")
    replay_url: str | None = Field(default=None, description="URL of its replay; opaque.")
    live_url: str | None = Field(default=None, description="URL to watch it while it runs.")
    error_type: EpisodeErrorType | None = Field(default=None, description="Why it failed.")
    error: str | None = Field(default=None, description="Why it failed, in words.")
    failed_policy_index: int | None = Field(default=None, description="The slot whose player failed.")
    failed_agent_index: int | None = Field(default=None, description="The agent that failed.")
    player_faults: tuple[SeatFault, ...] = Field(
        default=(), description="How players failed, on platforms that tell; also in an episode that counts."
    )
    scores: tuple[EpisodeScore, ...] = Field(default=(), description="Scores, once it is over.")
    created_at: Time | None = required("When it was requested.", None)
    experience_request_id: str | None = newer("The experience request it belongs to.")
    variant_id: str | None = newer("The variant that is played.")
    started_at: Time | None = newer("When it began.")
    completed_at: Time | None = newer("When it ended.")
    tags: dict[str, str] | None = newer("Its labels, on platforms that keep any.")
    pool_id: str | None = newer("The pool it belongs to, on older servers.")
    assignments: tuple[int, ...] | None = newer("Policy by agent, on older servers.")

    @property
    def seat_scores(self) -> tuple[float | None, ...]:
        """The score of each participant.

        A platform gives scores by policy version; those of a version with several seats are in the order of its seats,
        and a single one is that of all of them.
        """
        left, found = list(self.scores), list[float | None]()
        for seat in self.participants:
            mine = [score for score in left if score.policy_version_id == seat.policy_version_id]
            found.append(mine[0].score if mine else None)
            if len(mine) > 1:
                left.remove(mine[0])
        return tuple(found)


class AgentStats(Wire):
    """Metrics of one agent of a policy."""

    agent_id: int | None = Field(default=None, description="Number of the agent.")
    reward: float | None = Field(default=None, description="Its reward.")
    metrics: dict[str, float] = Field(default_factory=dict, description="Value by name.")


class PolicyStats(Wire):
    """Metrics of a policy's agents in an episode."""

    position: int = required("The slot, from 0.", -1)
    policy_version_id: str | None = Field(default=None, description="UUID.")
    policy_name: str | None = Field(default=None, description="Name of the policy.")
    policy_version: int | None = Field(default=None, description="Number of the version.")
    num_agents: int = required("Number of its agents.", 0)
    avg_metrics: dict[str, float] = Field(default_factory=dict, description="Mean value by name.")
    avg_reward: float | None = required("Mean reward.", None)
    agents: tuple[AgentStats, ...] = Field(default=(), description="The agents, one by one.")

    @computed_field
    @property
    def label(self) -> str:
        """A label for display: `name:v3`."""
        return label_of(self.policy_name or "", self.policy_version or 0)


class EpisodeStats(Wire):
    """Statistics of an episode, reported by the game."""

    game_stats: dict[str, float] = Field(default_factory=dict, description="Values for the whole game, by name.")
    policy_stats: tuple[PolicyStats, ...] = Field(default=(), description="Metrics of the policies, by slot.")
    steps: int | None = Field(default=None, description="Number of steps.")


class PlayerEvidence(Wire):
    """What a player left behind in an episode, as far as you may see it."""

    position: int = required("The slot, from 0.", -1)
    policy_version_id: str | None = Field(default=None, description="UUID.")
    policy_name: str | None = Field(default=None, description="Name of the policy.")
    has_log: bool | None = Field(default=None, description="Whether there is a log, if known.")
    has_artifact: bool | None = Field(default=None, description="Whether there is an artifact, if known.")
