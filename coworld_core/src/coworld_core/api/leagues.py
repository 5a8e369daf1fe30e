"""Leagues: games, divisions, rounds, standings and what happened in them."""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, Field

from ._values import RoundStatus
from ._wire import Body, Text, Time, Wire, newer, part, required
from .identity import Player
from .policies import PolicyVersion

__all__ = [
    "CompetitionEvent",
    "Division",
    "DivisionDescription",
    "Game",
    "LadderEntry",
    "Leaderboard",
    "LeaderboardEntry",
    "LeaderboardView",
    "League",
    "LeagueSeed",
    "LeagueSeedBody",
    "LeagueSeedChangeBody",
    "Pool",
    "RecentRound",
    "Round",
    "RoundDetail",
    "RoundResult",
]


class Game(Wire):
    """A game that leagues are played in."""

    id: str = required("``game_<uuid>``.")
    name: str = required("Name it shows.")
    slug: str | None = Field(default=None, description="Name in addresses.")
    coworld_name: str | None = Field(default=None, description="Name of the Coworld that implements it.")
    coworld_id: str | None = Field(default=None, description="The version that is played now, ``cow_<uuid>``.")
    description: str | None = Field(default=None, description="What it is.")
    created_at: Time | None = required("When it was made.", None)


class League(Wire):
    """A league: a game, and who plays it under which rules."""

    id: str = required("``league_<uuid>``.")
    name: str = required("Name it shows.")
    slug: str | None = Field(default=None, description="Name in addresses.")
    game: Game = part(Game, "What is played.")
    commissioner_key: str | None = Field(default=None, description="Kind of commissioner.")
    commissioner_config: dict[str, Any] | None = Field(default=None, description="Its configuration.")
    public: bool = Field(default=False, description="Whether anyone may see it.")
    hidden: bool = Field(default=False, description="Whether lists leave it out.")
    is_game_of_week: bool = Field(default=False, description="Whether it is this week's.")
    created_at: Time | None = required("When it was made.", None)
    participation_url: str | None = newer("How to take part.")
    forum_markdown_url: str | None = newer("Where it is talked about.")
    wiki_markdown_url: str | None = newer("What is known about it.")
    disabled_at: Time | None = newer("When it was shut, if it was.")


class DivisionDescription(Wire):
    """What a commissioner says about a division."""

    round_schedule: str | None = Field(default=None, description="When rounds are played.")
    next_round: str | None = Field(default=None, description="When the next one is.")
    round_structure: str | None = Field(default=None, description="What a round consists of.")
    leaderboard_rules: str | None = Field(default=None, description="How standings are made.")


class Division(Wire):
    """A division of a league."""

    id: str = required("``div_<uuid>``.")
    name: str = required("Name it shows.")
    level: int = required("Height in the ladder; the lowest is 0 or 1, as the commissioner counts.", 0)
    league: League = part(League, "What it is a division of.")
    description: str | None = Field(default=None, description="What it is.")
    archived_at: Time | None = Field(default=None, description="When it was closed, if it was.")
    commissioner_description: DivisionDescription | None = Field(default=None, description="The commissioner's words.")
    created_at: Time | None = required("When it was made.", None)
    type: str | None = newer("Kind of division, such as competition.")
    hidden: bool | None = newer("Whether lists leave it out.")


class LadderEntry(Wire):
    """A division in its league's ladder."""

    id: str = required("``div_<uuid>``.")
    name: str = required("Name it shows.")
    level: int = required("Height in the ladder.", 0)
    member_count: int = required("How many policies play in it.", 0)


class Round(Wire):
    """A round of a division."""

    id: str = required("``round_<uuid>``.")
    round_number: int = required("Number within its division.", 0)
    commissioner_key: str | None = Field(default=None, description="Kind of commissioner.")
    execution_backend: str | None = Field(default=None, description="Where its episodes run.")
    round_config: dict[str, Any] = Field(default_factory=dict, description="The commissioner's configuration of it.")
    round_display: dict[str, Any] | None = Field(default=None, description="What the commissioner wants shown.")
    status: RoundStatus = required("Where it stands.", RoundStatus(""))
    error: str | None = Field(default=None, description="Why it failed, if it did.")
    started_at: Time | None = Field(default=None, description="When it began.")
    completed_at: Time | None = Field(default=None, description="When it ended.")
    division: Division = part(Division, "Where it is played.")
    created_at: Time | None = required("When it was made.", None)


class RoundResult(Wire):
    """What a policy version achieved in a round."""

    id: str = required("The result's id.")
    rank: int | None = required("Place, from 1.", None)
    score: float | None = required("Score, as the commissioner counts.", None)
    result_metadata: dict[str, Any] | None = Field(default=None, description="The commissioner's notes.")
    policy_version: PolicyVersion = part(PolicyVersion, "Whose.")
    player: Player | None = Field(default=None, description="Whose, as people know it.")
    created_at: Time | None = required("When it was written.", None)


class Pool(Wire):
    """A part of a round, on older servers."""

    id: str = required("``pool_<uuid>``.")


class RoundDetail(Round):
    """A round with its results."""

    results: tuple[RoundResult, ...] = Field(default=(), description="Results, best first.")
    pools: tuple[Pool, ...] | None = newer("Its parts, on older servers.")


class RecentRound(Wire):
    """How a player did in one of the last rounds."""

    id: str = required("``round_<uuid>``.")
    round_number: int = required("Number within its division.", 0)
    status: RoundStatus = required("Where it stands.", RoundStatus(""))
    rank: int | None = Field(default=None, description="Place, from 1.")
    score: float | None = Field(default=None, description="Score.")
    started_at: Time | None = Field(default=None, description="When it began.")
    completed_at: Time | None = Field(default=None, description="When it ended.")


class LeaderboardEntry(Wire):
    """A player's standing in a division."""

    rank: int | None = Field(default=None, description="Place, from 1.")
    player_id: str = required("``ply_<uuid>``.")
    player_name: str | None = Field(default=None, description="Name it shows.")
    score: float | None = Field(
        default=None,
        description="Score the division is ordered by.",
        validation_alias=AliasChoices("score", "avg_score", "ewma_rank"),
        json_schema_extra={"x-required": True},
    )
    rounds_played: int = required("How many rounds count.", 0)
    recent_rounds: tuple[RecentRound, ...] | None = Field(default=None, description="The last ones, where asked for.")


class LeaderboardView(Wire):
    """One way to look at a division's standings."""

    key: str = required("What it is called by programs.")
    title: str | None = Field(default=None, description="What it is called by people.")
    description: str | None = Field(default=None, description="What it shows.")
    axis_values: dict[str, Any] = Field(default_factory=dict, description="Where it is on each axis.")
    columns: tuple[dict[str, Any], ...] = Field(default=(), description="Columns: key, label, value_type, sort.")
    rows: tuple[dict[str, Any], ...] = Field(default=(), description="Rows: subject_id, subject_name, values, ...")


class Leaderboard(Wire):
    """A division's standings in several views."""

    default_view_key: str | None = Field(default=None, description="The view to show first.")
    axes: tuple[dict[str, Any], ...] = Field(default=(), description="What the views differ in.")
    views: tuple[LeaderboardView, ...] = Field(default=(), description="The views.")


class CompetitionEvent(Wire):
    """Something that happened in a league."""

    id: str = required("The event's id.")
    event_type: str = required("What kind of thing.")
    audience: str = required("Who is told.")
    user_id: str | None = Field(default=None, description="The user it concerns.")
    player: Player | None = Field(default=None, description="The player it concerns.")
    policy_version: PolicyVersion | None = Field(default=None, description="The policy version it concerns.")
    league: League | None = Field(default=None, description="Where.")
    division: Division | None = Field(default=None, description="Where.")
    round_id: str | None = Field(default=None, description="In which round.")
    headline: str = required("In a few words.")
    summary: str = required("In a sentence or two.")
    payload: dict[str, Any] = Field(default_factory=dict, description="For programs.")
    created_at: Time | None = required("When.", None)


class LeagueSeed(Wire):
    """The order to keep a league for a Coworld."""

    id: str = required("``lseed_<uuid>``.")
    coworld_name: str = required("Which Coworld.")
    template: str = required("Kind of league.")
    overrides: dict[str, Any] | None = Field(default=None, description="What differs from the template.")
    enabled: bool = Field(default=True, description="Whether it counts.")
    created_by: str | None = Field(default=None, description="Who gave it.")
    created_at: Time | None = required("When.", None)
    league_id: str | None = Field(default=None, description="The league, once it is there.")
    league_key: str | None = newer("What tells several leagues of one Coworld apart.")
    league_name: str | None = newer("Name the league shows.")
    default_variant_id: str | None = newer("Variant that is played.")


class LeagueSeedBody(Body):
    """Ask for a league."""

    coworld_name: Text = Field(min_length=1, description="Which Coworld.")
    template: Text = Field(default="commissioner_driven", description="Kind of league.")
    overrides: dict[str, Any] | None = Field(default=None, description="What differs from the template.")
    enabled: bool = Field(default=True, description="Whether it counts from now on.")
    league_key: Text | None = Field(default=None, description="What tells several leagues of one Coworld apart.")
    league_name: Text | None = Field(default=None, min_length=1, description="Name the league shows.")
    default_variant_id: Text | None = Field(default=None, description="Variant that is played.")


class LeagueSeedChangeBody(Body):
    """Change what was asked for."""

    enabled: bool | None = Field(default=None, description="Whether it counts.")
    league_name: Text | None = Field(default=None, min_length=1, description="Name of the league.")
