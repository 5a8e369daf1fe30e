"""What other command lines share with ``coworld``: commands whose errors are reported alike, output, and tables."""

from __future__ import annotations

from .output import Output
from .program import CommandLine
from .render.text import table

__all__ = ["CommandLine", "Output", "table"]
