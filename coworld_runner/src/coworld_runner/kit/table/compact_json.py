"""JSON text without spaces, apart: a game that only writes events needs nothing else."""

from __future__ import annotations

from typing import Final

from coworld_core.rules.plain_values import json_writer

__all__ = ["compact"]

compact: Final = json_writer()
"""Encodes a message as JSON text."""
