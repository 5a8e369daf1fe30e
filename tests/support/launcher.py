"""Commands that start at once: each is a fork of a Python that has imported them.

A second of imports for each of hundreds of commands would be minutes of every run. What a command is otherwise it is
here too: a process with streams, a directory and an environment of its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Done", "Launcher", "heed_signals", "launcher"]

_PROGRAM = """
import importlib, json, os, sys, traceback
from importlib.metadata import entry_points

names, modules = json.loads(sys.argv[1])
programs = {name: point.load() for name in names for point in entry_points(group="console_scripts", name=name)}
for module in modules:
    importlib.import_module(module)
print(json.dumps(sorted(programs)), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        try:
            for number, (name, flags) in enumerate(zip(order["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
                os.dup2(os.open(name, flags), number)
            os.chdir(order["cwd"])
            os.environ.clear()
            os.environ.update(order["env"])
            sys.stdin = open(0, encoding="utf-8", closefd=False)
            sys.argv = order["words"]
            sys.exit(programs[order["words"][0]]())
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one object on standard output; anything else on it fails."""
        return json.loads(self.stdout)


class Launcher:
    """Starts commands, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: str = "", patience: float = 300.0
    ) -> Done:
        """Run a command to its end.

        Args:
            words: The program's name, and its arguments.
            env: Its whole environment.
            cwd: Where it runs.
            stdin: What it reads.
            patience: Seconds until it has to be over.
        """
        with tempfile.TemporaryDirectory() as directory:
            streams = [Path(directory) / name for name in ("stdin", "stdout", "stderr")]
            for stream in streams:
                stream.write_text(stdin if stream.name == "stdin" else "", encoding="utf-8")
            order = {"words": list(words), "env": dict(env), "cwd": str(cwd), "streams": [*map(str, streams)]}
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            # tokens may stand among the words, and never in what a failed test shows
            if not select.select([self._process.stdout], [], [], patience)[0]:
                os.killpg(self._process.pid, signal.SIGKILL)
                raise AssertionError(f"{words[:2]} took over {patience:g} s")
            ended = self._process.stdout.readline()
            assert ended, f"the launcher ended at {words[:2]}"
            return Done(int(ended), *(stream.read_text(encoding="utf-8") for stream in streams[1:]))


def heed_signals() -> None:
    """A test runner in the background has SIGINT ignored, one of nohup SIGHUP, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def launcher(
    python: str | Path, *programs: str, modules: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Generator[Launcher]:
    """A launcher, as long as the context is open.

    Args:
        python: Of the environment where the programs are installed.
        programs: Their names, as typed.
        modules: What is imported besides.
        env: The launcher's own environment; by default this process's.
    """
    with subprocess.Popen(
        [python, "-c", _PROGRAM, json.dumps([programs, list(modules)])],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        preexec_fn=heed_signals,
        # what outlives a test that was given up goes with it
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline()) == sorted(programs)
            yield Launcher(process)
        finally:
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
