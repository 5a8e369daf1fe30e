"""The zip of a package's directory, for whoever wants to play it elsewhere."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

from coworld_core.files import ZipWriter
from coworld_core.manifest import MANIFEST_NAME

from ..errors import conflict
from ..store.columns import JsonObject

__all__ = ["zip_package"]

_LIMIT = 64 << 20
"""Most bytes of files in a package."""
_LEFT = frozenset({MANIFEST_NAME, "__pycache__", "dist", "node_modules", "results", "wheels"})
"""Names of files and directories that builds and runs leave in a package."""


def zip_package(directory: Path, manifest: JsonObject) -> bytes:
    """Zip a package's files, without hidden ones and those that builds and runs leave. Blocks.

    Args:
        directory: The package.
        manifest: The manifest to put in place of a built one.

    Raises:
        Refusal: 409 if the files are larger than 64 MiB in total.
    """
    packed, room = io.BytesIO(), _LIMIT
    with ZipWriter(packed.write) as archive:
        archive.add(MANIFEST_NAME, (json.dumps(manifest, indent=2) + "\n").encode())
        for path in _files(directory):
            room -= path.stat().st_size
            if room < 0:
                raise conflict("The package has more than 64 MiB of files.", code="package_too_large")
            archive.add(path.relative_to(directory).as_posix(), path.read_bytes())
    return packed.getvalue()


def _files(directory: Path) -> Iterator[Path]:
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if name not in _LEFT and not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name not in _LEFT and (name == ".dockerignore" or not name.startswith(".")) and not path.is_symlink():
                yield path
