"""Replays: finding them, showing them with the game that wrote them, and checking them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .recorded_page import ReplayPage as ReplayPage
    from .replay_file import Replay as Replay
    from .replay_file import find_replay as find_replay
    from .replay_file import last_of as last_of
    from .replay_file import resolve_replay as resolve_replay
    from .replay_session import ReplayOptions as ReplayOptions
    from .shown_replay import ShownReplay as ShownReplay
    from .shown_replay import open_replay as open_replay
    from .shown_replay import replay_page as replay_page
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".recorded_page": ("ReplayPage",),
            ".replay_file": ("Replay", "find_replay", "last_of", "resolve_replay"),
            ".replay_session": ("ReplayOptions",),
            ".shown_replay": ("ShownReplay", "open_replay", "replay_page"),
        },
    )
