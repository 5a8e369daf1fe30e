"""Leagues: games, divisions, rounds, standings and events."""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, Field

from ..text.tables import TableRow, Tabular, html_table
from ._open_enums import RoundStatus
from ._wire_models import Body, Text, Time, Wire, newer, part, required
from .identity import Player
from .policies import PolicyVersion

__all__ = [
    "BlockSeed",
    "CompetitionEvent",
    "Division",
    "DivisionDescription",
    "Game",
    "LadderEntry",
    "Leaderboard",
    "LeaderboardEntry",
    "LeaderboardView",
    "League",
    "LeagueSeason",
    "LeagueSeed",
    "LeagueSeedBody",
    "LeagueSeedChangeBody",
    "Pool",
    "RecentRound",
    "Round",
    "RoundDetail",
    "RoundResult",
    "SeasonLine",
    "SeasonMove",
    "SeasonTable",
]


class Game(Wire):
    """A game with leagues."""

    id: str = required("`game_<uuid>`.")
    name: str = required("Displayed name.")
    slug: str | None = Field(default=None, description="Name in URLs.")
    coworld_name: str | None = Field(default=None, description="Name of the Coworld that implements it.")
    coworld_id: str | None = Field(default=None, description="The current version, `cow_<uuid>`.")
    description: str | None = Field(default=None, description="Description of the game.")
    created_at: Time | None = required("When it was created.", None)


class League(Wire):
    """A league: a game, its players and the rules of the competition."""

    id: str = required("`league_<uuid>`.")
    name: str = required("Displayed name.")
    slug: str | None = Field(default=None, description="Name in URLs.")
    game: Game = part(Game, "The game that is played.")
    commissioner_key: str | None = Field(default=None, description="Kind of commissioner.")
    commissioner_config: dict[str, Any] | None = Field(default=None, description="Its configuration.")
    entries_per_user: int | None = newer("Champions that one account may have in it; null: any number.")
    public: bool = Field(default=False, description="Whether anyone may see it.")
    hidden: bool = Field(default=False, description="Whether lists leave it out.")
    is_game_of_week: bool = Field(default=False, description="Whether it is the game of the week.")
    created_at: Time | None = required("When it was created.", None)
    participation_url: str | None = newer("URL of instructions for taking part.")
    forum_markdown_url: str | None = newer("URL of its forum.")
    wiki_markdown_url: str | None = newer("URL of its wiki.")
    disabled_at: Time | None = newer("When it was disabled, if it was.")


class SeasonLine(Wire):
    """An entry in the table of a season."""

    subject: str = required("Id of the entry.")
    name: str | None = Field(default=None, description="Name of the player, or of the account without one.")
    place: int | None = required("Place, from 1; shared by those who are equal; null without one.", None)
    unplaced: str | None = Field(default=None, description="Why it has no place: withdrawn, benched or few_rounds.")
    rating: float | None = Field(default=None, description="Rating; 400 points are ten wins to one loss.")
    low: float | None = Field(default=None, description="Lower end of the rating's 95 % interval.")
    high: float | None = Field(default=None, description="Upper end of that interval.")
    points: float | None = Field(default=None, description="The commissioner's score, in a league with one.")
    won: float = required("Blocks won; draws count one half.", 0.0)
    played: int = required("Blocks played.", 0)
    rounds: int = required("Rounds played.", 0)
    score: float | None = Field(default=None, description="Mean score of its episodes.")
    episodes: int = Field(default=0, description="Its episodes that count.")


class SeasonTable(Wire):
    """The table of a division in a season."""

    division_id: str = required("`div_<uuid>`.")
    division: str = required("Name of the division.")
    standings: tuple[SeasonLine, ...] = Field(default=(), description="Its entries, best first.")


class SeasonMove(Wire):
    """An entry that changed its division at the end of a season."""

    subject: str = required("Id of the entry.")
    name: str | None = Field(default=None, description="Name of the player, or of the account without one.")
    before: str = required("The division that it left.")
    after: str = required("The division that it came into.")


class LeagueSeason(Wire, Tabular):
    """A season of a league: a finished one as it was archived, or how the running one would end now.

    As a table it has a row for each entry of each division.
    """

    league_id: str = required("`league_<uuid>`.")
    league: str = required("Name of the league.")
    number: int = required("Number of the season, from 1.", 0)
    closed_at: Time | None = Field(default=None, description="When it ended; null for the running season.")
    tables: tuple[SeasonTable, ...] = Field(default=(), description="Its divisions, highest first.")
    moves: tuple[SeasonMove, ...] = Field(default=(), description="Entries that changed division at its end.")

    def to_records(self) -> list[TableRow]:
        """A flat row for each entry of each division, with the columns of `SeasonLine`."""
        return [
            {
                "league": self.league,
                "season": self.number,
                "division": table.division,
                **{name: getattr(line, name) for name in SeasonLine.model_fields},
            }
            for table in self.tables
            for line in table.standings
        ]

    def _repr_html_(self) -> str:
        return html_table(f"{self.league}, season {self.number}", self.to_records())


class DivisionDescription(Wire):
    """A commissioner's description of a division."""

    round_schedule: str | None = Field(default=None, description="When rounds are played.")
    next_round: str | None = Field(default=None, description="When the next one is.")
    round_structure: str | None = Field(default=None, description="What a round consists of.")
    leaderboard_rules: str | None = Field(default=None, description="How standings are computed.")


class Division(Wire):
    """A division of a league."""

    id: str = required("`div_<uuid>`.")
    name: str = required("Displayed name.")
    level: int = required("Level in the ladder; the commissioner decides whether the lowest is 0 or 1.", 0)
    league: League = part(League, "The league it belongs to.")
    description: str | None = Field(default=None, description="Description of the division.")
    archived_at: Time | None = Field(default=None, description="When it was closed, if it was.")
    commissioner_description: DivisionDescription | None = Field(
        default=None, description="The commissioner's description."
    )
    created_at: Time | None = required("When it was created.", None)
    type: str | None = newer("Kind of division, such as competition.")
    hidden: bool | None = newer("Whether lists leave it out.")


class LadderEntry(Wire):
    """A division in its league's ladder."""

    id: str = required("`div_<uuid>`.")
    name: str = required("Displayed name.")
    level: int = required("Level in the ladder.", 0)
    member_count: int = required("Number of policies in it.", 0)


class Round(Wire):
    """A round of a division."""

    id: str = required("`round_<uuid>`.")
    round_number: int = required("Number within its division.", 0)
    commissioner_key: str | None = Field(default=None, description="Kind of commissioner.")
    execution_backend: str | None = Field(default=None, description="The backend that runs its episodes.")
    round_config: dict[str, Any] = Field(default_factory=dict, description="Its configuration by the commissioner.")
    round_display: dict[str, Any] | None = Field(default=None, description="What the commissioner wants to show.")
    status: RoundStatus = required("Its status.", RoundStatus(""))
    error: str | None = Field(default=None, description="Why it failed, if it did.")
    started_at: Time | None = Field(default=None, description="When it began.")
    completed_at: Time | None = Field(default=None, description="When it ended.")
    division: Division = part(Division, "The division it is played in.")
    created_at: Time | None = required("When it was created.", None)


class RoundResult(Wire):
    """The result of a policy version in a round."""

    id: str = required("The result's id.")
    rank: int | None = required("Place, from 1.", None)
    score: float | None = required("Score given by the commissioner.", None)
    result_metadata: dict[str, Any] | None = Field(default=None, description="The commissioner's notes.")
    policy_version: PolicyVersion = part(PolicyVersion, "The policy version.")
    player: Player | None = Field(default=None, description="The player it belongs to.")
    created_at: Time | None = required("When it was recorded.", None)


class BlockSeed(Wire):
    """The seed of a block of a round, which `coworld_core.secret_seeds.verify_seed` checks."""

    block: int = required("Number of the block.", 0)
    commitment: str = required("SHA-256 of its key, published when the round began.")
    least: int = required("Smallest seed that the game accepts.", 0)
    most: int = required("Largest seed that the game accepts.", 0)
    key: str | None = Field(default=None, description="Its key in hexadecimal; null until the round is over.")
    seed: int | None = Field(default=None, description="Its seed; null until the round is over.")


class Pool(Wire):
    """A part of a round, on older servers."""

    id: str = required("`pool_<uuid>`.")


class RoundDetail(Round):
    """A round with its results."""

    results: tuple[RoundResult, ...] = Field(default=(), description="Results, best first.")
    seeds: tuple[BlockSeed, ...] | None = newer("Commitments to the seeds of its blocks; keys once it is over.")
    pools: tuple[Pool, ...] | None = newer("Its parts, on older servers.")


class RecentRound(Wire):
    """The result of a player in a recent round."""

    id: str = required("`round_<uuid>`.")
    round_number: int = required("Number within its division.", 0)
    status: RoundStatus = required("Its status.", RoundStatus(""))
    rank: int | None = Field(default=None, description="Place, from 1.")
    score: float | None = Field(default=None, description="Score.")
    started_at: Time | None = Field(default=None, description="When it began.")
    completed_at: Time | None = Field(default=None, description="When it ended.")


class LeaderboardEntry(Wire):
    """A player's standing in a division."""

    rank: int | None = Field(default=None, description="Place, from 1.")
    player_id: str = required("`ply_<uuid>`.")
    player_name: str | None = Field(default=None, description="Displayed name.")
    score: float | None = Field(
        default=None,
        description="Score that orders the division.",
        validation_alias=AliasChoices("score", "avg_score", "ewma_rank"),
        json_schema_extra={"x-required": True},
    )
    rounds_played: int = required("Number of rounds that count.", 0)
    recent_rounds: tuple[RecentRound, ...] | None = Field(
        default=None, description="The most recent rounds, if requested."
    )


class LeaderboardView(Wire):
    """One view of a division's standings."""

    key: str = required("Key of the view.")
    title: str | None = Field(default=None, description="Displayed title.")
    description: str | None = Field(default=None, description="What it shows.")
    axis_values: dict[str, Any] = Field(default_factory=dict, description="Its value on each axis.")
    columns: tuple[dict[str, Any], ...] = Field(default=(), description="Columns: key, label, value_type, sort.")
    rows: tuple[dict[str, Any], ...] = Field(default=(), description="Rows: subject_id, subject_name, values, ...")


class Leaderboard(Wire):
    """A division's standings in several views."""

    default_view_key: str | None = Field(default=None, description="The view to show first.")
    axes: tuple[dict[str, Any], ...] = Field(default=(), description="The axes along which the views differ.")
    views: tuple[LeaderboardView, ...] = Field(default=(), description="The views.")


class CompetitionEvent(Wire):
    """Something that happened in a league."""

    id: str = required("The event's id.")
    event_type: str = required("Kind of event.")
    audience: str = required("Who may see it.")
    user_id: str | None = Field(default=None, description="The user it concerns.")
    player: Player | None = Field(default=None, description="The player it concerns.")
    policy_version: PolicyVersion | None = Field(default=None, description="The policy version it concerns.")
    league: League | None = Field(default=None, description="The league it happened in.")
    division: Division | None = Field(default=None, description="The division it happened in.")
    round_id: str | None = Field(default=None, description="The round it happened in.")
    headline: str = required("Headline of a few words.")
    summary: str = required("Summary in a sentence or two.")
    payload: dict[str, Any] = Field(default_factory=dict, description="Details for programs.")
    created_at: Time | None = required("When it happened.", None)


class LeagueSeed(Wire):
    """A request for a platform to run a league for a Coworld."""

    id: str = required("`lseed_<uuid>`.")
    coworld_name: str = required("Name of the Coworld.")
    template: str = required("Kind of league.")
    overrides: dict[str, Any] | None = Field(default=None, description="Differences from the template.")
    enabled: bool = Field(default=True, description="Whether it is in force.")
    created_by: str | None = Field(default=None, description="Who created it.")
    created_at: Time | None = required("When it was created.", None)
    league_id: str | None = Field(default=None, description="The league, once it exists.")
    league_key: str | None = newer("Key that tells several leagues of one Coworld apart.")
    league_name: str | None = newer("Displayed name of the league.")
    default_variant_id: str | None = newer("The variant that is played.")


class LeagueSeedBody(Body):
    """Request a league."""

    coworld_name: Text = Field(min_length=1, description="Name of the Coworld.")
    template: Text = Field(default="commissioner_driven", description="Kind of league.")
    overrides: dict[str, Any] | None = Field(default=None, description="Differences from the template.")
    enabled: bool = Field(default=True, description="Whether it is in force.")
    league_key: Text | None = Field(default=None, description="Key that tells several leagues of one Coworld apart.")
    league_name: Text | None = Field(default=None, min_length=1, description="Displayed name of the league.")
    default_variant_id: Text | None = Field(default=None, description="The variant to play.")


class LeagueSeedChangeBody(Body):
    """Change a requested league."""

    enabled: bool | None = Field(default=None, description="Whether it is in force.")
    league_name: Text | None = Field(default=None, min_length=1, description="Name of the league.")
