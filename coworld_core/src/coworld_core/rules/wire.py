"""The words between a game of the kit and who sits in its seats; the table is in every manifest that the kit makes."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_FRAME", "PROTOCOL"]

PROTOCOL: Final = "coworld.seat/1"
"""The protocol, as `hello` names it."""

MAX_FRAME: Final = 1024 * 1024
"""Bytes of the longest frame that a player may send."""
