"""Codes that attribute errors and exits; the exception classes and helpers are in ``coworld_core.errors``."""

from __future__ import annotations

from coworld_core.errors import leaves, unwrapped

__all__ = ["OWN_DOING", "PLATFORM_ENDS", "leaves", "unwrapped"]

OWN_DOING = ("program_missing", "no_command", "command_failed", "image_unusable", "port_taken")
"""Codes of a ``StartError`` that the unit to start caused itself."""
PLATFORM_ENDS = ("evicted", "lost", "timeout")
"""Ends of a unit (``Exit.reason``) that its platform caused."""
