"""Runs the `coworld` command as a person or a script does, and writes small worlds to run it on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .launcher import Command, Done, Launcher, launcher

MISFITS = Path(__file__).parent / "misfits"
QUICK = MISFITS.with_name("quick")
RUN_MODULE = Path(__file__).with_name("run_module.py")
TIMEOUT = 90.0
"""Time limit in seconds for any wait; tests wait for conditions, so only a broken test waits this long."""

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")


def environment(extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """This process's environment without variables that change the command's output; None removes a variable."""
    shaping = ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "DISPLAY", "WAYLAND_DISPLAY", "UV_RUN_RECURSION_DEPTH")
    kept = {name: text for name, text in os.environ.items() if not name.startswith("COWORLD_") and name not in shaping}
    # Whether there is a browser would decide how long a certification takes, and what it says
    kept["COWORLD_BROWSER"] = "none"
    kept["TERM"] = "xterm-256color"
    for name, text in (extra or {}).items():
        if text is None:
            kept.pop(name, None)
        else:
            kept[name] = text
    return kept


_HEAVY = {
    *(
        "anyio",
        "asyncio",
        "docker",
        "httpx2",
        "jsonschema",
        "kubernetes_asyncio",
        "pydantic",
        "rich",
        "websockets",
        "yaml",
    ),
    *("coworld_client", "coworld_runner"),
}
_CONSTANTS = {
    "coworld_core",
    *(f"coworld_core.{name}" for name in ("lazy", "text", "time_limits", "versions")),
    *(f"coworld_core.text.{name}" for name in ("phrases", "size_text", "terminal")),
}


def heavy(loaded: set[str]) -> set[str]:
    """The modules among `loaded` that a help text must not import; of `coworld_core`, all but a few light ones."""
    return {
        name
        for name in loaded
        if (top := name.partition(".")[0]) in _HEAVY or top == "coworld_core" or name == "importlib.metadata"
    } - _CONSTANTS


def command(*args: str | Path) -> list[str]:
    """The argument list of a `coworld` command."""
    return [sys.executable, "-m", "coworld_cli", *(str(arg) for arg in args)]


# The 859 modules for clusters would take too long; migrations are run, not imported.
_ALL = ".* but __main__|kube|migrations"
_MODULES = {
    "coworld": (
        *(name + _ALL for name in ("coworld_core", "coworld_client", "coworld_runner", "coworld_cli", "paintarena")),
        *("anyio._backends._asyncio", "anyio._core._signals", "graphlib", "h11", "httpx2", "jinja2", "jsonschema"),
        *("pydantic.dataclasses", "referencing.jsonschema", "yaml.cyaml"),
    ),
    "observatory": (
        *(name + _ALL for name in ("coworld_core", "coworld_client", "coworld_runner", "observatory")),
        *("aiosqlite", "alembic.command", "anyio._backends._asyncio", "sqlalchemy.ext.asyncio", "uvicorn.server"),
    ),
}
"""The modules that these commands import while they run."""
_launchers: dict[str, Launcher] = {}


@contextmanager
def quick_commands(*programs: str, prepared: bool = True) -> Generator[None]:
    """Start commands of these programs without delay while the context is open.

    For one or two commands, preparing the imports is not worth while; use `prepared=False`.
    """
    modules = {program: _MODULES[program] if prepared else () for program in programs}
    with launcher(sys.executable, modules) as started:
        _launchers.update(dict.fromkeys(programs, started))
        yield
        for program in programs:
            del _launchers[program]


def launcher_of(program: str) -> Launcher:
    """The launcher that starts a program's commands."""
    return _launchers[program]


def stand_ins(directory: Path) -> Path:
    """Write stand-ins for the programs of the open launchers into a directory for PATH, created if missing."""
    for program, started in _launchers.items():
        started.stand_in(directory, program)
    return directory


def coworld(
    *args: str | Path,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: float = TIMEOUT,
) -> Done:
    """Run a command to its end, without a terminal."""
    words = ["coworld", *map(str, args)]
    return _launchers["coworld"].run(
        words, env=environment(env), cwd=cwd or Path.cwd(), stdin=stdin or "", timeout=timeout
    )


def _end(process: Command) -> None:
    """End a command that a failed test has left running, cleanly if possible."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(
    args: Sequence[str | Path], env: Mapping[str, str | None] | None, cwd: Path | None, *streams: int, session: bool
) -> Command:
    stdin, stdout, stderr = streams
    command = _launchers["coworld"].start(
        ["coworld", *map(str, args)],
        env=environment(env),
        cwd=cwd or Path.cwd(),
        streams=(stdin, stdout, stderr),
        session=session,
    )
    for stream in {*streams}:
        os.close(stream)
    return command


def start_script(script: Path, *words: str, log: Path) -> Command:
    """Start a Python script of the tests; its output is appended to a file."""
    with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), output.fileno(), output.fileno())
        return _start_script(script, *words, env=os.environ, streams=streams)


def start_module(name: str, *, env: Mapping[str, str], out: int, err: int) -> Command:
    """Start a module like `python -m`, with its imports already done.

    Args:
        name: The module's name.
        env: The whole environment.
        out: Descriptor of the standard output.
        err: Descriptor of the standard error.
    """
    with Path(os.devnull).open("rb") as nothing:
        return _start_script(RUN_MODULE, name, env=env, streams=(nothing.fileno(), out, err))


def _start_script(script: Path, *words: str, env: Mapping[str, str], streams: tuple[int, int, int]) -> Command:
    return _launchers["coworld"].start(
        [str(script), *words],
        env={**env, "PYTHONPATH": str(Path(__file__).parents[1])},
        cwd=Path.cwd(),
        streams=streams,
    )


class Started:
    """A running command with pipes, whose output is read while it runs."""

    def __init__(self, args: Sequence[str | Path], env: Mapping[str, str | None] | None, cwd: Path | None) -> None:
        (stdout, its_stdout), (stderr, its_stderr) = os.pipe(), os.pipe()
        stdin = os.open(os.devnull, os.O_RDONLY)
        self.process = _start(args, env, cwd, stdin, its_stdout, its_stderr, session=False)
        self._streams = {stdout: bytearray(), stderr: bytearray()}
        self._open = set(self._streams)

    def _read(self, seconds: float) -> None:
        for descriptor in select.select(list(self._open), [], [], seconds)[0]:
            data = os.read(descriptor, 1 << 16)
            if data:
                self._streams[descriptor] += data
            else:
                self._open.discard(descriptor)

    @property
    def stdout(self) -> str:
        """The standard output so far."""
        return bytes(next(iter(self._streams.values()))).decode(errors="replace")

    @property
    def stderr(self) -> str:
        """The standard error so far."""
        return bytes(list(self._streams.values())[1]).decode(errors="replace")

    def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Read until a condition returns a true value, and return that value."""
        deadline = time.monotonic() + TIMEOUT
        while not (value := condition()):
            left = deadline - time.monotonic()
            ended = not self._open and self.process.poll() is not None
            if left <= 0 or ended:
                raise AssertionError(f"never came: {what}\n--- out\n{self.stdout}\n--- err\n{self.stderr}")
            self._read(min(left, 0.05))
        return value

    def until_printed(self, text: str) -> None:
        """Read until a text appears on either stream."""
        self.until(lambda: text in self.stdout or text in self.stderr, text)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        self.process.send_signal(number)

    def end(self) -> Done:
        """Wait for the command to end."""
        deadline = time.monotonic() + TIMEOUT
        while self._open and time.monotonic() < deadline:
            self._read(0.05)
        status = self.process.wait(timeout=max(0.1, deadline - time.monotonic()))
        return Done(status, self.stdout, self.stderr)

    def close(self) -> None:
        """Leave nothing behind, whatever the test did."""
        _end(self.process)
        for stream in self._streams:
            os.close(stream)


class Terminal:
    """A running command on its own terminal."""

    def __init__(self, args: Sequence[str | Path], env: Mapping[str, str | None] | None, columns: int) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = _start(args, env, None, slave, slave, slave, session=True)
        self._data = bytearray()

    @property
    def raw(self) -> str:
        """The output so far."""
        return self._data.decode(errors="replace")

    @property
    def text(self) -> str:
        """The output so far without control sequences."""
        return _CONTROL.sub("", self.raw).replace("\r", "")

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # The other end is closed.
            return False
        self._data += data
        return bool(data)

    def write(self, text: str) -> None:
        """Type something."""
        os.write(self.master, text.encode())

    def until_printed(self, text: str) -> None:
        """Read until a text appears."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.text:
            if time.monotonic() > deadline or not self._read(0.05):
                raise AssertionError(f"never came: {text}\n{self.text}")

    def end(self) -> int:
        """Read to the end, and return the exit status."""
        deadline = time.monotonic() + TIMEOUT
        while self._read(0.05):
            assert time.monotonic() < deadline, f"did not end:\n{self.text}"
        return self.process.wait(timeout=TIMEOUT)

    def close(self) -> None:
        """Leave nothing behind, whatever the test did."""
        _end(self.process)
        with contextlib.suppress(OSError):
            os.close(self.master)


def write_world(directory: Path, game: str = "", *players: str, name: str = "misfits", **config: Any) -> Path:
    """Write a small Coworld whose game and players have given behaviours (see `misfits`), and return its directory.

    Without any behaviour, the programs are those of the quickest game (see `quick`).

    Args:
        directory: The directory, which is created.
        game: A behaviour of `game.py`.
        players: A behaviour of `player.py` for each seat, with its argument; by default, two well-behaved players.
        name: The game's name.
        config: Further keys of the game config.
    """
    directory.mkdir()
    manifest = json.loads((MISFITS / "coworld_manifest_template.json").read_text())
    manifest["game"]["name"] = name
    who = players or ("well", "well")
    template = manifest["player"][0]
    manifest["player"] = [
        {**template, "id": f"{behaviour.split()[0]}-{index}", "run": ["python3", "player.py", *behaviour.split()]}
        for index, behaviour in enumerate(who)
    ]
    seats = [{"player_id": player["id"]} for player in manifest["player"]]
    names = ["Left", "Right", *(f"Player {index}" for index in range(2, len(who)))][: len(who)]
    game_config = {"players": [{"name": seat} for seat in names], "behaviour": game or "well", **config}
    manifest["certification"] = {"game_config": game_config, "players": seats}
    if quick := not game:
        manifest["game"]["runnable"]["run"] = ["python3", "-S", "-E", "game.py"]
        manifest["game"]["results_schema"]["required"] = ["scores"]
        for player in manifest["player"]:
            player["run"] = ["python3", "-S", "-E", "player.py"]
    (directory / "coworld_manifest_template.json").write_text(json.dumps(manifest, indent=2))
    services = {"misfits": {"image": "coworld-misfits", "build": {"context": str(QUICK if quick else MISFITS)}}}
    # JSON is valid YAML.
    (directory / "compose.yaml").write_text(json.dumps({"services": services}))
    return directory
