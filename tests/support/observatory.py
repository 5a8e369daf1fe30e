"""An Observatory for tests: a real server process on its own port, or the application in the test's process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import sqlalchemy as sa
from anyio.from_thread import start_blocking_portal
from sqlalchemy import event
from sqlalchemy.orm import Session

from observatory.app import create_app
from observatory.data_directory import prepare_directory
from observatory.identity.accounts import add_user
from observatory.quotas import Quotas
from observatory.services import Services, open_services
from observatory.settings import Settings, database_url
from observatory.store.database import open_database
from observatory.store.models import EpisodeRequest
from observatory.work.queue import MAX_ATTEMPTS

from .cli_kit import launcher_of
from .launcher import Command
from .waiting import until

__all__ = [
    "Inside",
    "Observatory",
    "ServerProcess",
    "inside",
    "kill_while_playing",
    "lay_tables",
    "new_services",
    "observatory_in_thread",
    "run_server",
    "running_observatory",
    "until_committed",
]

T = TypeVar("T")

START_SECONDS = 100
STOP_SECONDS = 30

_tables: list[bytes] = []
"""An SQLite file with all tables, empty; filled on first use."""


async def lay_tables(settings: Settings) -> None:
    """Put an empty SQLite database where the server would create it, unless there is one.

    Creating them has its own test; here it would take much of the time of most tests.
    """
    place = anyio.Path(settings.database_url.partition("///")[2])
    if settings.database is not None or await place.exists():
        return
    if not _tables:
        with tempfile.TemporaryDirectory() as directory:
            url = database_url(None, Path(directory))
            async with open_database(url) as database:
                await database.upgrade()
            _tables.append(await anyio.Path(url.partition("///")[2]).read_bytes())
    prepare_directory(settings.data)
    await place.write_bytes(_tables[0])


@asynccontextmanager
async def new_services(settings: Settings) -> AsyncGenerator[Services]:
    """A new Observatory's database and stores, without a server."""
    await lay_tables(settings)
    async with open_services(settings) as services:
        yield services


@dataclass
class Observatory:
    """A running server."""

    server: str
    """Its URL, for `--server`."""
    admin_token: str
    """Token of `admin`, a team member."""
    settings: Settings
    process: ServerProcess
    log: Path
    """The file with its standard error."""

    async def add_user(self, name: str, *, team: bool = False, email: str | None = None) -> str:
        """Create an account and return its token."""
        return await add_account(self.settings, name, team=team, email=email)

    @asynccontextmanager
    async def services(self) -> AsyncGenerator[Services]:
        """Its database and stores, opened by the test itself."""
        async with open_services(self.settings, upgrade=False) as services:
            yield services


async def until_committed(condition: Callable[[], Awaitable[T | None]], *, seconds: float = 300.0) -> T:
    """Wait until a condition returns a true value, and return it; asks after each transaction of this process.

    For an Observatory whose server and workers run in the test's own process: `waiting.until` is for others.
    """
    loop = asyncio.get_running_loop()
    committed = anyio.Event()

    def tell(_: Session) -> None:
        # Any thread may have an event loop with sessions.
        loop.call_soon_threadsafe(committed.set)

    event.listen(Session, "after_commit", tell)
    try:
        with anyio.fail_after(seconds):
            while True:
                committed = anyio.Event()
                if value := await condition():
                    return value
                await committed.wait()
    finally:
        event.remove(Session, "after_commit", tell)


async def add_account(settings: Settings, name: str, *, team: bool = False, email: str | None = None) -> str:
    """Create an account and return its token."""
    async with new_services(settings) as services, services.database.writing() as session:
        _, token = await add_user(session, services.tokens, name, email=email, team=team)
    return token.text


@asynccontextmanager
async def running_observatory(
    tmp_path: Path,
    *,
    backend: str = "none",
    arguments: tuple[str, ...] = (),
    database: str | None = None,
    artifacts: str | None = None,
    env: Mapping[str, str] | None = None,
    data: Path | None = None,
    admin: str | None = "admin",
    key: Path | None = None,
) -> AsyncGenerator[Observatory]:
    """Run a server while the context is open.

    Args:
        tmp_path: The directory for its data directory `observatory` and its log.
        backend: The backend of its worker; `none`: no worker.
        arguments: Further arguments of `observatory serve`.
        database: URL of its database; None: SQLite in the directory.
        artifacts: URL of its artifact store; None: in the directory.
        env: Further environment variables.
        data: Another data directory.
        key: File with the installation's key; None: beside the data directory.
        admin: Name of the account created before the start; None: no account, and `admin_token` is empty.
    """
    settings = Settings(data=data or tmp_path / "observatory", database=database, artifacts=artifacts, key=key)
    token = await add_account(settings, admin, team=True) if admin is not None else ""
    command = ["serve", "--port", "0", "--json", "--backend", backend, "--data", str(settings.data), *arguments]
    command += ["--database", database] if database else []
    command += ["--artifacts", artifacts] if artifacts else []
    command += ["--secret-key-file", str(key)] if key else []
    async with run_server(command, log=tmp_path / "observatory.log", env=env) as (process, said):
        settings = replace(settings, url=said["url"])
        yield Observatory(
            server=said["url"],
            admin_token=token,
            settings=settings,
            process=process,
            log=tmp_path / "observatory.log",
        )


@contextmanager
def observatory_in_thread(directory: Path, **options: Any) -> Generator[tuple[Observatory, Callable[[str], str]]]:
    """Run a server for tests that block; yields it and a function that creates an account and returns its token."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_observatory(directory, **options)) as served,
    ):
        yield served, lambda name: portal.call(served.add_user, name)


@dataclass
class Inside:
    """The application in the test's own process, called without a socket."""

    services: Services
    http: httpx2.AsyncClient
    """A client without a token; paths are below `/observatory`."""

    async def add_user(self, name: str, *, team: bool = False, email: str | None = None) -> str:
        """Create an account and return its token."""
        async with self.services.database.writing() as session:
            _, token = await add_user(session, self.services.tokens, name, email=email, team=team)
        return token.text

    async def ask(
        self,
        method: str,
        path: str,
        token: str | None = None,
        *,
        expect: int | None = 200,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> httpx2.Response:
        """Send a request with a token, and check the status."""
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        answer = await self.http.request(method, f"/observatory{path}", headers={**shown, **(headers or {})}, **more)
        assert expect is None or answer.status_code == expect, (method, path, answer.status_code, answer.text)
        return answer

    async def get(self, path: str, token: str | None = None, **params: Any) -> Any:
        """Send a GET request and return the JSON."""
        return (await self.ask("GET", path, token, params=params)).json()

    async def post(self, path: str, token: str | None = None, body: Any = None) -> Any:
        """Send a POST request and return the JSON."""
        return (await self.ask("POST", path, token, json=body)).json()


@asynccontextmanager
async def inside(
    tmp_path: Path,
    *,
    database: str | None = None,
    artifacts: str | None = None,
    quotas: Quotas | None = None,
    **more: Any,
) -> AsyncGenerator[Inside]:
    """Run the application without a server or worker while the context is open."""
    data = tmp_path / "observatory"
    settings = Settings(data=data, database=database, artifacts=artifacts, quotas=quotas or Quotas(), **more)
    async with new_services(settings) as services:
        transport = httpx2.ASGITransport(app=create_app(services))
        async with httpx2.AsyncClient(transport=transport, base_url=settings.url) as http:
            yield Inside(services, http)


class ServerProcess:
    """A server's process, with an interface like that of `anyio`'s processes.

    Args:
        command: The started command.
    """

    def __init__(self, command: Command) -> None:
        self._command = command

    @property
    def pid(self) -> int:
        """The process id."""
        return self._command.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._command.poll()

    async def wait(self) -> int:
        """Wait for the process to end, and return its status."""
        if self._command.returncode is None:
            await anyio.wait_readable(self._command.fileno())
        return self._command.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        self._command.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._command.kill()


@asynccontextmanager
async def run_server(
    command: list[str], *, log: Path, env: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple[ServerProcess, dict[str, Any]]]:
    """Run `observatory` with arguments, wait for its first line of JSON, and stop it at the end.

    Requires an open launcher, which the fixture `quick_commands` provides.
    """
    heard, said = os.pipe()
    try:
        with log.open("ab") as errors, open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - no file to wait for
            process = ServerProcess(
                launcher_of("observatory").start(
                    ["observatory", *command],
                    env={**os.environ, **(env or {})},
                    cwd=Path.cwd(),
                    streams=(nothing.fileno(), said, errors.fileno()),
                )
            )
    except BaseException:
        os.close(heard)
        raise
    finally:
        os.close(said)
    try:
        line = b""
        try:
            with anyio.fail_after(START_SECONDS):
                while not line.endswith(b"\n"):
                    await anyio.wait_readable(heard)
                    piece = os.read(heard, 4096)
                    if not piece:
                        raise EOFError
                    line += piece
        except (EOFError, TimeoutError) as error:
            raise AssertionError(f"the server did not start: {line!r}\n{_text(log)}") from error
        yield process, json.loads(line)
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process, log)
        os.close(heard)


async def _stop(process: ServerProcess, log: Path) -> None:
    process.send_signal(signal.SIGTERM)
    with anyio.move_on_after(STOP_SECONDS) as slow:
        await process.wait()
    if slow.cancelled_caught:
        process.kill()
        await process.wait()
        raise AssertionError(f"the server did not stop within {STOP_SECONDS} s\n{_text(log)}")


def _text(log: Path) -> str:
    return log.read_text(errors="replace")


async def kill_while_playing(services: Services, *processes: ServerProcess, owner: str) -> None:
    """SIGKILL, all at once, while an episode is being played by the one whose name as a worker contains this.

    An episode that would fail because its worker is killed for the last time is left to its end.
    """
    playing = sa.select(EpisodeRequest.attempts).where(
        EpisodeRequest.lease_owner.contains(owner), EpisodeRequest.status == "running"
    )

    async def caught() -> bool:
        # A process that is stopped cannot finish the episode meanwhile.
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        async with services.database.reading() as session:
            attempts = (await session.scalars(playing)).all()
        if attempts and max(attempts) < MAX_ATTEMPTS:
            return True
        for process in processes:
            process.send_signal(signal.SIGCONT)
        return False

    await until(caught, seconds=300, what="an episode that is being played", every=0.05)
    for process in processes:
        process.kill()
    for process in processes:
        await process.wait()
