"""Whether this run includes the larger number of random or repeated cases."""

from __future__ import annotations

import os

__all__ = ["FULL"]

FULL = os.environ.get("FULL") == "1"
"""Whether to try the larger number of cases."""
