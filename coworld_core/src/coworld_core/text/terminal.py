"""Make untrusted text safe to print on a terminal, and to write."""

from __future__ import annotations

import re

__all__ = ["ESCAPES", "pasteable", "strip_controls", "writable"]

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

_BYTES = re.compile("[\udc80-\udcff]+")


def strip_controls(text: str) -> str:
    r"""Remove escape sequences and all control characters but `\n` and `\t` from a text.

    Carriage returns become newlines, so that a progress bar stays readable.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", ESCAPES.sub("", text))


def writable(text: str) -> str:
    """Text that can be written as UTF-8, as JSON must be.

    Python keeps those bytes of a file's name that the locale cannot read as halves of surrogate pairs. Here they are
    read as UTF-8, as far as they are that, and become U+FFFD otherwise. Any other half becomes a question mark.
    """
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()


def pasteable(text: str, *, quoted: bool = False) -> str:
    r"""Text whose paths can be pasted into a shell: bytes of names that the locale cannot read as `$'\351'`.

    Args:
        text: The text, with such bytes as Python keeps them in a path.
        quoted: Whether they are between single quotes.
    """

    def octal(found: re.Match[str]) -> str:
        word = "".join(f"\\{ord(byte) - 0xDC00:03o}" for byte in found[0])
        return f"'$'{word}''" if quoted else f"$'{word}'"

    return _BYTES.sub(octal, text)
