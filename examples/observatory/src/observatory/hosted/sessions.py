"""Games hosted for people: replays shown by the game itself, and games with seats that people can take.

A session lives in the server's process and runs on its backend. It ends with the game, after a while without visitors,
or with the server. Leftovers of a killed server are removed by label when the next one starts.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hmac
import logging
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import sqlalchemy as sa
from anyio.abc import TaskGroup
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.episode import EpisodeLayout
from coworld_core.errors import CoworldError
from coworld_core.ids import new_run_id

from ..episodes.downloads import plain_chunks
from ..errors import Refusal, conflict, explained, not_found
from ..identity.auth import Caller
from ..identity.limits import Taker, quotas_of, taker_of
from ..store.columns import new_id, now
from ..store.models import Artifact, Coworld, EpisodeRequest, HostedSession, User
from .archive import archive_play
from .games import HostedGame, SeatedPerson, plan_game
from .session_state import kept_state

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from coworld_core.episode import BaseEvent, EpisodeRecord
    from coworld_core.manifest import Manifest
    from coworld_runner.episode import PlayLinks

    from ..services import Services
    from ..work.executor import Executor

__all__ = [
    "Session",
    "Sessions",
    "elsewhere",
    "is_live_key",
    "open_sessions",
    "session_here",
    "sessions_of",
    "until_started",
    "viewer_of",
    "wait_ready",
]

_log = logging.getLogger("observatory.hosted")

MOST = 8
"""The most sessions of each kind at a time."""
IDLE_SECONDS = 300.0
"""How long a session without visitors keeps running."""
REPLAY_SECONDS = 3600.0
"""How long a replay is shown, however many watch it. A game for people has the time limit of an episode."""
SHARE_SECONDS = 300.0
"""How long a replay that is watched keeps its place while others wait for one."""
START_SECONDS = 20.0
"""How long a request waits for a session to start before it is told to retry."""
KEEP_SECONDS = 120.0
"""How long storing a played game may take, even while the server stops."""


_NOTHING = HostedGame(coworld_id="", variant="", config={}, slots=0)


@dataclass(kw_only=True)
class Session:
    """A game hosted for people. Anyone who knows its id may watch."""

    id: str
    kind: Literal["play", "replay"]
    coworld_id: str
    run_id: str = field(default_factory=new_run_id)
    server: str = ""
    """The name of the server that it runs on."""
    user_id: str | None = None
    player_id: str | None = None
    episode_id: str | None = None
    """The episode that is replayed, or the one that a played game was stored as."""
    spectators: bool = True
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of the episode that a played game becomes."""
    game: HostedGame = _NOTHING
    """What is played, and by which policies."""
    address: str = ""
    """`host:port` of the game, once it is ready."""
    page: str = ""
    """Path and query of the viewer's page."""
    seats: dict[int, str] = field(default_factory=dict[int, str], repr=False)
    """Path and query of the page of each person's slot."""
    joined: dict[int, SeatedPerson] = field(default_factory=dict[int, SeatedPerson])
    """The people, by slot."""
    scores: tuple[float, ...] = ()
    started: bool = False
    """Whether anyone has connected to play."""
    ready: anyio.Event = field(default_factory=anyio.Event)
    error: str = ""
    over: bool = False
    taker: str = ""
    """Whom it counts for, if it is a replay (`Taker.key`)."""
    began: float = field(default_factory=anyio.current_time)
    used: float = 0.0
    """The last visit, by the event loop's clock, as `began`."""
    watching: int = 0
    """The number of open connections."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set once everything is cleaned up."""


OnStored = Callable[[AsyncSession, Session], Awaitable[None]]
"""Called in a writing session, with the hosted session that it stores."""


class Sessions:
    """All sessions of a server.

    Args:
        services: The Observatory.
        executor: Where they run.
        group: The task group of their tasks.
    """

    def __init__(self, services: Services, executor: Executor, group: TaskGroup) -> None:
        self._services = services
        self._place = executor
        self._group = group
        self._sessions: dict[str, Session] = {}
        self._work = services.settings.data / "sessions"

    def get(self, session_id: str) -> Session | None:
        """A session by its id; finished ones remain for a while."""
        return self._sessions.get(session_id)

    @contextlib.contextmanager
    def used(self, session: Session) -> Generator[None]:
        """Count a visitor while the block lasts."""
        session.watching += 1
        session.used = anyio.current_time()
        try:
            yield
        finally:
            session.watching -= 1
            session.used = anyio.current_time()

    # --- replays

    async def show(self, row: EpisodeRequest, replay: Artifact, caller: Caller, taker: Taker) -> Session:
        """A session that shows an episode's replay; an existing one is shared.

        Raises:
            Refusal: 429 while the caller has too many, 503 while the server has.
        """
        for session in self._sessions.values():
            if session.kind == "replay" and session.episode_id == row.id and not session.over:
                session.used = anyio.current_time()
                return session
        self._make_room_for(taker)
        session = Session(
            id=new_id("cps"), kind="replay", coworld_id=row.coworld_id, episode_id=row.id, taker=taker.key
        )
        await self._begin(session, caller)
        self._group.start_soon(self._run, session, self._replay, replay, name=f"replay {row.id}")
        return session

    async def _replay(self, session: Session, artifact: Artifact) -> None:
        from coworld_runner.replay import open_replay_mode

        manifest = await self._manifest(session.coworld_id)
        directory = self._work / session.id
        await anyio.Path(directory).mkdir(mode=0o700, parents=True)
        file = directory / "replay"
        async with await anyio.open_file(file, "xb") as target:
            async for piece in plain_chunks(self._services.artifacts, artifact):
                await target.write(piece)
        async with open_replay_mode(
            manifest, file, backend=self._place.backend, publish=_ignore, run_id=session.run_id
        ) as shown:
            link = urlsplit(shown.link)
            session.address, session.page = link.netloc, f"{link.path}?{link.query}" if link.query else link.path
            session.ready.set()
            async with anyio.create_task_group() as group:
                group.cancel_scope.deadline = anyio.current_time() + REPLAY_SECONDS
                group.start_soon(self._until_idle, session, group)
                await shown.unit.wait()
                group.cancel_scope.cancel()

    async def _until_idle(self, session: Session, group: TaskGroup) -> None:
        await session.ready.wait()
        session.used = anyio.current_time()
        while session.watching or anyio.current_time() - session.used < IDLE_SECONDS:  # noqa: ASYNC110 - it is time
            await anyio.sleep(min(5.0, IDLE_SECONDS / 4))
        group.cancel_scope.cancel()

    # --- play

    async def play(
        self,
        game: HostedGame,
        caller: Caller,
        *,
        spectators: bool,
        labels: Mapping[str, str] | None = None,
        instead_of: Session | None = None,
        on_stored: OnStored | None = None,
    ) -> Session:
        """Start a game with seats for people.

        Args:
            game: The game.
            caller: The account that starts it.
            spectators: Whether anyone with the link may watch.
            labels: Labels of the episode that it becomes.
            instead_of: A game without players to replace; the new one gets its id.
            on_stored: Called in the transaction that stores the session; if it raises, no game is started.

        Raises:
            Refusal: 409 for a game that has begun, 429 while the caller has too many sessions, 503 while the server
                has.
        """
        if instead_of is not None:
            if instead_of.joined or instead_of.over:
                raise conflict(
                    "People have already joined this game, or it is over. Start another one.", code="game_begun"
                )
            await self.end(instead_of)
        self._require_room(caller.require())
        if len(self._alive("play")) >= MOST:
            raise _full("games are already being played")
        session = Session(
            id=instead_of.id if instead_of is not None else new_id("cps"),
            kind="play",
            coworld_id=game.coworld_id,
            spectators=spectators,
            labels=dict(labels or {}),
            game=game,
            joined=dict(game.people),
        )
        await self._begin(session, caller, on_stored=on_stored)
        self._group.start_soon(self._run, session, self._play, game, name=f"play {session.id}")
        return session

    async def check(self, game: HostedGame) -> None:
        """Check that all programs of a game may run here, before it is started.

        Raises:
            Refusal: 409 with the reason.
        """
        try:
            await plan_game(self._services, self._place.admission, game)
        except CoworldError as error:
            raise conflict(explained(error), code=error.code) from error

    async def _play(self, session: Session, game: HostedGame) -> None:
        from coworld_runner.episode import EpisodeOptions, run_episode

        plan = await plan_game(self._services, self._place.admission, game)

        def ready(links: PlayLinks) -> None:
            viewer = urlsplit(links.viewer)
            session.address, session.page = viewer.netloc, _path(links.viewer)
            # A policy's token is its own.
            people = links.players.keys() - game.policies.keys()
            session.seats = {slot: _path(links.players[slot]) for slot in people}
            session.ready.set()

        workspace = self._work / session.id
        record: EpisodeRecord | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_idle, session, group)
            record = await run_episode(
                plan,
                backend=self._place.backend,
                workspace=workspace,
                options=EpisodeOptions(on_player_failure="continue"),
                on_ready=ready,
                run_id=session.run_id,
            )
            group.cancel_scope.cancel()
        if record is None:
            session.error = "The game was stopped because nobody was connected any more."
            return
        session.scores = record.scores
        if record.fault is not None:
            session.error = record.fault.message
        if session.started:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + KEEP_SECONDS):
                session.episode_id = await archive_play(self._services, session, plan, record, EpisodeLayout(workspace))

    async def join(self, session: Session, caller: Caller) -> SeatedPerson:
        """Take a seat, or return the seat that the caller already has.

        Raises:
            Refusal: 409 if all seats are taken, or the game is over.
        """
        caller.require()
        session.used = anyio.current_time()
        for seat in session.joined.values():
            if seat.subject_id == caller.subject_id:
                return seat
        if session.over:
            raise conflict("This game is over.", code="game_over")
        taken = session.joined.keys() | session.game.policies.keys()
        slot = next((slot for slot in range(session.game.slots) if slot not in taken), None)
        if slot is None:
            raise conflict("Every seat of this game is taken.", code="game_full")
        session.joined[slot] = seat = SeatedPerson.of(caller, slot)
        return seat

    # --- both

    async def _begin(self, session: Session, caller: Caller, *, on_stored: OnStored | None = None) -> None:
        session.user_id, session.player_id = caller.user_id, caller.player_id
        session.used = anyio.current_time()
        # It counts from here on, so that requests at the same time do not exceed a limit together.
        session.server = self._services.settings.owner("server")
        before = self._sessions.get(session.id)
        self._sessions[session.id] = session
        try:
            async with self._services.database.writing() as db:
                await db.merge(
                    HostedSession(
                        id=session.id,
                        kind=session.kind,
                        user_id=caller.user_id,
                        coworld_id=session.coworld_id,
                        variant_id=session.game.variant or None,
                        episode_request_id=session.episode_id,
                        run_id=session.run_id,
                        status="starting",
                        state=kept_state(session),
                        ended_at=None,
                    )
                )
                if on_stored is not None:
                    await db.flush()
                    await on_stored(db, session)
        except BaseException:
            session.over = True
            session.ready.set()
            session.ended.set()
            if before is None:
                del self._sessions[session.id]
            else:
                self._sessions[session.id] = before
            raise

    async def end(self, *sessions: Session) -> None:
        """End sessions, by default all, and wait until they are cleaned up."""
        for session in sessions or tuple(self._sessions.values()):
            session.scope.cancel()
            await session.ended.wait()

    def _require_room(self, user: User) -> None:
        most = quotas_of(user, self._services.settings.quotas).sessions
        mine = [each for each in self._alive("play") if each.user_id == user.id]
        if most is not None and len(mine) >= most:
            raise Refusal(
                429,
                f"You have {most} games in progress, the most allowed. End one, or wait until one is over.",
                code="quota_exceeded",
                headers={"Retry-After": "60"},
            )

    def _alive(self, kind: Literal["play", "replay"]) -> list[Session]:
        return [session for session in self._sessions.values() if session.kind == kind and not session.over]

    def _make_room_for(self, taker: Taker) -> None:
        """End a replay if there are too many, of one account or in all: the one that is missed least."""
        alive, most = self._alive("replay"), taker.quotas.replays
        mine = [session for session in alive if session.taker == taker.key]
        if most is not None and len(mine) >= most:
            idle = [session for session in mine if session.ready.is_set() and not session.watching]
            if not idle:
                raise Refusal(
                    429,
                    f"You have {most} replays open, the most allowed. Close one, then try again.",
                    code="quota_exceeded",
                    headers={"Retry-After": "30"},
                )
        elif len(alive) >= MOST:
            idle = [session for session in alive if self._gives_way(session, taker)]
            if not idle:
                raise _full("replays are already being shown")
        else:
            return
        last = min(idle, key=lambda session: (session.watching > 0, session.user_id is not None, session.used))
        last.over = True
        last.scope.cancel()

    def _gives_way(self, session: Session, taker: Taker) -> bool:
        """Whether a replay may be ended for another one."""
        if not session.ready.is_set():
            return False
        if not session.watching or (taker.known and session.user_id is None):
            return True
        return anyio.current_time() - session.began >= SHARE_SECONDS

    async def _run(self, session: Session, body: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Run a session to its end, and clean up."""
        from coworld_core.errors import unwrapped

        try:
            with session.scope, unwrapped():
                await body(session, *arguments)
        except CoworldError as error:
            session.error = error.message
        except Exception as error:  # noqa: BLE001 - one session's trouble is not the server's
            _log.exception("A play session failed.")
            session.error = f"Internal server error: {type(error).__name__}."
        finally:
            session.over = True
            session.ready.set()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, self._work / session.id)
                with contextlib.suppress(Exception):
                    async with self._services.database.writing() as db:
                        await db.execute(
                            sa.update(HostedSession)
                            .where(HostedSession.id == session.id)
                            .values(
                                status="failed" if session.error else "over",
                                state=kept_state(session),
                                ended_at=now(),
                            )
                        )
                session.ended.set()
        # Keep it for a while, so that returning visitors learn that the game is over.
        await anyio.sleep(IDLE_SECONDS)
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]

    async def _manifest(self, coworld_id: str) -> Manifest:
        from ..work.plan import runnable_manifest

        async with self._services.database.reading() as db:
            coworld = await db.get_one(Coworld, coworld_id)
            return await runnable_manifest(db, coworld, self._place.admission)


@asynccontextmanager
async def open_sessions(services: Services) -> AsyncGenerator[Sessions | None]:
    """Open the sessions of a server in `services.runtime`; None if it has no backend."""
    executor = services.runtime.executor
    if executor is None:
        yield None
        return
    await _take_back(services, executor)
    async with anyio.create_task_group() as group:
        services.runtime.sessions = Sessions(services, executor, group)
        try:
            yield services.runtime.sessions
        finally:
            services.runtime.sessions = None
            group.cancel_scope.cancel()


async def _take_back(services: Services, executor: Executor) -> None:
    """Remove leftovers of this server's sessions if it was killed, and of others' that cannot go on any more."""
    mine = services.settings.owner("server")
    longest = dt.timedelta(seconds=max(REPLAY_SECONDS, services.settings.episode_timeout) + KEEP_SECONDS)
    async with services.database.reading() as db:
        found = (await db.scalars(sa.select(HostedSession).where(HostedSession.ended_at.is_(None)))).all()
    rows = [row for row in found if row.state.get("server", mine) == mine or row.created_at < now() - longest]
    for row in rows:
        if row.run_id:
            try:
                await executor.backend.reap(await executor.backend.find(row.run_id))
            except CoworldError as error:
                _log.warning("The leftovers of a play session cannot be removed: %s", error)
        await anyio.to_thread.run_sync(_remove, services.settings.data / "sessions" / row.id)
    if rows:
        async with services.database.writing() as db:
            await db.execute(
                sa.update(HostedSession)
                .where(HostedSession.id.in_([row.id for row in rows]))
                .values(status="lost", ended_at=now())
            )


async def session_here(
    services: Services, session_id: str | None, *, may: Callable[[HostedSession], bool] = lambda _: True
) -> Session | None:
    """A session by its id, finished ones for a while; None if there is none.

    Args:
        services: The services.
        session_id: The id.
        may: Whether the caller may know that it runs.

    Raises:
        Refusal: 421 (code `elsewhere`): it runs on another server of this platform.
    """
    sessions = services.runtime.sessions
    session = sessions.get(session_id) if sessions is not None and session_id is not None else None
    if session is None and session_id is not None:
        async with services.database.reading() as db:
            row = await db.get(HostedSession, session_id)
        if row is not None and row.ended_at is None and may(row):
            raise elsewhere(row)
    return session


def elsewhere(row: HostedSession) -> Refusal:
    """The refusal of what concerns a game that another server runs."""
    return Refusal(
        421,
        f"The game {row.id} runs on another server of this platform. Ask its operator to have the proxy send games to "
        "a single server.",
        code="elsewhere",
    )


def sessions_of(services: Services) -> Sessions:
    """The sessions of a server.

    Raises:
        Refusal: 503 if it has no backend.
    """
    if services.runtime.sessions is None:
        raise Refusal(503, "This server runs no games: it was started without a backend.", code="no_backend")
    return services.runtime.sessions


async def viewer_of(services: Services, caller: Caller, row: EpisodeRequest, connection: HTTPConnection) -> str:
    """The address of a page on which the game shows an episode's replay.

    Args:
        services: The Observatory.
        caller: Who asks.
        row: The episode.
        connection: The request.

    Raises:
        Refusal: 404 without a replay, 429 while the caller watches too many, 503 with `Retry-After` while the server
            shows too many or this one is starting, 502 if it failed to start.
    """
    replay = next((item for item in row.artifacts if item.kind == "replay"), None)
    if replay is None:
        raise not_found("replay of episode", row.id)
    taker = taker_of(caller.user, connection, services.settings.quotas)
    session = await sessions_of(services).show(row, replay, caller, taker)
    await wait_ready(session)
    return f"{services.settings.url}/sessions/{session.id}{session.page}"


async def until_started(session: Session) -> None:
    """Wait a limited time until a session has started, or has failed to."""
    with anyio.move_on_after(START_SECONDS):
        await session.ready.wait()


async def wait_ready(session: Session) -> None:
    """Wait a limited time for a session to start.

    Raises:
        Refusal: 503 with `Retry-After` if it takes longer, 502 if it failed to start.
    """
    await until_started(session)
    if not session.ready.is_set():
        raise Refusal(503, "The game is still starting.", code="starting", headers={"Retry-After": "2"})
    if not session.address:
        raise Refusal(502, session.error or "The game did not start.", code="game_did_not_start")


def is_live_key(services: Services, episode_id: str, key: str) -> bool:
    """Whether this server issued a key in a path to a running episode."""
    return hmac.compare_digest(services.runtime.links.mark(f"live {episode_id}").encode(), key.encode())


def _full(what: str) -> Refusal:
    return Refusal(
        503,
        f"{MOST} {what}, the most this server allows. Try again later.",
        code="too_many_sessions",
        headers={"Retry-After": "30"},
    )


def _path(link: str) -> str:
    url = urlsplit(link)
    return f"{url.path}?{url.query}" if url.query else url.path


def _ignore(_: BaseEvent) -> None:
    return None


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
