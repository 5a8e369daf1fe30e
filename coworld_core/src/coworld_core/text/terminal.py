"""Make untrusted text safe to print on a terminal."""

from __future__ import annotations

import re

__all__ = ["ESCAPES", "strip_controls"]

ESCAPES = re.compile(
    r"""
    (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?                          # CSI: colours, cursor movement
    | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])                  # OSC, DCS, SOS, PM, APC: titles, links, ...
      [^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?                  #   up to their end, never past the line
    | \x1b[ -/]*[0-~]?                                         # any other escape
    """,
    re.VERBOSE,
)
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except newline and tab, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # Marks that reorder the text around them
)


def strip_controls(text: str) -> str:
    r"""Remove escape sequences and all control characters but `\n` and `\t` from a text.

    Carriage returns become newlines, so that a progress bar stays readable.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", ESCAPES.sub("", text))
