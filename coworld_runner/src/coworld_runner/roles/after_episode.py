"""Grades, reports on and diagnoses episodes that have ended, and keeps what is said beside them.

The same program on the same episode is not run twice: what it said before is found by its key, a digest of the program
and of all that it was given.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import anyio.to_thread

from coworld_core.episode.record import ROWS_NAME, EpisodeRecord, read_record, read_rows
from coworld_core.errors import CoworldError, UsageError
from coworld_core.hints import Hint
from coworld_core.ids import new_run_id
from coworld_core.roles.bundle_file import read_bundle
from coworld_core.roles.finished_episode import FinishedEpisode
from coworld_core.roles.role_record import (
    ROLE_FILES,
    DiagnosedPlayer,
    Role,
    RoleRecord,
)
from coworld_core.text.phrases import closest, listed

from ..backend import Backend, Publish, to_nobody
from ..package.locations import expand, missing
from ..package.resolver import Package, resolve_package
from ..runs.episode_places import find_episode
from ..runs.event_bus import EventBus
from ..runs.scratch import open_scratch
from ..runs.workspace import digest, plain_name
from .episode_bundle import EndedEpisode, bundle_episode, read_episode
from .kept_answer import (
    EVENTS_KEPT,
    answer_directory,
    answer_name,
    kept_record,
    refuse_foreign,
    role_finished,
    run_and_keep,
)
from .role_backend import role_backend
from .role_program import RoleProgram, find_role
from .role_run import RoleOptions, RoleWork
from .role_work import diagnosis_work, grade_work, report_work

__all__ = [
    "RoleAnswer",
    "RoleArguments",
    "Run",
    "diagnose_episode",
    "grade_episode",
    "named_player",
    "package_of",
    "report_episodes",
]

Run = str | os.PathLike[str]
"""An episode: its workspace, `latest`, an episode of a run of many, or a bundle."""


class RoleArguments(TypedDict, total=False):
    """How the program of a role is run."""

    game: Package | str | os.PathLike[str] | None
    """The package; None: the one that the episode's record names."""
    backend: Backend | str
    """An entered backend, or the name of one; `auto` by default."""
    options: RoleOptions | None
    """How the program is run."""
    publish: Publish | None
    """Receives events, which `events.ndjson` beside the answer has too: `RoleStarted`, `RoleProgressed` and
    `RoleFinished`, and those of the program."""
    again: bool
    """Whether to run the program even if its answer is there."""


async def grade_episode(
    run: Run,
    *,
    grader: str | RoleProgram | None = None,
    directory: Path | None = None,
    **how: Unpack[RoleArguments],
) -> RoleAnswer:
    """Grade an episode.

    ::

        graded = await grade_episode("examples/paintarena/results/latest")
        print(graded.answer["score"])

    Args:
        run: The episode.
        grader: An id of the manifest, a file (`./grader.py`), an image, or a program that `find_role` found. None: the
            only grader of the manifest.
        directory: Where the answer is kept; None: below `roles` in the episode's workspace, or, for a bundle, in the
            current directory.
        how: How it is run: `game`, `backend`, `options`, `publish`, `again`, as described in `RoleArguments`.

    Returns:
        The grade as its `answer`, and the record. Failures of the grader are recorded there and never raised.

    Raises:
        UsageError: There is no such episode, package or grader.
        CapabilityError: The backend cannot run it; nothing was started.
        ImageError: Its image is not available.
        WorkspaceError: The directory cannot be written, or holds something else.
        EnvironmentFault: The machine or the engine failed.
    """
    async with _opened("grader", (run,), grader, how, directory=directory) as opened:
        return await opened.perform(grade_work(opened.bundles[0]), lambda grade: grade.model_dump(mode="json"))


async def diagnose_episode(
    run: Run,
    player: int | str,
    *,
    diagnoser: str | RoleProgram | None = None,
    directory: Path | None = None,
    **how: Unpack[RoleArguments],
) -> RoleAnswer:
    """Diagnose a player of an episode.

    Args:
        run: The episode.
        player: Its slot, or its display name or id.
        diagnoser: As `grader` of `grade_episode`.
        directory: Where the answer is kept, as for `grade_episode`.
        how: How it is run, as for `grade_episode`.

    Returns:
        The manifest of the diagnosis as its `answer`, its files and the record.

    Raises:
        UsageError: There is no such episode, player, package or diagnoser; the others as for `grade_episode`.
    """
    async with _opened("diagnoser", (run,), diagnoser, how, directory=directory, player=player) as opened:
        assert opened.player is not None
        work = diagnosis_work(opened.bundles[0], opened.player)
        return await opened.perform(work, lambda manifest: manifest.model_dump(mode="json"))


async def report_episodes(
    runs: Sequence[Run],
    *,
    reporter: str | RoleProgram | None = None,
    directory: Path | None = None,
    **how: Unpack[RoleArguments],
) -> RoleAnswer:
    """Report on one or more episodes of a game.

    Args:
        runs: The episodes.
        reporter: As `grader` of `grade_episode`.
        directory: Where the answer is kept, as for `grade_episode`; of several episodes, in the current directory.
        how: How it is run, as for `grade_episode`.

    Returns:
        The manifest of the report as its `answer`, its files and the record.

    Raises:
        UsageError: There is no such episode, package or reporter; the others as for `grade_episode`.
    """
    if not runs:
        raise UsageError("There is no episode to report on.", code="no_episodes", hint="Name at least one.")
    async with _opened("reporter", tuple(runs), reporter, how, directory=directory) as opened:
        work = await report_work(opened.bundles, opened.scratch, request_id=opened.run_id, socket=opened.options.socket)
        return await opened.perform(work, lambda manifest: manifest.model_dump(mode="json"))


@dataclass(frozen=True, kw_only=True)
class RoleAnswer:
    """What a role has said about episodes, and where that is kept."""

    record: RoleRecord
    directory: Path
    """Holds `role.json`, the output, its files if it is a zip, and the logs."""
    kept: bool
    """Whether it was there already, so that nothing was run."""

    @property
    def ok(self) -> bool:
        """Whether what the program left is valid."""
        return self.record.ok

    @property
    def answer(self) -> dict[str, Any]:
        """What it said: the grade, or the manifest of its report or diagnosis; empty if it failed."""
        return self.record.answer or {}

    @property
    def files(self) -> Path:
        """Directory of the files of a report or a diagnosis."""
        return self.directory / ROLE_FILES

    @property
    def page(self) -> Path | None:
        """The page of a report or a diagnosis, Markdown or HTML; None if it has none."""
        render = self.answer.get("render")
        return self.files / render if render else None


_Value = TypeVar("_Value")


@asynccontextmanager
async def _opened(
    role: Role,
    runs: tuple[Run, ...],
    named: str | RoleProgram | None,
    how: RoleArguments,
    *,
    directory: Path | None,
    player: int | str | None = None,
) -> AsyncGenerator[_Opened]:
    """Find everything that is named, bundle the episodes, and enter the backend."""
    episodes = [await anyio.to_thread.run_sync(read_episode, run) for run in runs]
    package = await package_of(how.get("game"), runs)
    program = named if isinstance(named, RoleProgram) else find_role(package, role, named)
    target = None if player is None else _player(episodes[0], player)
    async with open_scratch() as scratch:
        bundles = [scratch.path / f"bundle-{index}.zip" for index in range(len(episodes))]
        for episode, bundle in zip(episodes, bundles, strict=True):
            await bundle_episode(episode, bundle)
        async with role_backend(program, how.get("backend", "auto"), package) as backend:
            yield _Opened(
                program=program,
                episodes=episodes,
                bundles=bundles,
                scratch=scratch.path,
                player=target,
                directory=(directory or _directory(program, episodes, target)).absolute(),
                backend=backend,
                options=how.get("options") or RoleOptions(),
                publish=how.get("publish") or to_nobody,
                again=how.get("again", False),
            )


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A program that was found, with the bundles of its episodes and an entered backend."""

    program: RoleProgram
    episodes: list[EndedEpisode]
    bundles: list[Path]
    scratch: Path
    player: DiagnosedPlayer | None
    directory: Path
    backend: Backend
    options: RoleOptions
    publish: Publish
    again: bool
    run_id: str = field(default_factory=new_run_id)

    async def perform(self, work: RoleWork[_Value], describe: Callable[[_Value], dict[str, Any]]) -> RoleAnswer:
        """Run the program, unless its answer is there already, and keep its answer."""
        bus = EventBus(self.run_id, self.publish, keep=EVENTS_KEPT)
        key = await self._key(bus.publish)
        known = kept_record(self.directory)
        if known is not None and known.key == key and known.ok and not self.again:
            bus.publish(role_finished(known, kept=True))
            return RoleAnswer(record=known, directory=self.directory, kept=True)
        refuse_foreign(self.directory)
        record = await run_and_keep(
            self.program,
            work,
            describe,
            directory=self.directory,
            key=key,
            backend=self.backend,
            options=self.options,
            bus=bus,
            episodes=tuple(episode.id for episode in self.episodes),
            player=self.player,
        )
        return RoleAnswer(record=record, directory=self.directory, kept=False)

    async def _key(self, publish: Publish) -> str:
        image = "" if self.program.own is not None else await self._image_digest(publish)
        bundles = [await anyio.to_thread.run_sync(digest, bundle) for bundle in self.bundles]
        return self.program.key(image, episodes=bundles, player=self.player, how=self.options.identity())

    async def _image_digest(self, publish: Publish) -> str:
        image, platform = self.program.runnable.image, self.options.platform
        return (await self.backend.ensure_image(image, platform=platform, publish=publish)).digest


async def package_of(game: Package | str | os.PathLike[str] | None, runs: Sequence[Run]) -> Package:
    """Return the package that is named, or else the one that the record of an episode names.

    Args:
        game: The package, or a reference to it.
        runs: Episodes, or workspaces of runs of many.

    Raises:
        UsageError: There is none, or nothing names it (`game_unknown`).
    """
    if game is None:
        game = await anyio.to_thread.run_sync(_recorded_package, runs)
    return await resolve_package(game)


def _recorded_package(runs: Sequence[Run]) -> str:
    places = [find_episode(expand(os.fspath(run))) for run in runs]
    for place in places:
        if not place.exists():
            raise missing(place, what="episode")
        rows = tuple(read_rows(place)) if (place / ROWS_NAME).is_file() else ()
        for workspace in (place, *(place / row.workspace for row in rows)):
            if (record := _record_of(workspace)) is not None and record.manifest:
                return record.manifest
        if place.is_dir() and not rows:
            # It says better what is wrong with one that has no record
            read_episode(place)
    raise UsageError(
        f"Nothing tells which game {places[0]} is of.",
        code="game_unknown",
        hint=Hint("name_package", "Name its package: a bundle does not say where that is."),
        context={"path": str(places[0])},
    )


def _record_of(workspace: Path) -> EpisodeRecord | None:
    if not workspace.is_dir():
        return None
    try:
        return read_record(workspace)
    except CoworldError:
        return None


def _player(episode: EndedEpisode, named: int | str) -> DiagnosedPlayer:
    record = episode.record
    if record is not None:
        seats = [
            DiagnosedPlayer(slot=seat.slot, name=seat.name, source=seat.player_id or seat.image.image)
            for seat in record.slots
        ]
    else:
        metadata = episode.metadata or FinishedEpisode.of(read_bundle(episode.path)).metadata
        seats = [DiagnosedPlayer(slot=seat.slot, name=seat.policy_name or "") for seat in metadata.players]
    if str(named).isdecimal() and not seats:
        return DiagnosedPlayer(slot=int(named))
    return named_player(seats, named, of=episode.id)


def named_player(seats: Sequence[DiagnosedPlayer], named: int | str, *, of: str) -> DiagnosedPlayer:
    """Return the player with a slot, a name or an id.

    Args:
        seats: The players.
        named: The slot, name or id.
        of: What they play in, for messages.

    Raises:
        UsageError: There is none (`unknown_player`).
    """
    for seat in seats:
        if str(named) in (str(seat.slot), seat.name, seat.source):
            return seat
    names = [seat.name or str(seat.slot) for seat in seats]
    near = closest(str(named), names)
    raise UsageError(
        f"No player of {of} is {str(named)!r}.",
        code="unknown_player",
        hint=f"Did you mean {near!r}?" if near else f"Name one by its slot, or by its name: {listed(names)}.",
        context={"player": str(named)},
    )


def _directory(program: RoleProgram, episodes: Sequence[EndedEpisode], player: DiagnosedPlayer | None) -> Path:
    first = episodes[0]
    if len(episodes) == 1 and first.path.is_dir():
        return answer_directory(first.path, program, player)
    return Path.cwd() / f"{plain_name(first.id)}-{answer_name(program, player)}"
