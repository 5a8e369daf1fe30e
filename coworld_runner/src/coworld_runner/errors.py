"""What errors and ends come to; the tree itself, and helpers around it, are in ``coworld_core.errors``."""

from __future__ import annotations

from coworld_core.errors import leaves, unwrapped

__all__ = ["OWN_DOING", "PLATFORM_ENDS", "leaves", "unwrapped"]

OWN_DOING = ("program_missing", "no_command", "command_failed", "image_unusable", "port_taken")
"""Codes of a ``StartError`` that is due to what was to be started."""
PLATFORM_ENDS = ("evicted", "lost", "deadline")
"""Ends of a unit (``Exit.reason``) that are its host's doing."""
