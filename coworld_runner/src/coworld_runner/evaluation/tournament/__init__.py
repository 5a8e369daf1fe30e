"""Tournaments in a folder: `tournament.toml` has the settings, `events.ndjson` is the log of what has happened.

The evidence of each episode is stored under `episodes`. `coworld_core.tournament` computes the standings from the
log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .pairing_plugins import find_pairing as find_pairing
    from .pairing_plugins import pairing_names as pairing_names
    from .site_server import open_site as open_site
    from .static_site import export_tournament as export_tournament
    from .tournament_entry import add_entrant as add_entrant
    from .tournament_entry import create_tournament as create_tournament
    from .tournament_entry import withdraw_entrant as withdraw_entrant
    from .tournament_folder import read_tournament as read_tournament
    from .tournament_run import play_tournament as play_tournament
    from .tournament_settings import TournamentSettings as TournamentSettings
    from .tournament_settings import read_settings as read_settings
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".tournament_entry": ("add_entrant", "create_tournament", "withdraw_entrant"),
            ".static_site": ("export_tournament",),
            ".tournament_folder": ("read_tournament",),
            ".pairing_plugins": ("find_pairing", "pairing_names"),
            ".tournament_run": ("play_tournament",),
            ".site_server": ("open_site",),
            ".tournament_settings": ("TournamentSettings", "read_settings"),
        },
    )
