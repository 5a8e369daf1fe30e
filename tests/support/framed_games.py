"""Runs of Paint Arena, which is not of the kit, with what its seats sent; also with hidden randomness."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from coworld_runner import EpisodeOptions, run_episode
from coworld_runner.episode import ModelAccess

__all__ = ["PAINT", "asking_game", "lucky_game", "painted"]

PAINT = Path(__file__).parents[2] / "examples" / "paintarena"
_BEGINS = """import json, os, urllib.request
from paintarena import rules, server

start = rules.Board.__init__

def numbers(slots):
{numbers}

def elsewhere(board, width, height, *, slots):
    start(board, width, height, slots=slots)
    board._positions = [(one % width, one // width % height) for one in numbers(slots)]

rules.Board.__init__ = elsewhere
if __name__ == "__main__":
    server.main()
"""
_LUCKY = "    return os.urandom(slots)"
_ASKING = """    question = {"model": "tiny", "messages": [{"role": "user", "content": f"{slots} numbers"}]}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(address, json.dumps(question).encode())) as answer:
        return [int(word) for word in json.load(answer)["choices"][0]["message"]["content"].split()]"""


async def painted(
    place: Path,
    *,
    record: Literal["off", "frames"] = "frames",
    game: Path = PAINT,
    models: ModelAccess | None = None,
) -> Path:
    """Play eight ticks, slow enough that a message is never late."""
    options, short = EpisodeOptions(record=record, models=models), {"max_ticks": 8, "tick_rate": 5}
    await run_episode(game, backend="process", workspace=place, options=options, config=short)
    return place


def lucky_game(directory: Path) -> Path:
    """A copy of the game that draws where its players begin from the system's randomness."""
    return _begun_elsewhere(directory, _LUCKY)


def asking_game(directory: Path) -> Path:
    """A copy of the game that asks a model where its players begin."""
    return _begun_elsewhere(directory, _ASKING)


def _begun_elsewhere(directory: Path, numbers: str) -> Path:
    game = Path(shutil.copytree(PAINT, directory, ignore=shutil.ignore_patterns("results", "wheels")))
    (game / "elsewhere.py").write_text(_BEGINS.replace("{numbers}", numbers))
    template = game / "coworld_manifest_template.json"
    template.write_text(template.read_text().replace('"paintarena.server"', '"elsewhere"', 1))
    return game
