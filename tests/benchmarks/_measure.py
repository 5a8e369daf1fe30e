"""Times programs from outside, and shows figures side by side."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Timing:
    """One run of a program."""

    wall: float
    cpu: float
    """User and system seconds of the program and its children; containers do not count."""
    output: str


def run(command: Sequence[str], *, env: dict[str, str] | None = None) -> Timing:
    """Run a program to its end and time it.

    Raises:
        SystemExit: The exit status was not 0.
    """
    begun = time.monotonic()
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env or ordinary_environment()
    )
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    text = output.decode(errors="replace")
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)[:200]} ended with status {child.returncode}:\n{text[-4000:]}")
    return Timing(wall, usage.ru_utime + usage.ru_stime, text)


def ordinary_environment() -> dict[str, str]:
    """An environment in which Python stores bytecode, as it does by default."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Not beside the sources, because a checkout should stay clean and may not be writable.
    env.setdefault(
        "PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / f"coworld-benchmark-bytecode-{os.getuid()}")
    )
    return env


def interleaved(rounds: int, *programs: Any) -> list[list[Any]]:
    """Call each program once per round, A, B, A, B, …; returns the results by program."""
    results: list[list[Any]] = [[] for _ in programs]
    for _ in range(rounds):
        for program, collected in zip(programs, results, strict=True):
            collected.append(program())
    return results


def median(values: Sequence[float]) -> float:
    """The median, or 0 without values."""
    return statistics.median(values) if values else 0.0


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and range as text."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def peak_mib() -> float:
    """Peak resident MiB of this process; `getrusage` would include that of the program that started it."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def machine() -> dict[str, Any]:
    """The machine on which the figures are taken."""
    return {"processors": os.cpu_count(), "load": round(os.getloadavg()[0], 2), "python": sys.version.split()[0]}


def show(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = [list(map(str, row)) for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    print(f"\n{title}")
    for index, row in enumerate(table):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if index == 0:
            print("  ".join("-" * width for width in widths))
    sys.stdout.flush()


def finish(figures: dict[str, Any], *, as_json: bool) -> None:
    """Print the figures as JSON, if requested."""
    if as_json:
        print(json.dumps(figures, indent=2))


def python() -> str:
    """The interpreter that runs this."""
    return sys.executable


HERE = Path(__file__).parent
