"""A grader with nothing but Python: it grades, and tells what it could do besides."""

from __future__ import annotations

import json
import os
import socket
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def can(what: Callable[[], object]) -> bool:
    try:
        what()
    except OSError:
        return False
    return True


bundle, grade = path_of(os.environ["COGAME_EPISODE_BUNDLE_URI"]), path_of(os.environ["COGAME_GRADE_URI"])
with zipfile.ZipFile(bundle) as archive:
    results = json.loads(archive.read("results.json"))
told = {
    "score": results["ticks"],
    "changes_its_input": can(lambda: bundle.write_text("")),
    "adds_an_input": can(lambda: (bundle.parent / "more").write_text("")),
    "reads_the_workspace": Path(os.environ["SECRET_PLACE"]).exists(),
    "reaches_the_network": can(lambda: socket.create_connection(("1.1.1.1", 443), timeout=2)),
    "apart": bundle.parent != grade.parent,
}
for text in ("a first try", json.dumps(told)):
    grade.write_text(text)
print(told, file=sys.stderr)
