"""A private PostgreSQL server: Debian's programs, a temporary directory, and no port."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from .needs import find_postgres
from .waiting import wait_until

__all__ = ["execute", "running_postgres"]

START_SECONDS = 60

_QUICK = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum=off", "max_connections=60")
"""Settings for speed, since a test's data need not survive a power cut."""


@contextmanager
def running_postgres() -> Generator[str]:
    """Run the newest installed server; yields the URL of a database, with `{name}` in place of its name."""
    programs = find_postgres()
    assert programs is not None, "a test that needs a server has the mark postgresql"
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
    """Execute a statement in the server's own database; `server` is the URL that `running_postgres` yields."""
    driver: Any = import_module("asyncpg")  # Its types are incomplete.
    connection = await driver.connect(server.format(name="postgres"))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _wait_ready(programs: Path, directory: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    asks = [programs / "pg_isready", "-q", "-h", directory, "-U", "postgres"]

    def ready() -> bool:
        assert server.poll() is None, f"PostgreSQL did not start:\n{log.read_text()}"
        return subprocess.run(asks, check=False).returncode == 0

    wait_until(ready, seconds=START_SECONDS, what=lambda: f"PostgreSQL is ready:\n{log.read_text()}", every=0.05)
