"""Runs of Paint Arena, which is not of the kit, with what its seats sent; also with hidden randomness."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from coworld_runner import EpisodeOptions, run_episode

__all__ = ["PAINT", "lucky_game", "painted"]

PAINT = Path(__file__).parents[2] / "examples" / "paintarena"
_LUCKY = """import os
from paintarena import rules, server

start = rules.Board.__init__

def lucky(board, width, height, *, slots):
    start(board, width, height, slots=slots)
    board._positions = [(os.urandom(1)[0] % width, os.urandom(1)[0] % height) for _ in range(slots)]

rules.Board.__init__ = lucky
if __name__ == "__main__":
    server.main()
"""


async def painted(place: Path, *, record: Literal["off", "frames"] = "frames", game: Path = PAINT) -> Path:
    """Play eight ticks, slow enough that a message is never late."""
    options, short = EpisodeOptions(record=record), {"max_ticks": 8, "tick_rate": 5}
    await run_episode(game, backend="process", workspace=place, options=options, config=short)
    return place


def lucky_game(directory: Path) -> Path:
    """A copy of the game that draws where its players begin from the system's randomness."""
    game = Path(shutil.copytree(PAINT, directory, ignore=shutil.ignore_patterns("results", "wheels")))
    (game / "lucky.py").write_text(_LUCKY)
    template = game / "coworld_manifest_template.json"
    template.write_text(template.read_text().replace('"paintarena.server"', '"lucky"', 1))
    return game
