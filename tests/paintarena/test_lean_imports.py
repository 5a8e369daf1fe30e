"""What Paint Arena imports, which decides how small its image is and how soon it starts."""

from __future__ import annotations

import json
import subprocess
import sys

from support.paintarena_image import LIBRARIES

LOADED = """
import json, sys
before = set(sys.modules)
import paintarena.hosting, paintarena.server, paintarena.players.frontier, paintarena.players.sweep
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def test_game_and_players_import_what_their_image_has() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    # Python's own have an underscore if they are not among the standard names
    loaded = {name for name in json.loads(done.stdout) if name not in sys.stdlib_module_names and name[0] != "_"}
    assert loaded - {"paintarena", *LIBRARIES} == set()
