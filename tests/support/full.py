"""How much of what is never exhausted a run tries: random moments, random requests, many of the same."""

from __future__ import annotations

import os

__all__ = ["FULL"]

FULL = os.environ.get("FULL") == "1"
"""Whether this run has the time for the larger share."""
