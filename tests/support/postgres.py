"""A private PostgreSQL server: Debian's programs, a temporary directory, and no port."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["execute", "find_programs", "running_postgres"]

START_SECONDS = 60

_QUICK = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum=off", "max_connections=60")
"""Settings for speed, since a test's data need not survive a power cut."""


def find_programs() -> Path | None:
    """The directory of the newest installed server's programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


@contextmanager
def running_postgres(programs: Path) -> Generator[str]:
    """Run a server; yields the URL of a database, with `{name}` in place of the database's name."""
    # The path is short enough for a socket, and the server's user can reach it.
    directory = Path(tempfile.mkdtemp(prefix="observatory-pg-", dir="/tmp"))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(directory, user, user)
    data, log = directory / "data", directory / "log"
    try:
        initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        initdb += ["--locale=C"]
        subprocess.run(initdb, check=True, user=user, cwd=directory, stdout=subprocess.DEVNULL)
        options = [part for setting in _QUICK for part in ("-c", setting)]
        with log.open("wb") as output:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, "-k", directory, "-h", "", *options],
                user=user,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            _wait_ready(programs, directory, server, log)
            yield f"postgresql://postgres@/{{name}}?host={directory}"
        finally:
            # SIGINT: end the sessions that are left, and stop in good order
            server.send_signal(signal.SIGINT)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def execute(server: str, statement: str) -> None:
    """Execute a statement in the server's own database; ``server`` is the URL that ``running_postgres`` yields."""
    driver: Any = import_module("asyncpg")  # Its types are incomplete.
    connection = await driver.connect(server.format(name="postgres"))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _wait_ready(programs: Path, directory: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    ready = [programs / "pg_isready", "-q", "-h", directory, "-U", "postgres"]
    while subprocess.run(ready, check=False).returncode:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")
        time.sleep(0.05)
