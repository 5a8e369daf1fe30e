"""The protocol between a game made with the kit and its players. Manifests made with the kit describe its messages."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_FRAME", "PROTOCOL"]

PROTOCOL: Final = "coworld.seat/1"
"""Name of the protocol in `hello`."""

MAX_FRAME: Final = 1024 * 1024
"""Maximum size in bytes of a frame from a player."""
