"""Nim with an image, and a run of checkpoints that were written, not trained: one loses to all others."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from coworld_runner import run_episode
from coworld_runner.backend import Backend
from coworld_runner.build import build_coworld

from .images import BASE_IMAGE, drop_image

__all__ = ["EXAMPLES", "built_nim", "play_checkpoints", "write_run"]

EXAMPLES = Path(__file__).parents[2] / "examples"


def write_run(directory: Path) -> Path:
    """Write a run of the example that learns: step-0 never leaves a multiple of four sticks, all others always do."""
    lefts = range(1, 22)
    for name, worth in (("step-0", -9.0), ("step-500", 9.0), ("step-1000", 9.0)):
        rows = [[worth if left % 4 == take else 0.0 for left in lefts] for take in (1, 2, 3)]
        weights = {
            "inputs": {f"/left={left}": 1.0 for left in lefts},
            "actions": [{"take": take} for take in (1, 2, 3)],
            "layers": [[rows, [0.0, 0.0, 0.0]]],
        }
        checkpoint = directory / name
        checkpoint.mkdir(parents=True)
        shutil.copy(EXAMPLES / "learner" / "main.py", checkpoint)
        (checkpoint / "weights.json").write_text(json.dumps(weights))
    return directory


@asynccontextmanager
async def built_nim(directory: Path) -> AsyncGenerator[Path]:
    """Build Nim's image from wheels, without an index; yields the package, and removes the image."""
    game = shutil.copytree(EXAMPLES / "nim", directory / "nim")
    shutil.copytree(EXAMPLES / "paintarena" / "wheels", game / "wheels")
    compose = game / "compose.yaml"
    # No other run of the tests has an image of this name
    name = f"coworld-nim-{uuid4().hex[:12]}"
    compose.write_text(compose.read_text().replace("image: nim:latest", f"image: {name}:latest"))
    built = await build_coworld(game, version="1.0.0", build_args={"BASE_IMAGE": BASE_IMAGE, "PIP_NO_INDEX": "1"})
    try:
        yield game
    finally:
        for image in (f"{name}:latest", *(image.reference for image in built.images.values())):
            drop_image(image)


async def play_checkpoints(backend: Backend | str, game: Path, directory: Path) -> None:
    """Play a run by each of its names, and see that each checkpoint has played by its own weights."""
    run = write_run(directory / "run")
    for newest, players in enumerate(([run, f"{run}@step-0"], [f"{run}@step-0", f"{run}@latest"])):
        record = await run_episode(game, players=players, backend=backend, workspace=directory / f"played-{newest}")
        assert record.faults == ()
        assert [slot.name for slot in record.slots][newest] == "run@step-1000"
        assert record.scores is not None
        assert record.scores[newest] == 1.0
    record = await run_episode(
        game, players=[f"{run}@step-500", f"{run}@step-0"], backend=backend, workspace=directory / "older"
    )
    assert ([slot.name for slot in record.slots], record.scores) == (["run@step-500", "run@step-0"], (1.0, 0.0))
