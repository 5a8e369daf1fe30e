"""What other command lines share with `coworld`: commands whose errors are reported alike, values, output, tables."""

from __future__ import annotations

from .options.values import HostAndPort
from .output import Output
from .program import CommandLine
from .render.text import table

__all__ = ["CommandLine", "HostAndPort", "Output", "table"]
