"""Gates: a version of a bot is measured against its last accepted one and its opponents, and accepted or rejected.

Here is what is played, and what a folder of bots keeps of it; `coworld_core.evaluation` decides. Everything is measured
by `compare` and `scrimmage`, and nothing here plays an episode itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .bots_page import folder_page as folder_page
    from .gate_entry import Gate as Gate
    from .gate_entry import accept_player as accept_player
    from .gate_entry import begin_gate as begin_gate
    from .gate_folder import GateFolder as GateFolder
    from .gate_run import GateOutcome as GateOutcome
    from .gate_run import gate_player as gate_player
    from .gate_run import play_gate as play_gate
    from .gate_watch import watch_player as watch_player
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".bots_page": ("folder_page",),
            ".gate_entry": ("Gate", "accept_player", "begin_gate"),
            ".gate_folder": ("GateFolder",),
            ".gate_run": ("GateOutcome", "gate_player", "play_gate"),
            ".gate_watch": ("watch_player",),
        },
    )
