"""Environments of packages on the process backend: what is installed in them, and what is left of a failure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from support.waiting import until
from support.wheels import write_wheel

from coworld_core.episode.events import BaseEvent, ImageProgressed
from coworld_core.episode.outcome import Exit
from coworld_core.errors import UsageError
from coworld_core.ids import new_run_id
from coworld_runner.backend import Component, UnitSpec
from coworld_runner.backends.process import ProcessBackend
from coworld_runner.backends.process._image_layout import layout_of
from coworld_runner.backends.process._pip_requirements import Requirements, requirements_of
from coworld_runner.backends.process._python_environment import PythonEnvironment
from coworld_runner.episode.run_context import entered_backend
from coworld_runner.errors import BuildError
from coworld_runner.images.compose import Build
from coworld_runner.runs.scratch import make_scratch

DOCKERFILE = """FROM python:3.12
WORKDIR /app
COPY wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels wordlist==1
COPY server.py .
CMD ["python", "server.py"]
"""
PROGRAM = "import wordlist\nprint(wordlist.__file__, wordlist.version)\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "coworld" / "environments"


def package(root: Path, dockerfile: str = DOCKERFILE, **files: str) -> Path:
    write_wheel(root / "wheels", "wordlist", "1")
    write_wheel(root / "wheels", "wordlist", "2")
    for name, text in {"Dockerfile": dockerfile, "server.py": PROGRAM, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


async def run(
    backend: ProcessBackend, log: Path, *, component: Component = "game", files: Path | None = None
) -> tuple[Exit, str]:
    """Run a unit of the package to its end; returns that and its log."""
    with make_scratch(new_run_id()) as scratch:
        spec = UnitSpec(
            run_id=scratch.run_id,
            name="unit",
            component=component,
            image="image",
            argv=("python", f"{files}/main.py") if files is not None else (),
            directory=scratch.directory("unit"),
            inputs=files,
            stdout=log,
        )
        async with backend.units([spec], publish=lambda _: None) as [unit]:
            ended = await unit.wait()
    return ended, await anyio.Path(log).read_text()


def suffixes(cache: Path) -> list[str]:
    """What is in the cache: nothing for an environment, `.lock` for the file that guards one."""
    return [path.suffix for path in sorted(cache.iterdir())] if cache.exists() else []


def installs(events: Sequence[BaseEvent]) -> list[str]:
    return [event.status for event in events if isinstance(event, ImageProgressed)]


async def test_a_package_gets_what_its_dockerfile_installs_once(tmp_path: Path, cache: Path) -> None:
    root, events = package(tmp_path / "package"), list[BaseEvent]()
    async with ProcessBackend(contexts={"image": root}, install=True) as backend:
        await backend.ensure_image("image", publish=events.append)
        ended, told = await run(backend, tmp_path / "log")
        assert ended.ok, told
        assert told.startswith(str(cache))
        assert told.endswith("wordlist.py 1\n")
        (root / "server.py").write_text("import coworld_runner, anyio\nprint('and what is here already')\n")
        await backend.ensure_image("image", publish=events.append)
        assert (await run(backend, tmp_path / "log"))[1] == "and what is here already\n"
    assert installs(events) == ["Making an environment of Python", "Installing wordlist==1"]


async def test_nothing_is_installed_unless_asked_for(tmp_path: Path, cache: Path) -> None:
    async with ProcessBackend(contexts={"image": package(tmp_path / "package")}) as backend:
        await backend.ensure_image("image")
        ended, told = await run(backend, tmp_path / "log")
    assert not ended.ok
    assert "No module named 'wordlist'" in told
    assert suffixes(cache) == []


async def test_a_player_that_is_a_directory_gets_its_own(tmp_path: Path) -> None:
    root, files = package(tmp_path / "package"), tmp_path / "first" / "bot"
    write_wheel(files, "wordlist", "2")
    (files / "main.py").write_text(PROGRAM)
    (files / "requirements.txt").write_text("--no-index\n--find-links .\nwordlist\n")
    async with ProcessBackend(contexts={"image": root}, install=True) as backend:
        await backend.ensure_image("image")
        await backend.ensure_packages("bot", files)
        # The unit has its files elsewhere
        again = shutil.copytree(files, tmp_path / "second" / "files")
        ended, told = await run(backend, tmp_path / "log", component="player", files=again)
        assert ended.ok, told
        assert told.endswith("wordlist.py 2\n")
        for name in ("requirements.txt", "wordlist-2-py3-none-any.whl"):
            (again / name).unlink()
        # A file without requirements of its own plays with the package's
        assert (await run(backend, tmp_path / "log", component="player", files=again))[1].endswith("wordlist.py 1\n")


async def test_two_runs_share_one_installation(tmp_path: Path) -> None:
    root, events = package(tmp_path / "package"), list[BaseEvent]()

    async def prepare() -> None:
        async with ProcessBackend(contexts={"image": root}, install=True) as backend:
            await backend.ensure_image("image", publish=events.append)
            assert (await run(backend, tmp_path / new_run_id()))[0].ok

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(prepare)
    assert installs(events).count("Installing wordlist==1") == 1


async def test_what_a_killed_installation_left_is_made_anew(tmp_path: Path) -> None:
    root = package(tmp_path / "package")
    needed = requirements_of("it", root, layout_of(Build(context=root))[0])
    half = PythonEnvironment(needed)
    (half.place / "lib/python0/site-packages").mkdir(parents=True)
    assert not half.made
    async with ProcessBackend(contexts={"image": root}, install=True) as backend:
        await backend.ensure_image("image")
        assert (await run(backend, tmp_path / "log"))[0].ok
    assert half.made
    assert not (half.place / "lib/python0").exists()


async def test_what_cannot_be_installed_is_said_with_the_installers_words(tmp_path: Path, cache: Path) -> None:
    root = package(tmp_path / "package", DOCKERFILE.replace("wordlist==1", "wordlist==3"))
    async with ProcessBackend(contexts={"image": root}, install=True) as backend:
        with pytest.raises(BuildError) as caught:
            await backend.ensure_image("image")
    error = caught.value
    assert error.code == "install_failed"
    assert "pip install --no-index --find-links" in error.message
    assert "wordlist==3 ended with status" in error.message
    assert "wordlist==3" in str(error.context["log_tail"])
    assert suffixes(cache) == [".lock"]


async def test_an_installation_that_is_cancelled_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "uv").write_text(f'#!/bin/sh\nmkdir -p "$5"\n: > "{programs}/begun"\nexec sleep 600\n')
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    async with (
        ProcessBackend(contexts={"image": package(tmp_path / "package")}, install=True) as backend,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(backend.ensure_image, "image")
        await until((programs / "begun").exists)
        assert suffixes(cache) == ["", ".lock"]
        tasks.cancel_scope.cancel()
    assert suffixes(cache) == [".lock"]


@pytest.mark.slow
async def test_without_uv_pip_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def which(_: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", which)
    async with ProcessBackend(contexts={"image": package(tmp_path / "package")}, install=True) as backend:
        await backend.ensure_image("image")
        ended, told = await run(backend, tmp_path / "log")
    assert ended.ok, told


async def test_a_backend_that_is_open_cannot_be_told_to_install() -> None:
    async with ProcessBackend() as backend:
        with pytest.raises(UsageError, match="open already"):
            async with entered_backend(backend, "", install=True):
                pass


# --- what is read


def needed(root: Path, step: str, **files: str) -> Requirements:
    package(root, f"FROM python:3.12\nARG V=7\nWORKDIR /app\nCOPY . /app/\nRUN {step}\n", **files)
    return requirements_of("it", root, layout_of(Build(context=root))[0])


LINES: list[tuple[str, list[tuple[list[str], list[str]]]]] = [
    ("pip install a 'b>1' --pre", [(["a", "b>1"], ["--pre"])]),
    ("pip3 --quiet install -U a==$V && uv pip install --system b", [(["a==7"], []), (["b"], [])]),
    ("python -m pip install -i https://one/ --target=/x a", [(["--index-url https://one/", "a"], [])]),
    ('["pip", "install", "a"]', [(["a"], [])]),
    ("pip install coworld-runner 'coworld-client[seat]'", []),
    (
        "pip install coworld-runner-tools git+https://x/y.git",
        [(["coworld-runner-tools", "git+https://x/y.git"], [])],
    ),
    ("pip install -r needs/all.txt", [(["a==1", "b ; python_version > '3'", "c"], [])]),
    ("cd needs && pip install -rmore.txt", [(["c"], [])]),
    ("pip install ./project[fast]", [(["d", "e"], [])]),
    ("cd project && uv sync --frozen", [(["d"], [])]),
    ("pip install wheels/*-2-*.whl -c needs/more.txt", [(["\0000\0", "--constraint \0001\0"], [])]),
    ("apt-get install pip-tools", []),
]


@pytest.mark.parametrize(("step", "steps"), LINES)
def test_install_lines_are_read(tmp_path: Path, step: str, steps: object) -> None:
    project = '[project]\nname = "x"\ndependencies = ["d", "coworld-core"]\noptional-dependencies = {fast = ["e"]}\n'
    hashed = "a==1 --hash=sha256:00 \\\n  --hash=sha256:11\n"
    files = {
        "needs/all.txt": f"# Ours\n{hashed}b ; python_version > '3'\n-r more.txt\n",
        "needs/more.txt": "c  # more\n",
        "project/pyproject.toml": project,
    }
    assert needed(tmp_path, step, **files).steps == steps


def test_a_project_whose_dependencies_are_not_written_down_is_installed_itself(tmp_path: Path) -> None:
    found = needed(tmp_path / "one", "pip install .", **{"setup.py": "x"})
    assert (found.steps, found.local) == ([(["\0000\0"], [])], [tmp_path / "one"])
    assert found.digest != needed(tmp_path / "two", "pip install .", **{"setup.py": "y"}).digest


def test_content_decides_and_not_the_place(tmp_path: Path) -> None:
    first, second = (needed(tmp_path / name, "pip install -c c.txt a", **{"c.txt": "a<2"}) for name in "xy")
    assert first.digest == second.digest
    assert first.digest != needed(tmp_path / "z", "pip install -c c.txt a", **{"c.txt": "a<3"}).digest


@pytest.mark.parametrize("step", ["pip install -r absent.txt", "pip install ./absent", "pip install -r loop.txt"])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, step: str) -> None:
    with pytest.raises(BuildError) as caught:
        needed(tmp_path, step, **{"loop.txt": "-r loop.txt\n"})
    assert step.rpartition(" ")[2].lstrip("./") in caught.value.message
