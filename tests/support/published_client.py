"""The published command-line client, installed separately from this workspace and run as users run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .certificates import self_signed
from .cli_kit import environment
from .launcher import Done, Launcher, launcher

__all__ = ["Published", "install", "published"]

OLDEST = "0.1.26"
"""The oldest release with which everything here is compatible."""
TIMEOUT = 300.0
"""Time limit in seconds for the package index, which may be slow."""
_LAZY = ("certifi", "encodings.idna", "httpcore", "httpcore._backends.auto")
"""Modules that commands import only when they call a server."""


def install(directory: Path, release: str = OLDEST) -> Path:
    """Create a virtual environment with a published release; if that is impossible, skip the test and say why.

    Args:
        directory: The directory of the environment, which is created.
        release: The version of the release.

    Returns:
        The environment's Python.
    """
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.skip(f"no uv to install coworld {release} with")
    python = directory / "bin" / "python"
    kept = {name: text for name, text in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")}
    for words in (
        ["venv", "--python", sys.executable, str(directory)],
        ["pip", "install", "--python", str(python), f"coworld=={release}"],
    ):
        done = subprocess.run(
            [uv, *words], cwd=directory.parent, env=kept, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
        if done.returncode != 0:
            pytest.skip(f"coworld {release} cannot be installed here: uv {words[0]}: {done.stderr[-2000:]}")
    return python


class Published:
    """A user of the published client at a terminal."""

    def __init__(self, launcher: Launcher, home: Path, env: Mapping[str, str], server: str) -> None:
        self.home = home
        self.server = server
        self._launcher = launcher
        self._env = env

    def run(self, *words: str | Path, program: str = "coworld", stdin: str = "", status: int | None = 0) -> Done:
        """Run a command against the server, and check its exit status."""
        said = [program, *(str(word) for word in words), "--server", self.server]
        done = self._launcher.run(said, env=self._env, cwd=self.home, stdin=stdin, timeout=TIMEOUT)
        assert status is None or done.status == status, f"{said[:2]}: {done.status}\n{done.stdout}\n{done.stderr}"
        return done

    def ask(self, *words: str | Path, **more: Any) -> Any:
        """Run a command with `--json` and return its JSON."""
        return self.run(*words, "--json", **more).json

    def sign_in(self, token: str) -> None:
        """Store a token, as people without a browser do."""
        self.run("set-token", token, program="softmax")


@contextmanager
def published(python: Path, home: Path, server: str) -> Generator[Published]:
    """A user with a separate home directory while the context is open.

    Args:
        python: The Python returned by `install`.
        home: The user's home and working directory, which is created.
        server: URL of the server for all commands.
    """
    home.mkdir()
    # No server here uses HTTPS; without this, each command would read all the system's certificate authorities.
    authorities = home / "authorities.pem"
    authorities.write_bytes(self_signed()[0])
    docker = os.environ.get("DOCKER_CONFIG", str(Path.home() / ".docker"))
    mine = {
        "HOME": str(home),
        "DOCKER_CONFIG": docker,
        "SOFTMAX_CONFIG_DIR": str(home / ".softmax"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "COLUMNS": "200",
        "TERM": "dumb",
        "PYTHONUTF8": "1",
        "SSL_CERT_FILE": str(authorities),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    }
    env = environment(mine)
    with launcher(python, {"coworld": _LAZY, "softmax": ()}, env=env) as started:
        yield Published(started, home, env, server)
