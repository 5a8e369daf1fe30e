"""Reading zips of strangers: what may go wrong in the library that does it."""

from __future__ import annotations

import zipfile
import zlib

__all__ = ["BROKEN_ZIP"]

BROKEN_ZIP: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    # packed or encrypted in a way that it does not know, without a password, with a name that is no text
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    ValueError,
)
"""What the zip library may raise for a file that somebody tampered with."""
