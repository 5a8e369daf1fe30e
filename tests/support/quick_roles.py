"""The quick game with graders, reporters and diagnosers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from .observatory_kit import QUICK, Subject

__all__ = ["with_roles"]


def with_roles(directory: Path, *roles: tuple[str, str, str]) -> Subject:
    """A copy of the quick game that declares roles.

    Args:
        directory: Where to put it.
        roles: For each, its section, its id and what it does (see `quick/roles.py`).
    """
    shutil.copytree(QUICK.directory, directory)
    template = directory / "coworld_manifest_template.json"
    manifest = json.loads(template.read_text())
    for section, id, behaviour in roles:
        entry = {
            "id": id,
            "name": id.title(),
            "type": section,
            "description": f"One that {behaviour}.",
            "image": QUICK.placeholder,
            "run": ["python3", "-S", "-E", "roles.py", section, behaviour],
        }
        manifest.setdefault(section, []).append(entry)
    template.write_text(json.dumps(manifest))
    return replace(QUICK, directory=directory)
