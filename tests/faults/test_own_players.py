"""A player of one's own, really played: a file everywhere, a directory with a Dockerfile where that can be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.arena import Arena
from support.images import docker_client, drop_image
from support.misfit_kit import MARK, PACKAGE, with_seats

from coworld_core.manifest.models import Runnable
from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.package.own_players.own_player import PLAYER_LABEL, OwnPlayer
from coworld_runner.package.plan import EpisodePlan, Seat

pytestmark = pytest.mark.slow

# It runs where the package's own player would, beside what that has
FILE = 'import os\n\nos.execvp("python3", ["python3", "player.py", "well"])\n'
BACKENDS = ["process", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.guarded("docker")])]


def plan_of(arena: Arena, *players: OwnPlayer) -> EpisodePlan:
    """A plan in which they sit."""
    plan = arena.plan()
    env = {MARK: arena.mark}
    return with_seats(
        plan,
        [
            Seat(name=own.name, own=own, runnable=Runnable(type="player", image=arena.image, run=own.shown(), env=env))
            for own in players
        ],
    )


async def play_a_file(arena: Arena, directory: Path) -> None:
    """Play a file that is another one by then, and see that records say which it was."""
    path = directory / "bot.py"
    path.write_text(FILE)
    bot = read_own_player(str(path))
    path.write_text("raise SystemExit('what was read is what plays')\n")
    found = await arena.play(plan_of(arena, bot, bot))
    assert found.record.ok, found.record.faults
    assert [slot.image.image for slot in found.record.slots] == [bot.reference] * 2
    assert [slot.image.digest for slot in found.record.slots] == [bot.digest] * 2


@pytest.mark.parametrize("backend_name", BACKENDS)
async def test_a_file_plays_beside_the_package_s_own_image(arena: Arena, tmp_path: Path) -> None:
    await play_a_file(arena, tmp_path)


@pytest.mark.parametrize("backend_name", BACKENDS)
async def test_a_directory_with_a_dockerfile(arena: Arena, tmp_path: Path) -> None:
    base = arena.image if arena.name == "docker" else "anything"
    directory = tmp_path / "made"
    directory.mkdir()
    shutil.copy(PACKAGE / "player.py", directory)
    # No other run of the tests has the same
    recipe = f'FROM {base}\nLABEL mark={arena.mark}\nWORKDIR /made\nCOPY . .\nCMD ["python3", "player.py", "well"]\n'
    (directory / "Dockerfile").write_text(recipe)
    made = read_own_player(str(directory))
    try:
        found = await arena.play(plan_of(arena, made, made))
        assert found.record.ok, found.record.faults
        assert found.record.slots[0].image.digest == made.digest
        if arena.name == "docker":
            client = docker_client()
            try:
                (image,) = client.images.list(filters={"label": f"{PLAYER_LABEL}={made.digest}"})
                assert image.tags == [made.image]
            finally:
                client.close()
    finally:
        if arena.name == "docker":
            drop_image(made.image)
