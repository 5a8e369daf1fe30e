"""The published command-line client, installed apart from this workspace and run as its users run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .cli_kit import Done, environment

__all__ = ["Published", "install", "published"]

RELEASE = "coworld==0.1.26"
PATIENCE = 300.0
"""Seconds for the package index, which may be far away."""

# a second of imports for each command would be a minute of every run: each is a fork of what has been imported
_LAUNCHER = """
import json, os, sys, traceback
from importlib.metadata import entry_points

programs = {point.name: point.load() for point in entry_points(group="console_scripts", name="coworld")}
programs |= {point.name: point.load() for point in entry_points(group="console_scripts", name="softmax")}
print(json.dumps(sorted(programs)), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        try:
            for number, (name, flags) in enumerate(zip(order["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
                os.dup2(os.open(name, flags), number)
            sys.stdin = open(0, encoding="utf-8", closefd=False)
            sys.argv = order["words"]
            programs[order["words"][0]]()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def install(directory: Path) -> Path:
    """Make a virtual environment with the published release; skip, naming what is missing, where that cannot be.

    Args:
        directory: Where it goes; made.

    Returns:
        Its Python.
    """
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.skip(f"no uv to install {RELEASE} with")
    python = directory / "bin" / "python"
    kept = {name: text for name, text in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")}
    for words in (
        ["venv", "--python", sys.executable, str(directory)],
        ["pip", "install", "--compile-bytecode", "--python", str(python), RELEASE],
    ):
        done = subprocess.run(
            [uv, *words], cwd=directory.parent, env=kept, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        if done.returncode != 0:
            pytest.skip(f"{RELEASE} cannot be installed here: uv {words[0]}: {done.stderr[-2000:]}")
    return python


class Published:
    """Somebody at a terminal with the published client."""

    def __init__(self, process: subprocess.Popen[str], home: Path, server: str) -> None:
        self.home = home
        self.server = server
        self._process = process
        self._count = 0

    def run(self, *words: str | Path, program: str = "coworld", stdin: str = "", status: int | None = 0) -> Done:
        """Run a command against the server, and check how it ends."""
        self._count += 1
        streams = [self.home / f".{self._count}.{name}" for name in ("stdin", "stdout", "stderr")]
        for stream in streams:
            stream.write_text(stdin if stream.suffix == ".stdin" else "", encoding="utf-8")
        said = [program, *(str(word) for word in words), "--server", self.server]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"words": said, "streams": [str(stream) for stream in streams]}) + "\n")
        self._process.stdin.flush()
        ended = self._process.stdout.readline()
        assert ended, f"the launcher ended at {said}"
        done = Done(int(ended), *(stream.read_text(encoding="utf-8") for stream in streams[1:]))
        # tokens may stand among the words, and never in what a failed test shows
        assert status is None or done.status == status, f"{said[:2]}: {done.status}\n{done.stdout}\n{done.stderr}"
        return done

    def ask(self, *words: str | Path, **more: Any) -> Any:
        """The JSON of a command that has ``--json``."""
        return self.run(*words, "--json", **more).json

    def sign_in(self, token: str) -> None:
        """Keep a token, as people without a browser do."""
        self.run("set-token", token, program="softmax")


@contextmanager
def published(python: Path, home: Path, server: str) -> Generator[Published]:
    """Somebody with a home of their own, as long as the context is open.

    Args:
        python: Of ``install``.
        home: Their home and working directory; made.
        server: URL of the server that all their commands are for.
    """
    home.mkdir()
    docker = os.environ.get("DOCKER_CONFIG", str(Path.home() / ".docker"))
    mine = {
        "HOME": str(home),
        "DOCKER_CONFIG": docker,
        "SOFTMAX_CONFIG_DIR": str(home / ".softmax"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "COLUMNS": "200",
        "TERM": "dumb",
        "PYTHONUTF8": "1",
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    }
    with subprocess.Popen(
        [python, "-c", _LAUNCHER],
        cwd=home,
        env=environment(mine),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == '["coworld", "softmax"]\n'
            yield Published(process, home, server)
        finally:
            process.stdin.close()
