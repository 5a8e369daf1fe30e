"""Tournaments: the events of a log, pairings, and standings as pure functions of both.

Nothing here plays an episode or writes a file (`coworld_runner.evaluation.tournament` does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .pairing_rule import CarryingRule as CarryingRule
    from .pairing_rule import Field as Field
    from .pairing_rule import PairingRule as PairingRule
    from .pairing_rule import PastRounds as PastRounds
    from .pairing_rule import PlayedMatch as PlayedMatch
    from .pairing_rule import TournamentMatch as TournamentMatch
    from .standings import Tournament as Tournament
    from .standings import TournamentPlan as TournamentPlan
    from .standings import TournamentReport as TournamentReport
    from .standings import TournamentState as TournamentState
    from .tournament_log import LogEvent as LogEvent
    from .tournament_log import read_log as read_log
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".tournament_log": ("LogEvent", "read_log"),
            ".pairing_rule": ("CarryingRule", "Field", "PairingRule", "PastRounds", "PlayedMatch", "TournamentMatch"),
            ".standings": ("Tournament", "TournamentPlan", "TournamentReport", "TournamentState"),
        },
    )
