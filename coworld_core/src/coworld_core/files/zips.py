"""The errors that reading an untrusted zip may raise."""

from __future__ import annotations

import zipfile
import zlib

__all__ = ["BROKEN_ZIP"]

BROKEN_ZIP: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    # An unknown compression or encryption, a missing password, a name that cannot be decoded
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    ValueError,
)
"""Exceptions that the `zipfile` module may raise for a damaged or malicious file."""
