"""A player of one's own, really played: a file everywhere, a directory with a Dockerfile where that can be."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from support.arena import Arena
from support.images import docker_client, drop_image
from support.misfit_kit import MARK, PACKAGE, with_seats

from coworld_core.episode.record import read_rows
from coworld_core.manifest.models import Runnable
from coworld_runner.evaluation import EvaluationRules, compare
from coworld_runner.package.own_players.named_player import read_own_player
from coworld_runner.package.own_players.own_player import PLAYER_LABEL, OwnPlayer
from coworld_runner.package.plan import EpisodePlan, Seat

pytestmark = pytest.mark.slow

# It runs where the package's own player would, beside what that has
FILE = 'import os\n\nos.execvp("python3", ["python3", "player.py", "well"])\n'
BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.docker)]


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


@pytest.mark.parametrize("backend_name", BACKENDS)
async def test_a_command_that_cannot_be_run_is_said_to_be_whose_it_is(arena: Arena) -> None:
    plan = arena.plan()
    bundled = plan.manifest.player[0].model_copy(update={"run": ("no-such-player",)})
    manifest = plan.manifest.model_copy(update={"player": (bundled,)})
    commands = {"no-such-player": f"the package's player '{bundled.id}'", "no-such-bot": "was given for the image"}
    for program, whose in commands.items():
        seat = Seat(name="x", runnable=Runnable(type="player", image=arena.image, run=(program,)))
        found = await arena.play(dataclasses.replace(with_seats(plan, [seat, seat]), manifest=manifest))
        fault = found.record.fault
        assert fault is not None
        assert fault.error_type == "player_never_started"
        assert whose in fault.message


def defining_only(directory: Path) -> Path:
    """A directory whose program defines a player, and then ends with 0."""
    directory.mkdir()
    (directory / "main.py").write_text("def act(observation, legal, rng):\n    return legal[-1]\n")
    (directory / "Dockerfile").write_text('FROM python:3.11\nCOPY . .\nCMD ["python", "main.py"]\n')
    return directory


async def test_a_program_that_only_defines_a_player_says_how_it_would_run(arena: Arena, tmp_path: Path) -> None:
    made = read_own_player(str(defining_only(tmp_path / "made")))
    found = await arena.play(plan_of(arena, made, made))
    assert {(fault.slot, fault.error_type) for fault in found.record.faults} == {
        (0, "player_left_early"),
        (1, "player_left_early"),
    }
    for fault in found.record.faults:
        assert "had never connected" in fault.message
        assert "main.py defines act, but is run as a program" in (fault.hint or "")
    assert [slot.connected for slot in found.record.slots] == [False, False]


async def test_a_player_that_never_connected_is_not_measured(tmp_path: Path) -> None:
    made = defining_only(tmp_path / "made")
    report = await compare(
        "examples/nim",
        str(made),
        "counter",
        rules=EvaluationRules(max_blocks=3),
        backend="process",
        workspace=tmp_path / "run",
    )
    rows = read_rows(tmp_path / "run")
    assert {(row.error_type, row.party) for row in rows} == {("player_left_early", "player")}
    # On a busy machine, one may have connected for a time too short to be seen: the game waits, and it forfeits
    if not any(row.scores for row in rows):
        assert (report.stopped, report.blocks, report.void) == ("never_started", 0, 3)


PLAYED = """
import os, time
from websockets.sync.client import connect
seat = connect(os.environ["COWORLD_PLAYER_WS_URL"], proxy=None)
seat.recv()
time.sleep(0.5)
"""


@pytest.mark.parametrize(
    ("program", "source", "base", "party", "words"),
    [
        (
            "python3",
            "from os import nothing_yet",
            "python:99.1-slim",
            "operator",
            "its image has python 99.1, this mac",
        ),
        # What only an older one has is a mistake of its own, and so is what has nothing to do with versions
        ("python3", "from os import nothing_yet", "python:3.1-slim", "player", "status 1"),
        ("python3", "raise SystemExit(1)", "python:99.1-slim", "player", "status 1"),
        # Whoever has played is not excused by what it says as it leaves
        ("python3", PLAYED + "from os import nothing_yet", "python:99.1-slim", "player", "status 1"),
        pytest.param(
            *("node", "new Later()", "docker.io/library/node:99", "operator", "its image has node 99, this machine v"),
            marks=pytest.mark.node,
        ),
    ],
)
async def test_an_interpreter_that_is_older_than_the_image_s_is_named(
    program: str, source: str, base: str, party: str, words: str, arena: Arena, tmp_path: Path
) -> None:
    directory = tmp_path / "made"
    directory.mkdir()
    (directory / "bot").write_text(source)
    (directory / "Dockerfile").write_text(f'FROM {base}\nWORKDIR /made\nCOPY . .\nCMD ["{program}", "bot"]\n')
    found = await arena.play(plan_of(arena, *[read_own_player(str(directory))] * 2))
    assert {fault.party for fault in found.record.faults} == {party}
    assert all(words in fault.message for fault in found.record.faults)
