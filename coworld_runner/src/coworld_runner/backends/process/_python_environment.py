"""Environments of Python for packages, made once for each content below the user's cache, and shared by all runs.

An environment lies over the Python that runs coworld: what is not installed in it comes from there. It counts only with
its mark, which is written last, so a killed installation leaves none; whoever needs it next makes it anew.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.errors import EnvironmentFault
from coworld_core.files.locks import lock

from ...errors import BuildError
from ..helper_command import run_command
from ._pip_requirements import Requirements

__all__ = ["PythonEnvironment"]

_LAYOUT = "1"
"""Changes with whatever is made of the same requirements."""
_MARK = "made-by-coworld"
_WAIT_SECONDS = 0.2
"""Seconds between checks whether another run has made it; nothing reports that a lock is free."""
_SCRIPT = """#!{python}
import os, sys
sys.path += [os.getcwd() + "/src", os.getcwd()]
from {module} import {first}
sys.exit({function}())
"""


class PythonEnvironment:
    """An environment of Python with what a package requires; nothing is made before `ensure`.

    Args:
        needed: What is installed in it.
    """

    def __init__(self, needed: Requirements) -> None:
        self._needed = needed
        told = f"{_LAYOUT}\0{sys.executable}\0{sys.version}\0{needed.digest}"
        self.place = _cache() / hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:24]

    @property
    def made(self) -> bool:
        """Whether it is complete."""
        return (self.place / _MARK).is_file()

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.programs / "python")

    @property
    def programs(self) -> Path:
        """The directory of its commands."""
        return self.place / "bin"

    async def ensure(self, tell: Callable[[str], None]) -> None:
        """Make it, unless that is done; if another run is doing so, wait for that.

        Args:
            tell: Receives what is being done.

        Raises:
            BuildError: Something cannot be installed (code `install_failed`).
            EnvironmentFault: The cache cannot be written to.
        """
        if self.made:
            return
        try:
            await anyio.to_thread.run_sync(lambda: self.place.parent.mkdir(parents=True, exist_ok=True))
            held = os.open(self.place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unwritable(self.place.parent, error) from error
        try:
            waited = False
            while not lock(held):
                if not waited:
                    tell("Another run is installing the same; waiting for it")
                waited = True
                await anyio.sleep(_WAIT_SECONDS)
            if not self.made:
                await self._make(held, tell)
        except OSError as error:
            raise _unwritable(self.place, error) from error
        finally:
            os.close(held)

    async def _make(self, held: int, tell: Callable[[str], None]) -> None:
        await anyio.to_thread.run_sync(self._remove)
        try:
            install = await self._empty(held, tell)
            places = await anyio.to_thread.run_sync(self._prepare)
            for number, (lines, flags) in enumerate(self._needed.steps):
                lines = [self._needed.filled(line, places) for line in lines]
                names = [line for line in lines if not line.startswith("-")]
                tell(f"Installing {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}")
                file = self.place / f"step-{number}.txt"
                file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                status, tail = await self._run([*install, *flags, "-r", str(file)], held)
                if status:
                    raise self._failed([*install, *flags], status, tail, lines)
            (self.place / _MARK).touch()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._remove)
            raise

    def _remove(self) -> None:
        # The mark goes first: what is being removed is not complete
        (self.place / _MARK).unlink(missing_ok=True)
        shutil.rmtree(self.place, ignore_errors=True)

    async def _empty(self, held: int, tell: Callable[[str], None]) -> list[str]:
        """Make an environment with nothing in it; return how to install into it."""
        tell("Making an environment of Python")
        ways = [([sys.executable, "-m", "venv"], [self.python, "-m", "pip", "install", "--disable-pip-version-check"])]
        if uv := shutil.which("uv"):
            ways.insert(0, ([uv, "venv", "--quiet", "--python", sys.executable], [uv, "pip", "install"]))
        tried: list[tuple[list[str], int, str]] = []
        for make, install in ways:
            argv = [*make, str(self.place)]
            status, tail = await self._run(argv, held)
            if not status:
                return install
            tried.append((argv, status, tail))
            await anyio.to_thread.run_sync(self._remove)
        argv, status, tail = tried[-1]
        raise BuildError(
            f"No environment of Python can be made for {self._needed.who}: {shlex.join(argv)} ended with {status}.",
            code="install_failed",
            hint="Install uv, or the module venv with pip (on Debian: apt-get install python3-venv).",
            context={"log_tail": tail, "command": shlex.join(argv)},
        )

    def _prepare(self) -> list[Path]:
        """Lay the environment over the Python that runs coworld, and add the commands of projects.

        Returns:
            Where the files are that its requirements name.
        """
        (site,) = self.place.glob("lib/python*/site-packages")
        below = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
        (site / "_coworld.pth").write_text(f"import site; list(map(site.addsitedir, {below!r}))\n", "utf-8")
        for name, target in self._needed.scripts.items():
            module, _, function = target.partition(":")
            function = function.partition("[")[0].strip()
            if "/" in name or not all(
                part.isidentifier() for part in (*module.strip().split("."), *function.split("."))
            ):
                continue
            first = function.partition(".")[0]
            script = self.programs / name
            script.write_text(
                _SCRIPT.format(python=self.python, module=module.strip(), first=first, function=function), "utf-8"
            )
            script.chmod(0o755)
        return [self._copied(path) for path in self._needed.local]

    def _copied(self, path: Path) -> Path:
        """Return a copy of a project that is installed itself, since a build backend writes beside the sources."""
        if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
            return path
        copy = self.place / "projects" / path.name
        while copy.exists():
            copy = copy.parent / f"{copy.name}_"
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns(".git", ".venv", "node_modules"))
        return copy

    async def _run(self, argv: Sequence[str], held: int) -> tuple[int, str]:
        # The caller's variables stay: the installer may need addresses and secrets of an index
        elsewhere = {"PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "PIP_TARGET", "PIP_USER"}
        env = {name: value for name, value in os.environ.items() if name not in elsewhere}
        env["VIRTUAL_ENV"] = str(self.place)
        # An installer that outlives us keeps the lock until it ends
        return await run_command(argv, cwd=self.place.parent, env=env, tell=lambda _: None, keep_open=[held])

    def _failed(self, install: Sequence[str], status: int, tail: str, lines: Sequence[str]) -> BuildError:
        said = [line.strip() for line in tail.splitlines() if line.strip()]
        words = [word for line in lines for word in (line.split(" ", 1) if line.startswith("-") else [line])]
        command = shlex.join([Path(install[0]).name, *install[1:], *words])
        last = f": {said[-1].rstrip('.')}" if said else ""
        return BuildError(
            f"What {self._needed.who} needs cannot be installed: {command} ended with status {status}{last}.",
            code="install_failed",
            hint="Correct what its Dockerfile or its requirements name, or see that the package index can be reached. "
            "The docker backend builds the image instead.",
            context={"log_tail": "\n".join(said), "command": command},
        )


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "coworld" / "environments"


def _unwritable(place: Path, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(
        f"The environment of a package cannot be made in {place}: {error.strerror or error}.",
        code="cache_unwritable",
        hint="Make room there, or name another directory with XDG_CACHE_HOME.",
        context={"path": str(place)},
    )
