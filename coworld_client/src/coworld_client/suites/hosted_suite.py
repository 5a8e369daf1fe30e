"""Has a platform play a suite: the same plan, the same files and the same report as on this machine."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from coworld_core.api import Coworld
from coworld_core.api.platform_ids import is_uuid
from coworld_core.documents.canonical_json import json_digest
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, read_rows
from coworld_core.errors import EnvironmentFault, UsageError, WorkspaceError, unwrapped
from coworld_core.evaluation.designs import Lineup
from coworld_core.evaluation.evaluation_files import (
    PLAN_NAME,
    measure_row,
    plan_file,
    read_plan,
    report_files,
    require_same_plan,
)
from coworld_core.evaluation.mixture import Mixture, MixtureReport
from coworld_core.evaluation.needed_episodes import NeededEpisodes
from coworld_core.evaluation.suite_plan import PlannedCell, plan_cells, resumed_suite, suite_files, suite_seed
from coworld_core.evaluation.suite_report import SUITE_NAME, SuiteCell, SuiteReport
from coworld_core.evaluation.suite_settings import CANDIDATE, SuiteSettings, read_suite_settings
from coworld_core.files.atomic import write_whole
from coworld_core.hints import Hint
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.operating_system import require_posix
from coworld_core.records.labels import check_labels

from .._file_lock import lock_still
from ..control.episode_bodies import episode_body
from .hosted_cells import HostedSeats, PolicySeat, faulty_row, plan_hosted, row_of

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["play_hosted_suite"]

_Cell = PlannedCell[HostedSeats]

OnEpisode = Callable[[SuiteCell, EpisodeRow], object]
"""Called with the measurement and the row of each episode that has ended."""


async def play_hosted_suite(
    client: CoworldClient,
    suite: SuiteSettings | str | os.PathLike[str],
    *,
    directory: str | os.PathLike[str],
    players: Iterable[str] = (),
    coworld: str | None = None,
    labels: Mapping[str, str] | None = None,
    parallel: int = 4,
    on_episode: OnEpisode | None = None,
) -> SuiteReport:
    """Have a platform play every line-up of a suite in every variant; a directory that has this suite is gone on with.

    Each episode is an experience request of its own, labelled `suite` and `cell`. Its idempotency key follows from
    what is requested, so the same suite of the same versions, asked for again with the same seed, plays nothing twice.
    Everything is planned, and so checked, before the first request.

    Args:
        client: A client, entered.
        suite: The suite, or its file. Its line-ups name your policies: `name` (the newest version), `name:v3`, or a
            version's UUID.
        directory: Where its files go: new, empty, or that of the same suite.
        players: The policies that `{player}` stands for; each is measured by itself.
        coworld: The game, by its name or `cow_` id; None: the one that the suite names.
        labels: Further labels of the episodes.
        parallel: Number of episodes that are requested at a time.
        on_episode: Called with each episode that has ended.

    Raises:
        UsageError: There is no game, a line-up or a variant is wrong, players are named for a suite without
            `{player}`, or not for one that has it, or the directory has another suite.
        ManifestError: The changed config does not satisfy the game's schema.
        WorkspaceError: The directory is not fresh, or another process is writing to it.
        NotFound: There is no such Coworld or policy.
        TooManyRequests: A budget is used up; what was requested goes on, and the same call later goes on with it.
        ApiError: The platform cannot be reached, or refuses.
        EnvironmentFault: The directory cannot be written to.
    """
    settings = suite if isinstance(suite, SuiteSettings) else read_suite_settings(suite)
    if parallel < 1:
        raise UsageError("There must be at least 1 episode at a time.", code="bad_count")
    if not (named := coworld or settings.game):
        raise UsageError(
            f"The suite {settings.name!r} names no game.",
            code="no_game",
            hint="Name it in the file (game), or pass the Coworld.",
        )
    game = await client.coworlds.find(named)
    manifest = load_manifest(game.manifest, template=True).manifest
    chosen = tuple(players)
    words = {word for entry in settings.entry for lineup in entry.lineups for word in lineup} - {CANDIDATE}
    policies = {word: await _policy(client, word) for word in sorted(words | {*chosen})}
    seed = suite_seed(settings, Path(directory))
    plan = partial(plan_hosted, settings=settings, coworld=game, manifest=manifest, policies=policies)
    cells = list(plan_cells(settings, manifest, chosen, seed, plan))
    with _opened(directory) as place:
        report = SuiteReport(
            name=settings.name,
            coworld=game.name,
            version=game.version,
            seed=seed,
            cells=tuple(cell.record for cell in cells),
        )
        if (place / SUITE_NAME).is_file():
            report = resumed_suite(place, report, [cell.plan for cell in cells])
        records = {cell.directory: cell for cell in report.cells}
        _write(place, suite_files(report))
        for cell in cells:
            here = place / cell.record.directory
            if records[cell.record.directory].stopped and read_plan(here) == cell.plan:
                continue
            tags = check_labels({**(labels or {}), "suite": settings.name, "cell": cell.record.directory})
            played = _HostedCell(client, game, cell, here, tags, on_episode)
            try:
                await played.play(parallel)
            finally:
                records[cell.record.directory] = cell.record.measured(played.report())
                report = report.with_cells([*records.values()])
                _write(place, suite_files(report))
    return report


class _HostedCell:
    """One measurement in progress, and its files."""

    def __init__(
        self,
        client: CoworldClient,
        coworld: Coworld,
        cell: _Cell,
        directory: Path,
        labels: Mapping[str, str],
        on_episode: OnEpisode | None,
    ) -> None:
        self._client = client
        self._coworld = coworld
        self._cell = cell
        self._directory = directory
        self._labels = labels
        self._on_episode = on_episode
        self._evaluation = Mixture(cell.plan)
        self._needed = NeededEpisodes(self._evaluation)
        self._players = cell.plan.players()
        directory.mkdir(exist_ok=True)
        if (directory / PLAN_NAME).is_file():
            require_same_plan(read_plan(directory), cell.plan, directory)
        rows = [*read_rows(directory)] if (directory / ROWS_NAME).is_file() else []
        for row in rows:
            self._evaluation.add(measure_row(row, cell.plan, directory))
        # Without an incomplete last line, which a process leaves that is killed
        _write(directory, {PLAN_NAME: plan_file(cell.plan), ROWS_NAME: b"".join(map(_line, rows))})
        self._numbers = itertools.count(len(rows) + 1)

    async def play(self, parallel: int) -> None:
        """Have the missing episodes played, so many at a time."""
        evaluation, needed = self._evaluation, self._needed

        async def take_turns() -> None:
            while not evaluation.stopped and (found := needed.take()) is not None:
                self._take_in(await self._episode(*found))

        try:
            # The last running episodes may show that a block must be played again
            while not evaluation.stopped and needed.next() is not None:
                with unwrapped():
                    async with anyio.create_task_group() as tasks:
                        for _ in range(parallel):
                            tasks.start_soon(take_turns)
                needed.restart()
        finally:
            _write(self._directory, report_files(self.report()))

    def report(self) -> MixtureReport:
        """The report so far."""
        return self._evaluation.report()

    async def _episode(self, block: int, key: str, lineup: Lineup) -> EpisodeRow:
        """Request an episode, or find the one that was requested before, and wait for its end."""
        plan, number = self._cell.plan, next(self._numbers)
        body = episode_body(self._coworld, self._cell.seating.spec(self._coworld, lineup, block), self._labels)
        made = await self._client.experience.create(
            body, idempotency_key=f"suite-{json_digest([body, self._cell.record.directory, key])}"
        )
        done = await self._client.experience.wait(made.id)
        seats = [self._players[label] for label in lineup if label is not None]
        if not done.episodes:
            return faulty_row(number, key, done, plan=plan, seats=seats)
        episode = await self._client.episodes.get(done.episodes[0].id)
        results: Any = await self._client.episodes.results(episode) if episode.status.is_success else None
        return row_of(number, key, episode, results, plan=plan, seats=seats)

    def _take_in(self, row: EpisodeRow) -> None:
        measured = measure_row(row, self._cell.plan, self._directory)
        try:
            with (self._directory / ROWS_NAME).open("ab") as file:
                file.write(_line(row))
        except OSError as error:
            raise _unwritable(self._directory, error) from error
        self._evaluation.add(measured)
        self._needed.note(row)
        if self._on_episode is not None:
            self._on_episode(self._cell.record, row)


async def _policy(client: CoworldClient, word: str) -> PolicySeat:
    if is_uuid(word):
        return PolicySeat(id=word, label=word)
    row = await client.policies.lookup(word)
    return PolicySeat(id=row.id, label=f"{row.name}:v{row.version}")


@contextmanager
def _opened(directory: str | os.PathLike[str]) -> Generator[Path]:
    """A directory that nobody else writes to meanwhile.

    Raises:
        WorkspaceError: It has files and no suite, or another process is writing to it.
        EnvironmentFault: It cannot be written to.
    """
    place = Path(directory).expanduser().absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not (place / SUITE_NAME).is_file() and any(place.iterdir()):
            raise WorkspaceError(
                f"{place} has files, and no suite.",
                code="workspace_not_empty",
                hint="Name another directory.",
                context={"path": str(place)},
            )
        require_posix()
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritable(place, error) from error
    try:
        if not lock_still(descriptor, place):
            raise WorkspaceError(
                f"Another process is writing to {place}.",
                code="workspace_busy",
                hint="Wait for it to end, or name another directory.",
                context={"path": str(place)},
            )
        yield place
    finally:
        os.close(descriptor)


def _write(place: Path, files: Mapping[str, bytes]) -> None:
    try:
        for name, content in files.items():
            write_whole(place / name, content)
    except OSError as error:
        raise _unwritable(place, error) from error


def _line(row: EpisodeRow) -> bytes:
    return f"{row.model_dump_json()}\n".encode()


def _unwritable(place: Path, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(
        f"{place} cannot be written to: {error.strerror or error}.",
        code="not_writable",
        hint=Hint("repeat_evaluation", "Repeat the call that began it, or pass another workspace."),
    )
