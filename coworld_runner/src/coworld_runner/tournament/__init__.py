"""Tournaments in a folder: ``tournament.toml`` has the settings, ``events.ndjson`` is the log of what has happened.

The evidence of each episode is stored under ``episodes``. ``coworld_core.tournament`` computes the standings from the
log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .entering import add_entrant as add_entrant
    from .entering import create_tournament as create_tournament
    from .entering import withdraw_entrant as withdraw_entrant
    from .export import export_tournament as export_tournament
    from .folder import read_tournament as read_tournament
    from .pairings import find_pairing as find_pairing
    from .pairings import pairing_names as pairing_names
    from .playing import play_tournament as play_tournament
    from .serving import open_site as open_site
    from .settings import TournamentSettings as TournamentSettings
    from .settings import read_settings as read_settings
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".entering": ("add_entrant", "create_tournament", "withdraw_entrant"),
            ".export": ("export_tournament",),
            ".folder": ("read_tournament",),
            ".pairings": ("find_pairing", "pairing_names"),
            ".playing": ("play_tournament",),
            ".serving": ("open_site",),
            ".settings": ("TournamentSettings", "read_settings"),
        },
    )
