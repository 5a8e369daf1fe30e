"""Games whose server is started once for many episodes: each is a process of its own, supervised as any other."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest
from support.kit_packages import FIRST, LOWEST, claims_game
from support.waiting import until

from coworld_core.episode.outcome import Exit
from coworld_core.ids import new_run_id
from coworld_runner import resolve_package, run_batch
from coworld_runner.backend import Limits, Placement, Unit, UnitSpec, to_nobody
from coworld_runner.backends import ProcessBackend
from coworld_runner.runs.scratch import open_scratch, scratch_root

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs fork for units on Linux alone")

PROGRAM = """
import os, sys
from coworld_runner.kit.server import run_server

IMPORTED_IN = os.getpid()


async def serve():
    import asyncio

    from coworld_runner.kit.server.game_environment import announce, open_listener
    from coworld_runner.web.http_server import open_server, response

    own = os.environ.get("OWN", "")
    print("forked" if IMPORTED_IN != os.getpid() else "started", own, flush=True)
    print("to standard error", file=sys.stderr, flush=True)
    if own:
        {doing}
    return {code}


sys.exit(run_server(serve, prepare={prepare}))
"""


FORKED, STARTED = "forked ", "started "


def program(directory: Path, *, doing: str = "pass", code: int = 0, prepare: str = "lambda: None") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "game.py").write_text(PROGRAM.format(doing=doing, code=code, prepare=prepare))
    return directory


@asynccontextmanager
async def unit(
    backend: ProcessBackend, directory: Path, *, limits: Limits | None = None, run_id: str = "", **own: str
) -> AsyncGenerator[Unit]:
    """A unit of the program, whose logs are in the directory."""

    def environment(_: Placement) -> dict[str, str]:
        return own

    run_id = run_id or new_run_id()
    async with open_scratch(run_id) as scratch:
        spec = UnitSpec(
            run_id=run_id,
            name="game",
            component="game",
            image="image",
            argv=("python", "game.py"),
            ahead={"SAME": "for all"},
            environment=environment,
            secret_env={"SECRET": "known to one"},
            directory=scratch.directory("game"),
            limits=limits or Limits(),
            stdout=directory / "stdout.log",
            stderr=directory / "stderr.log",
        )
        async with backend.units([spec], publish=to_nobody) as (found,):
            yield found


async def ends(
    backend: ProcessBackend, directory: Path, *, limits: Limits | None = None, **own: str
) -> tuple[Exit, list[str]]:
    """Play a unit; returns how it ended and what it said."""
    async with unit(backend, directory, limits=limits, **own) as one:
        ended = await one.wait()
    return ended, (directory / "stdout.log").read_text().splitlines()


async def started_ahead(backend: ProcessBackend, directory: Path) -> psutil.Process:
    """Play units until one is forked; returns what forked it."""
    with anyio.fail_after(30):
        while (await ends(backend, directory))[1] != [FORKED]:
            pass
    found = [one for one in psutil.Process().children(recursive=True) if one.cmdline()[1:] == ["game.py"]]
    assert len(found) == 1
    return found[0]


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncGenerator[ProcessBackend]:
    async with ProcessBackend(default_context=tmp_path / "program") as backend:
        yield backend
    assert not [one for one in psutil.Process().children(recursive=True) if "game.py" in one.cmdline()]


async def test_the_third_unit_is_forked_with_its_own_environment_logs_and_exit_code(
    tmp_path: Path, backend: ProcessBackend
) -> None:
    program(tmp_path / "program", code=7)
    ahead = await started_ahead(backend, tmp_path)
    # One unit's secrets and variables are nobody else's
    assert "known to one" not in ahead.environ().values()
    assert ahead.environ()["SAME"] == "for all"
    ended, said = await ends(backend, tmp_path, OWN="third")
    assert (ended.reason, ended.code) == ("exited", 7)
    assert said == ["forked third"]
    assert (tmp_path / "stderr.log").read_text() == "to standard error\n"


async def test_a_forked_unit_is_found_by_its_label_and_ends_when_it_is_asked_to(
    tmp_path: Path, backend: ProcessBackend
) -> None:
    program(tmp_path / "program", doing="await asyncio.sleep(1000)")
    await started_ahead(backend, tmp_path)
    run_id = new_run_id()
    async with unit(backend, tmp_path, run_id=run_id, OWN="stays") as one:
        await until(lambda: (tmp_path / "stdout.log").read_text() == "forked stays\n")
        labelled = {item.name for item in await backend.find(run_id) if item.kind == "process"}
        assert labelled == {"game"}
        assert int(one.id) in one.processes()
        ended = await one.stop(5)
        assert ended.reason == "stopped"
    assert not [item for item in await backend.find(run_id) if item.kind == "process"]


@pytest.mark.parametrize(
    ("doing", "limits", "reason"),
    [
        ("hog = bytearray(600 << 20); await asyncio.sleep(1000)", Limits(memory_bytes=300 << 20), "oom"),
        ("os.kill(os.getpid(), 11)", Limits(), "signal"),
        ("[os.kill(pid, 9) for pid in (os.getppid(), os.getpid())]", Limits(), "lost"),
    ],
)
async def test_what_a_forked_unit_does_ends_it_alone(
    tmp_path: Path, backend: ProcessBackend, doing: str, limits: Limits, reason: str
) -> None:
    program(tmp_path / "program", doing=doing)
    ahead = await started_ahead(backend, tmp_path)
    assert (await ends(backend, tmp_path, limits=limits, OWN="this one"))[0].reason == reason
    assert ahead.is_running()
    assert (await ends(backend, tmp_path))[1] == [FORKED]


async def test_a_changed_file_is_another_program(tmp_path: Path, backend: ProcessBackend) -> None:
    program(tmp_path / "program", code=1)
    await started_ahead(backend, tmp_path)
    program(tmp_path / "program", code=2)
    assert [(await ends(backend, tmp_path))[0].code for _ in range(2)] == [2, 2]


@pytest.mark.parametrize(
    "prepare",
    [
        "lambda: __import__('threading').Thread(target=__import__('time').sleep, args=(1000,), daemon=True).start()",
        "lambda: 1 / 0",
    ],
    ids=["starts_a_thread", "fails"],
)
async def test_a_program_that_cannot_fork_is_started_for_each(
    tmp_path: Path, backend: ProcessBackend, prepare: str
) -> None:
    program(tmp_path / "program", prepare=prepare)
    said = [(await ends(backend, tmp_path))[1] for _ in range(4)]
    assert said == [[STARTED]] * 4


async def test_what_was_started_ahead_may_die(tmp_path: Path, backend: ProcessBackend) -> None:
    program(tmp_path / "program")
    ahead = await started_ahead(backend, tmp_path)
    ahead.send_signal(signal.SIGKILL)
    assert (await ends(backend, tmp_path))[1] == [STARTED]


async def test_a_unit_ends_with_what_forked_it(tmp_path: Path, backend: ProcessBackend) -> None:
    program(tmp_path / "program", doing="await asyncio.sleep(1000)")
    ahead = await started_ahead(backend, tmp_path)
    async with unit(backend, tmp_path, OWN="waits") as one:
        ahead.send_signal(signal.SIGKILL)
        assert (await one.wait()).reason in {"lost", "stopped"}


async def test_episodes_are_the_same_however_their_game_was_started(tmp_path: Path) -> None:
    results: list[object] = []
    for bot, code in (("first", FIRST), ("lowest", LOWEST)):
        (tmp_path / f"{bot}.py").write_text(code)
    for name, serves in (("ahead", "many"), ("each", "one")):
        directory = claims_game(tmp_path / name, seats=3)
        manifest = directory / "coworld_manifest_template.json"
        declared = '"COWORLD_SERVES": "{}"'
        assert declared.format("many") in manifest.read_text()
        manifest.write_text(manifest.read_text().replace(declared.format("many"), declared.format(serves)))
        package = await resolve_package(str(directory))
        async with ProcessBackend(contexts=package.contexts) as backend:
            summary = await run_batch(
                package,
                episodes=4,
                players=[str(tmp_path / f"{bot}.py") for bot in ("first", "lowest", "first")],
                seed=5,
                backend=backend,
                parallel=1,
                workspace=tmp_path / f"{name}-runs",
            )
            # A directory of what was started ahead
            forked = [str(one) for one in scratch_root().glob("*/program")]
        assert bool(forked) is (serves == "many")
        results.append([row.scores for row in summary.episodes])
        logs = sorted((tmp_path / f"{name}-runs").glob("episode-*/logs/game.stdout.log"))
        assert [log.read_text().count("results and replay are written") for log in logs] == [1] * 4
    assert results[0] == results[1]
