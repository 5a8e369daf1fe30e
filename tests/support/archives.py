"""Tar archives."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

__all__ = ["tar_of"]


def tar_of(files: Mapping[str, bytes | str]) -> bytes:
    """An archive of files by name; a text is a symbolic link's target."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data
            else:
                entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data) if isinstance(data, bytes) else None)
    return content.getvalue()
