"""Built-in players, which a runner describes in a JSON file, and their loading."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from coworld_core.errors import UsageError

__all__ = ["load_controller"]


def load_controller(path: str) -> Any:
    """Load the built-in player that a JSON file describes.

    Raises:
        UsageError: The file describes none.
    """
    try:
        said: dict[str, Any] = json.loads(Path(path).read_bytes())
        kind = said.pop("controller")
    except (OSError, ValueError, KeyError, AttributeError):
        raise UsageError(f"{path} does not describe a player.", code="no_player") from None
    if kind == "recording":
        from .recorded_player import RecordedPlayer

        actions, words = (
            {
                int(seat): {int(tick): one for tick, one in by_tick.items()}
                for seat, by_tick in said.get(name, {}).items()
            }
            for name in ("actions", "words")
        )
        return RecordedPlayer(actions, source=said["source"], slot=said["slot"], words=words)
    if kind == "frames":
        from .recorded_frames import recorded_frames

        return recorded_frames(said["frames"], source=said["source"], slot=said["slot"])
    if kind == "fork":
        from .forked_player import forked_player
        from .seat_session import seat_url

        place = str(Path(path).parent)
        return forked_player(
            said["frames"],
            takes_over=said["takes_over"],
            command=[word.replace("{}", place) for word in said["command"]],
            directory=Path(said["directory"] or place),
            url=seat_url(),
        )
    if kind == "llm":
        from .llm import LlmPlayer

        return LlmPlayer(
            **said,
            base_url=os.environ.get("OPENAI_BASE_URL"),
            key=os.environ.get("OPENAI_API_KEY"),
            artifact=os.environ.get("COWORLD_PLAYER_ARTIFACT_UPLOAD_URL"),
        )
    raise UsageError(f"{path} describes a player of an unknown kind, {kind!r}.", code="no_player")
