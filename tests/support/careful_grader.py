"""A grader with nothing but Python: it grades, and tells what it could do besides."""

from __future__ import annotations

import json
import os
import socket
import sys
import zipfile
from urllib.parse import unquote, urlsplit


def path_of(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def can(what: object, *arguments: object) -> bool:
    try:
        what(*arguments)  # type: ignore[operator]
    except OSError:
        return False
    return True


bundle, grade = path_of(os.environ["COGAME_EPISODE_BUNDLE_URI"]), path_of(os.environ["COGAME_GRADE_URI"])
with zipfile.ZipFile(bundle) as archive:
    results = json.loads(archive.read("results.json"))
told = {
    "score": results["ticks"],
    "changes_its_input": can(open, bundle, "a"),
    "adds_an_input": can(open, f"{os.path.dirname(bundle)}/more", "w"),
    "reads_the_workspace": os.path.exists(os.environ.get("SECRET_PLACE", "/nowhere")),
    "reaches_the_network": can(lambda: socket.create_connection(("1.1.1.1", 443), timeout=2)),
    "apart": os.path.dirname(bundle) != os.path.dirname(grade),
}
for text in ("a first try", json.dumps(told)):
    with open(grade, "w") as file:
        file.write(text)
print(told, file=sys.stderr)
