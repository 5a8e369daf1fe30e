"""An operator's settings of a league, as stored in `League.commissioner_config`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from coworld_core.commissioner import HookName

from ..store.columns import JsonObject
from .seat_files import LEAST_LOG_BYTES, SeatLimits

__all__ = ["LeagueSettings", "describe_division"]


class LeagueSettings(BaseModel):
    """How a league plays. Unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    every_seconds: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """The least number of seconds between the starts of two rounds."""
    pairing: str = "free-play"
    """The pairing: a name in the entry point group `coworld.pairings`."""
    rounds: int | None = Field(default=None, ge=1)
    """The number of rounds in a season; None: until the pairing ends, or an operator closes the season."""
    blocks: int = Field(default=1, ge=1, le=100)
    """How many blocks each match has; in a block, each entrant sits in every seat."""
    moves: int = Field(default=0, ge=0)
    """How many change places between neighbouring divisions at the end of a season."""
    size: int = Field(default=8, ge=1)
    """The number of members of each division but the lowest, above which members must leave."""
    played_percent: int = Field(default=50, ge=0, le=100)
    """How many of a hundred rounds of its division in a season an entry must have played to get a place in it."""
    entries_per_user: int | None = Field(default=1, ge=1)
    """The number of champions that one account may have in the league; None: one for each of its players."""
    opens_at: AwareDatetime | None = None
    """When submissions open; None: they are open from the beginning."""
    closes_at: AwareDatetime | None = None
    """When submissions close; None: they stay open."""
    final_season: int | None = Field(default=None, ge=1)
    """The season that is played by the champions of its beginning, and is the league's last; None: no season is."""
    check: bool = False
    """Whether a submission plays an episode against itself before it competes."""
    faults: int | None = Field(default=None, ge=1)
    """The number of consecutive episodes with its own fault after which a policy is disqualified; None: never."""
    unplayable: int | None = Field(default=3, ge=1)
    """The number of consecutive episodes in which the platform could not play a policy that bench it; None: never."""
    grade: bool = False
    """Whether the Coworld's graders grade each completed episode of its rounds."""
    report: bool = False
    """Whether the Coworld's reporters report on each completed episode of its rounds."""
    log_bytes: int = Field(default=SeatLimits.log_bytes, ge=LEAST_LOG_BYTES)
    """How many bytes of a player's log are kept of each episode: the last ones."""
    artifact_bytes: int = Field(default=SeatLimits.artifact_bytes, ge=0)
    """The largest artifact of a seat that is kept of each episode."""

    commissioner_runnable_id: str | None = None
    """The commissioner in the Coworld's manifest that decides the rounds; None: the pairing does."""
    hooks: tuple[HookName, ...] = ()
    """The optional questions to ask the commissioner. A commissioner without one of these hooks never answers it."""
    lifetime_seconds: float = Field(default=3600.0, gt=0)
    """How long a commissioner's round may take, including its episodes."""

    @property
    def seat_limits(self) -> SeatLimits:
        """What one seat of an episode may leave."""
        return SeatLimits(log_bytes=self.log_bytes, artifact_bytes=self.artifact_bytes)

    @property
    def entries_in_words(self) -> str:
        """The number of entries of one account, for people."""
        return "any number" if self.entries_per_user is None else str(self.entries_per_user)

    def is_frozen(self, season: int) -> bool:
        """Whether champions no longer change in a season of this number."""
        return self.final_season is not None and season >= self.final_season

    def is_over(self, season: int) -> bool:
        """Whether a season of this number comes after the last one."""
        return self.final_season is not None and season > self.final_season

    def why_closed(self, season: int, moment: dt.datetime) -> str | None:
        """Why a league takes no submissions in a season, at a moment, for people; None if it does."""
        if self.is_over(season):
            return "The league is over."
        if self.is_frozen(season):
            return "This is the final season: the champions of its beginning play it to the end."
        if self.opens_at is not None and moment < self.opens_at:
            return f"Submissions open on {_shown(self.opens_at)}."
        if self.closes_at is not None and moment >= self.closes_at:
            return f"Submissions closed on {_shown(self.closes_at)}."
        return None

    def submissions_in_words(self, season: int, moment: dt.datetime) -> str | None:
        """Whether and how long a league takes submissions, for people; None if nothing limits them."""
        if (why := self.why_closed(season, moment)) is not None:
            return why
        closes = [f"Submissions close on {_shown(self.closes_at)}."] if self.closes_at is not None else []
        final = [f"Season {self.final_season} is the final one."] if self.final_season is not None else []
        return " ".join([*closes, *final]) or None

    @property
    def places_in_words(self) -> str:
        """Who gets a place, for people."""
        played = f" and have played {self.played_percent} % of its rounds" if self.played_percent else ""
        return f"Who withdraws has no place. A season's places are for those who are in the league at its end{played}."

    @property
    def roles_in_words(self) -> str:
        """What is done with each completed episode of a round, for people; empty if nothing."""
        return " and ".join([*(["graded"] if self.grade else []), *(["reported on"] if self.report else [])])

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> LeagueSettings:
        """The terms of a league."""
        return cls.model_validate(dict(config or {}))


def _shown(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d at %H:%M} UTC"


def describe_division(terms: LeagueSettings, *, plays: bool) -> JsonObject:
    """Describe in words how a division is played.

    Args:
        terms: The league's terms.
        plays: Whether the league has rounds of its own.
    """
    if not plays:
        return {
            "round_schedule": "None: this league plays no rounds of its own.",
            "leaderboard_rules": "The mean score of all finished episodes of the division's rounds.",
        }
    faults = f" A policy is disqualified if at fault in {terms.faults} episodes in a row." if terms.faults else ""
    places = f" {terms.places_in_words}"
    if terms.commissioner_runnable_id is not None:
        return {
            "round_schedule": f"The commissioner {terms.commissioner_runnable_id} is asked which rounds are due "
            f"every {terms.every_seconds:g} s, or when the previous round is over.",
            "round_structure": "The commissioner decides.",
            "leaderboard_rules": f"The places that the commissioner gives after each round.{places}{faults}",
        }
    season = f" A season has {terms.rounds} rounds." if terms.rounds else ""
    return {
        "round_schedule": f"A round begins every {terms.every_seconds:g} s, or when the previous one is over.{season}",
        "round_structure": f"Pairing: {terms.pairing}. Each entrant of a match plays in every seat in turn.",
        "leaderboard_rules": "The pairing's own order, else by rating (Bradley-Terry; 400 points are ten wins to one "
        f"loss), recomputed after each round from all games of the season.{places}{faults}",
    }
