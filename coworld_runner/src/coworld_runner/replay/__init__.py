"""Replays: finding them, showing them with the game that wrote them, and checking them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .replay_file import find_replay as find_replay
    from .replay_file import last_of as last_of
    from .replay_file import resolve_replay as resolve_replay
    from .replay_session import ReplayOptions as ReplayOptions
    from .shown_replay import ShownReplay as ShownReplay
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".replay_file": ("find_replay", "last_of", "resolve_replay"),
            ".replay_session": ("ReplayOptions",),
            ".shown_replay": ("ShownReplay",),
        },
    )
