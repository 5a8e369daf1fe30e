"""Leagues whose rounds a commissioner decides, kept playing while a server runs.

One server at a time talks to a league's commissioner, under a lease. When that server stops or dies, the next one reads
the log and continues: it starts the open round again with the commissioner, and answers its requests with the episodes
that have already been played (`coworld_runner.evaluation.tournament.commissioned_rounds`).
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import sqlalchemy as sa
from anyio.abc import TaskGroup
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.commissioner import HookName
from coworld_core.episode import BaseEvent, Notice
from coworld_core.errors import CommissionerError, CoworldError, UsageError, unwrapped
from coworld_core.ids import new_run_id
from coworld_core.tournament import RoundDecided
from coworld_runner.evaluation.commissioner import FoundCommissioner, declared_commissioner
from coworld_runner.evaluation.tournament import CommissionedTournament

from ..services import Services
from ..store.columns import new_id, now
from ..store.models import Commission, League
from ..supervisor import Supervisor, report
from .commissioner_events import LeaseLost, write_events
from .commissioner_log import CommissionedSeason, division_key, living_members, open_season, take_in_played
from .executor import Executor
from .league_settings import LeagueSettings
from .leftovers import remove_leftovers
from .seasons import COMMISSIONED, MOST_RETREAT

__all__ = ["lifespan"]

_LOOK_SECONDS = 1.0
_KEEP_SECONDS = 20.0
"""How long to keep a commissioner's program running with nothing to send to it."""
_RETREAT_SECONDS = 5.0
"""The pause after the first failure of a commissioner; it doubles with each further one, up to `MOST_RETREAT`."""
_log = logging.getLogger("observatory.work.commissioner_service")
_supervisor = Supervisor(_log)


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Have commissioners decide rounds while the server runs, if it has a backend."""
    async with anyio.create_task_group() as group:
        if services.runtime.executor is not None:
            group.start_soon(_CommissionerService(services, services.runtime.executor).look_after, group)
        yield
        group.cancel_scope.cancel()


@dataclass
class _Failures:
    count: int = 0
    until: float = 0.0

    def another(self, least: float) -> None:
        """Record a failure and wait before the next attempt, for at least `least` seconds."""
        retreat = min(MOST_RETREAT, _RETREAT_SECONDS * 2**self.count)
        self.count, self.until = self.count + 1, anyio.current_time() + max(least, retreat)


@dataclass
class _CommissionerService:
    """The leagues that a server looks after."""

    services: Services
    executor: Executor
    busy: set[str] = field(default_factory=set[str])
    failures: dict[str, _Failures] = field(default_factory=dict[str, _Failures])

    async def look_after(self, group: TaskGroup) -> None:
        """Play the leagues that no other server plays."""

        async def look() -> None:
            async with self.services.database.reading() as session:
                wanted = (League.commissioner_key == COMMISSIONED, League.disabled_at.is_(None))
                found = (await session.scalars(sa.select(League.id).where(*wanted))).all()
            for league in found:
                failures = self.failures.setdefault(league, _Failures())
                if league not in self.busy and anyio.current_time() >= failures.until:
                    self.busy.add(league)
                    group.start_soon(self._keep, league)

        what = "Leagues with commissioners cannot be checked for due rounds"
        await Supervisor(_log, repeats=False).repeat(look, what, seconds=_LOOK_SECONDS)

    async def _keep(self, league: str) -> None:
        lease = _Lease(self.services, league)
        failures = self.failures[league]
        playing = _League(self.services, self.executor, lease, failures)
        what = f"League {league} cannot be run"
        try:
            if not await lease.take():
                return
            await remove_leftovers(self.executor.backend, lease.left)
            async with anyio.create_task_group() as group:
                group.start_soon(lease.keep, group.cancel_scope)
                try:
                    with unwrapped():
                        await playing.play()
                except LeaseLost:
                    pass
                except Exception as error:  # noqa: BLE001 - the trouble of one league is not that of the others
                    failures.another(playing.every)
                    report(_log, what, error)
                    with _supervisor.trying(what):
                        await lease.note(_reason(error))
                group.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - the same, before there is a commissioner
            failures.another(0.0)
            report(_log, what, error)
        finally:
            self.busy.discard(league)
            with anyio.move_on_after(5.0, shield=True), _supervisor.trying(what):
                await lease.give_back()


def _reason(error: Exception) -> str:
    """What a league's pages say about an error; details of an unexpected one stay in the operator's log."""
    if isinstance(error, CoworldError):
        return error.message
    return f"Internal server error ({type(error).__name__}). See the server's log."


class _Lease:
    """The right to talk to a league's commissioner."""

    def __init__(self, services: Services, league: str) -> None:
        self._database = services.database
        self._seconds = services.settings.lease
        self._owner = services.settings.owner("commissioner")
        self.league = league
        self.token = new_id()
        self.run_id = new_run_id()
        """The run label of the commissioner's program."""
        self.left = ""
        """The run label of a program left by a server that was killed while it held the lease."""

    async def take(self) -> bool:
        """Take the lease unless another server holds it; one that this server held before it was killed is free."""
        async with self._database.writing() as session:
            await session.get_one(League, self.league, with_for_update={"of": League})
            row = await session.get(Commission, self.league)
            if row is None:
                row = Commission(league_id=self.league)
                session.add(row)
            elif row.owner not in (None, self._owner) and row.expires_at > now():
                return False
            self.left = row.run_id or ""
            row.owner, row.token, row.expires_at = self._owner, self.token, self._deadline()
            row.run_id = self.run_id
            return True

    async def keep(self, scope: anyio.CancelScope) -> None:
        """Renew the lease regularly; cancel the scope once it is lost."""

        async def renew() -> None:
            if not await self._set(expires_at=self._deadline()):
                scope.cancel()

        what = f"The lease of league {self.league} cannot be renewed"
        await anyio.sleep(self._seconds / 3)
        await _supervisor.repeat(renew, what, seconds=self._seconds / 3)

    async def note(self, trouble: str | None) -> None:
        """Store why no round is played; None clears it."""
        await self._set(trouble=trouble, trouble_at=now() if trouble is not None else None)

    async def give_back(self) -> None:
        """Release the lease."""
        await self._set(owner=None, token=None, run_id=None)

    async def _set(self, **values: object) -> bool:
        async with self._database.writing() as session:
            kept = await session.scalars(
                sa.update(Commission)
                .where(Commission.league_id == self.league, Commission.token == self.token)
                .values(**values)
                .returning(Commission.league_id)
            )
            return bool(kept.all())

    def _deadline(self) -> dt.datetime:
        return now() + dt.timedelta(seconds=self._seconds)


class _League:
    """A league with its commissioner, while this server holds the lease."""

    def __init__(self, services: Services, executor: Executor, lease: _Lease, failures: _Failures) -> None:
        self._database = services.database
        self._place = executor
        self._lease = lease
        self._league = lease.league
        self._failures = failures
        self._asked = -float("inf")
        self._paused = False
        self._troubled = False
        self._terms = LeagueSettings()

    async def play(self) -> None:
        """Play until the league is no longer this server's.

        Raises:
            LeaseLost: Another server plays the league, or it is played in another way now.
            CommissionerError: The commissioner failed, and the open round with it.
        """
        while True:
            async with self._database.reading() as session:
                league = await session.get_one(League, self._league)
                self._look_at(league)
                self._troubled = (await session.get_one(Commission, self._league)).trouble is not None
                season = await open_season(session, league)
                if season is None:
                    raise UsageError("The Coworld of this league no longer exists.", code="unknown_coworld")
                found = await self._find(session, season)
            await write_events(self._database, season, self._lease.token)
            commissioner = CommissionedTournament(
                season,
                season.view(),
                found,
                backend=self._place.backend,
                publish=_say,
                hooks=self._terms.hooks,
                run_id=self._lease.run_id,
            )
            # It shields its own clean-up. What it opened in this task must be closed in this task.
            async with aclosing(commissioner):
                await self._play(season, commissioner, found.name, self._terms.hooks)

    @property
    def every(self) -> float:
        """The least number of seconds between two requests for rounds."""
        return self._terms.every_seconds

    def _look_at(self, league: League) -> None:
        if league.commissioner_key != COMMISSIONED or league.disabled_at is not None:
            raise LeaseLost
        terms, self._paused = LeagueSettings.of(league.commissioner_config), league.paused_at is not None
        self._terms = terms

    async def _find(self, session: AsyncSession, season: CommissionedSeason) -> FoundCommissioner:
        """The league's commissioner, as this server may run it."""
        found = declared_commissioner(season.setup.manifest, self._terms.commissioner_runnable_id or "")
        admission = self._place.admission
        admitted = await admission.admit(session, found.runnable, owner=season.setup.coworld.user_id)
        return replace(found, runnable=admitted.runnable)

    async def _play(
        self, season: CommissionedSeason, commissioner: CommissionedTournament, asked: str, hooks: Collection[HookName]
    ) -> None:
        """Play a season until, between two rounds, its members, its game or the hooks to ask change."""
        while True:
            async with self._database.reading() as session:
                league = await session.get_one(League, self._league)
                self._look_at(league)
                if league.season != season.number or self._terms.commissioner_runnable_id != asked:
                    raise LeaseLost
                await take_in_played(session, season)
                changed = season.played is None and (
                    self._terms.hooks != hooks or await _has_changed(session, season, league)
                )
            if changed:
                await anyio.sleep(_LOOK_SECONDS)
                return
            wait = self._wait(season)
            if wait > _KEEP_SECONDS:
                await commissioner.aclose()
            waits = commissioner.conversation.waits
            if wait == 0:
                # While episodes are running, this only looks whether the commissioner is still there.
                await self._step(season, commissioner)
            if wait > 0 or waits:
                await anyio.sleep(min(wait or _LOOK_SECONDS, _LOOK_SECONDS))

    def _wait(self, season: CommissionedSeason) -> float:
        """Seconds until a round may begin; 0 during a round."""
        if season.played is not None:
            return 0.0
        if self._paused or not season.members:
            return float("inf")
        league = season.tournament.league
        if league.open is not None or league.commissioner != self._terms.commissioner_runnable_id:
            return 0.0
        last = max(season.began.values(), default=None)
        early = (last + dt.timedelta(seconds=self.every) - now()).total_seconds() if last is not None else 0.0
        return max(0.0, early, self._asked + max(self.every, _LOOK_SECONDS) - anyio.current_time())

    def _overtime(self, season: CommissionedSeason) -> CommissionerError | None:
        """The error for a round that takes too long; None while there is time."""
        due, most = season.played, self._terms.lifetime_seconds
        if due is None or now() < season.began[due.round] + dt.timedelta(seconds=most):
            return None
        return CommissionerError(f"The round did not complete within {most:g} s.", code="commissioner_overtime")

    async def _step(self, season: CommissionedSeason, commissioner: CommissionedTournament) -> None:
        """Exchange one message with the commissioner, and store what follows from it."""
        league = season.tournament.league
        asks = league.open is None and bool(league.commissioner)
        if asks:
            self._asked = anyio.current_time()
            commissioner.conversation.ask_again()
        # Void blocks do not stop a league: the commissioner is told about them.
        season.tournament.stopped = ""
        try:
            if (error := self._overtime(season)) is not None and season.played is not None:
                commissioner.conversation.drop(season.played, error)
                raise error
            await commissioner.step()
        except CommissionerError:
            await write_events(self._database, season, self._lease.token)
            raise
        decided = any(isinstance(event, RoundDecided) for event in season.pending)
        idle = asks and league.idle and not season.pending
        await write_events(self._database, season, self._lease.token)
        if decided or idle:
            self._failures.count = 0
        if idle and self._troubled:
            await self._lease.note(None)
            self._troubled = False


async def _has_changed(session: AsyncSession, season: CommissionedSeason, league: League) -> bool:
    """Whether the members, their divisions or the game have changed."""
    setup = season.setup
    if (league.game.coworld_id, league.variant_id or setup.manifest.variants[0].id) != (
        setup.coworld.id,
        setup.variant,
    ):
        return True
    members, state = await living_members(session, league.id), season.tournament.league
    return members.keys() != season.members.keys() or any(
        (now.membership_id, now.candidate) != (season.members[name].membership_id, season.members[name].candidate)
        or now.division_id != division_key(state.membership(name).division)
        for name, now in members.items()
    )


def _say(event: BaseEvent) -> None:
    if isinstance(event, Notice):
        _log.log(logging.WARNING if event.level == "warning" else logging.INFO, "%s", event.message)
