"""A cache of the hashes of images."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from coworld_core.files.atomic import write_whole

__all__ = ["HashCache"]


class HashCache:
    """Client hashes by the engine's image ids, in the file that the published tools use.

    A file that cannot be read counts as empty, and one that cannot be written is ignored.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> HashCache:
        """The user's own cache: `coworld/image_client_hashes.json` below `XDG_CACHE_HOME`, else `~/.cache`."""
        environ = os.environ if environ is None else environ
        root = environ.get("XDG_CACHE_HOME")
        home = environ.get("HOME") or "~"
        base = Path(root) if root else Path(home).expanduser() / ".cache"
        return cls(base / "coworld" / "image_client_hashes.json")

    def get(self, image_id: str) -> str | None:
        """The hash of an image, if it is known."""
        value = self._load().get(image_id)
        return value if isinstance(value, str) and value.startswith("sha256:") else None

    def put(self, image_id: str, value: str) -> None:
        """Remember the hash of an image."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({**self._load(), image_id: value}, indent=2, sort_keys=True) + "\n"
            write_whole(self.path, text.encode())

    def _load(self) -> dict[str, object]:
        try:
            value: object = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("dict[str, object]", value) if isinstance(value, dict) else {}
