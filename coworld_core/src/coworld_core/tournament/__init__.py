"""Tournaments: the events of a log, pairings, and standings as pure functions of both.

Nothing here plays an episode or writes a file (``coworld_runner.tournament`` does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .log import LogEvent as LogEvent
    from .log import read_log as read_log
    from .pairing import CarryingRule as CarryingRule
    from .pairing import Field as Field
    from .pairing import PairingRule as PairingRule
    from .pairing import PastRounds as PastRounds
    from .pairing import PlayedMatch as PlayedMatch
    from .pairing import TournamentMatch as TournamentMatch
    from .standings import Tournament as Tournament
    from .standings import TournamentPlan as TournamentPlan
    from .standings import TournamentReport as TournamentReport
    from .standings import TournamentState as TournamentState
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".log": ("LogEvent", "read_log"),
            ".pairing": ("CarryingRule", "Field", "PairingRule", "PastRounds", "PlayedMatch", "TournamentMatch"),
            ".standings": ("Tournament", "TournamentPlan", "TournamentReport", "TournamentState"),
        },
    )
