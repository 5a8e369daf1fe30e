"""Experience requests: episodes that users request, to train or to compare policies."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from ._open_enums import ExperienceStatus
from ._wire_models import Body, LongText, Text, Time, Wire, newer, required
from .episodes import EpisodeRequest
from .tags import Tags

__all__ = [
    "MAX_EPISODES",
    "MAX_ROSTER",
    "EpisodeBody",
    "ExperienceBody",
    "ExperienceDetail",
    "ExperienceRequest",
    "ExperienceTarget",
    "RosterEntry",
    "RosterPlayer",
]


class ExperienceRequest(Wire):
    """Episodes that were requested together."""

    id: str = required("`xreq_<uuid>`.")
    requester_user_id: str | None = Field(default=None, description="The user who requested them.")
    requester: Any = Field(default=None, description="Who requested them, as the server shows it.")
    coworld_id: str | None = Field(default=None, description="The Coworld that is played, `cow_<uuid>`.")
    coworld_name: str | None = Field(default=None, description="Its name.")
    coworld_version: str | None = Field(default=None, description="Its version.")
    variant_id: str | None = Field(default=None, description="The variant that is played.")
    status: ExperienceStatus = required("Its status.", ExperienceStatus(""))
    episode_count: int = required("Number of episodes.", 0)
    pending_count: int = required("Number of waiting episodes.", 0)
    submitted_count: int = required("Number of submitted episodes.", 0)
    running_count: int = required("Number of running episodes.", 0)
    completed_count: int = required("Number of completed episodes.", 0)
    failed_count: int = required("Number of failed episodes.", 0)
    error: str | None = Field(default=None, description="Why it failed, if it did.")
    created_at: Time | None = required("When it was requested.", None)
    started_at: Time | None = Field(default=None, description="When the first episode began.")
    completed_at: Time | None = Field(default=None, description="When the last one ended.")
    title: str | None = newer("Title given by its owner.")
    description: str | None = newer("Its purpose.")
    tags: dict[str, str] | None = newer("Labels of its episodes, on platforms that keep any.")


class ExperienceDetail(ExperienceRequest):
    """An experience request with its episodes."""

    episodes: tuple[EpisodeRequest, ...] = Field(default=(), description="The episodes.")


MAX_EPISODES = 100
"""Maximum number of episodes in one request."""
MAX_ROSTER = 256
"""Maximum number of seats in one episode."""


class ExperienceTarget(Body):
    """A league or division whose game and champions to use, given in exactly one way."""

    league_id: Text | None = Field(default=None, description="`league_<uuid>`.")
    division_id: Text | None = Field(default=None, description="`div_<uuid>`.")
    coworld_id: Text | None = Field(default=None, description="`cow_<uuid>`.")
    variant_id: Text | None = Field(default=None, description="The variant.")
    league_name: Text | None = Field(default=None, description="Name of the league.")
    division_name: Text | None = Field(default=None, description="Name of the division.")


class RosterPlayer(Body):
    """The occupant of a seat, given by exactly one of the three fields."""

    policy_ref: Text | None = Field(default=None, description="`name:v3`, or a policy version's UUID.")
    top_n: int | None = Field(default=None, ge=1, le=1000, description="One of the best N champions of the target.")
    random: bool | None = Field(default=None, description="Any champion of the target.")

    @model_validator(mode="after")
    def _one(self) -> RosterPlayer:
        given = [self.policy_ref is not None, self.top_n is not None, bool(self.random)]
        if sum(given) != 1:
            raise ValueError("give exactly one of policy_ref, top_n and random")
        return self


class RosterEntry(Body):
    """A seat and its occupant."""

    player: RosterPlayer = Field(description="The occupant.")
    slot: int | None = Field(default=None, ge=-1, lt=MAX_ROSTER, description="The slot; absent or -1: any free one.")


class EpisodeBody(Body):
    """Request an episode."""

    coworld_id: Text | None = Field(
        default=None, description="The Coworld to play, `cow_<uuid>`, unless there is a target."
    )
    variant_id: Text | None = Field(default=None, description="The variant to play.")
    target: ExperienceTarget | None = Field(default=None, description="The league or division to take the game from.")
    roster: tuple[RosterEntry, ...] = Field(min_length=1, max_length=MAX_ROSTER, description="One entry for each seat.")
    execution_backend: Text | None = Field(default=None, description="The backend to run it on.")
    game_config_overrides: dict[str, Any] | None = Field(default=None, description="Replaces keys of the game config.")
    notes: LongText | None = Field(default=None, description="Notes for yourself.")
    tags: Tags | None = Field(default=None, description="Labels of its episodes.")

    @model_validator(mode="after")
    def _direct_or_target(self) -> EpisodeBody:
        if (self.coworld_id is None) == (self.target is None):
            raise ValueError("give either coworld_id or target")
        return self


class ExperienceBody(EpisodeBody):
    """Request several episodes."""

    num_episodes: int = Field(default=1, ge=1, le=MAX_EPISODES, description="Number of episodes.")
    title: Text | None = Field(default=None, description="A title.")
    description: LongText | None = Field(default=None, description="Its purpose.")
    episode_player_llm_spend_limit_usd: float | None = Field(default=None, ge=0, description="US dollars per player.")
    game_config_overlay_secret: Text | None = Field(default=None, description="Name of a secret configuration.")
    state: Text | None = Field(default=None, description="head or snapshot, with a secret configuration.")
