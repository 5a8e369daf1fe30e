"""Verifies many episodes: of a run of many, of a tournament, or all that an index knows."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from coworld_core.documents.canonical_json import json_digest
from coworld_core.documents.records import read_as, read_lines
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, read_record
from coworld_core.errors import CoworldError, UsageError
from coworld_core.records.run_entries import RunEntry

from ...evaluation.episode_again import RowsAgain, open_rows_again, rows_of
from ...package.locations import expand, missing
from ...package.resolver import Package
from ...runs.logged_folder import open_in_turn
from .run_verification import Verifier
from .verification_record import ONLY_ROW, ChangedFile, Tally, Verification, VerificationSummary, shortened

__all__ = ["VERIFIED_NAME", "holds_many", "verify_local_runs", "verify_many"]

VERIFIED_NAME = "verified.ndjson"
"""File in a tournament's directory that keeps what was verified and is the same."""
_TOURNAMENT = "tournament.toml"
_AT_ONCE = 64
"""Episodes between two looks at the progress."""

Tell = Callable[[Verification, int], object]
"""Receives each verification, and how many there were so far."""


def holds_many(run: str | os.PathLike[str]) -> bool:
    """Whether a directory is of a run of many, or of a tournament."""
    place = expand(os.fspath(run))
    return (place / ROWS_NAME).is_file() or (place / _TOURNAMENT).is_file()


async def verify_many(
    directory: str | os.PathLike[str],
    *,
    game: Package | str | os.PathLike[str] | None = None,
    trusted: Collection[bytes] | None = None,
    sample: int | None = None,
    players: bool = False,
    keep: bool = False,
    tell: Tell | None = None,
) -> VerificationSummary:
    """Verify the episodes of a run of many, or of a tournament.

    An episode that left its replay is verified as by `verify_run`. One of which only the row was kept can be played
    again by its players, if these are still what they were: it is the same if it ends with the same scores.

    Args:
        directory: The directory of the run, or of the tournament.
        game: The Coworld, as for `verify_run`.
        trusted: Public keys, as for `verify_run`.
        sample: Verify this many only, chosen at random; None: all.
        players: Whether players may play again what has only a row. The files that the directory names are executed.
        keep: Whether to keep in the directory what was the same, and not to verify it again unless its row has
            changed.
        tell: Called with each verification.

    Raises:
        UsageError: There is no such run.
        WorkspaceError: The directory cannot be written to, or another process verifies it.
        EnvironmentFault: The machine failed.
    """
    place = expand(os.fspath(directory))
    if not holds_many(place):
        raise (
            missing(place, what="run of many episodes")
            if not place.exists()
            else UsageError(
                f"{place} holds no run of many episodes, and no tournament.",
                code="not_many_episodes",
                hint=f"Name a directory with {ROWS_NAME} or {_TOURNAMENT}.",
            )
        )
    tally, source = Tally(), _Rows(place)
    done = _kept(place) if keep else {}
    for row in source.rows() if done else ():
        if (before := done.get(_digest(row))) is not None:
            tally.add(before, kept=True)
    left = (row for row in source.rows() if _digest(row) not in done)
    if sample is not None:
        left = iter(_drawn(left, max(sample - tally.verified, 0)))
    async with AsyncExitStack() as stack:
        verifier = await stack.enter_async_context(Verifier(game, trusted=trusted))
        # Nobody has signed a row
        rows = _RowVerifier(place, verifier, game, stack if players and trusted is None else None)
        log = stack.enter_context(open_in_turn(place / VERIFIED_NAME)) if keep else None
        while batch := list(islice(left, _AT_ONCE)):
            for found in await rows.verify(batch):
                if log is not None and found.ok:
                    log.append(found.to_line())
                tally.add(found)
                if tell is not None:
                    tell(found, tally.verified)
    for found in source.problems:
        tally.add(found)
    return tally.summary()


async def verify_local_runs(
    runs: Iterable[RunEntry],
    *,
    game: Package | str | os.PathLike[str] | None = None,
    trusted: Collection[bytes] | None = None,
    tell: Tell | None = None,
) -> VerificationSummary:
    """Verify the episodes of runs that an index has found; memory does not grow with their number.

    Args:
        runs: The runs. Those that go on, or were cut short before they had a record, are passed over.
        game: The Coworld, as for `verify_run`.
        trusted: Public keys, as for `verify_run`.
        tell: Called with each verification.

    Raises:
        EnvironmentFault: The machine failed.
    """
    tally = Tally()

    def told(found: Verification) -> None:
        tally.add(found)
        if tell is not None:
            tell(found, tally.verified)

    async with Verifier(game, trusted=trusted) as verifier:
        for run in runs:
            if holds_many(run.path):
                source = _Rows(run.path)
                rows, left = _RowVerifier(run.path, verifier, game, None), source.rows()
                while batch := list(islice(left, _AT_ONCE)):
                    for found in await rows.verify(batch):
                        told(found.model_copy(update={"run": f"{run.path}/{found.run}"}))
                for found in source.problems:
                    told(found)
            elif EpisodeLayout(run.path).record.is_file():
                for found in await verifier.verify([(str(run.path), run.path)]):
                    told(found)
    return tally.summary()


class _RowVerifier:
    """Verifies the episodes of one directory by their rows."""

    def __init__(
        self,
        place: Path,
        verifier: Verifier,
        game: Package | str | os.PathLike[str] | None,
        stack: AsyncExitStack | None,
    ) -> None:
        self._place = place
        self._verifier = verifier
        self._game = game
        self._stack = stack
        self._again: RowsAgain | CoworldError | None = None

    async def verify(self, rows: Sequence[EpisodeRow]) -> list[Verification]:
        """Verify some, in their order."""
        there = [self._workspace(row) for row in rows]
        with_record = [
            (row.key or str(row.index), path)
            for row, path in zip(rows, there, strict=True)
            if path is not None and EpisodeLayout(path).record.is_file()
        ]
        verified = iter(await self._verifier.verify(with_record))
        known = {path for _, path in with_record}
        found: list[Verification] = []
        for row, path in zip(rows, there, strict=True):
            if path is None or path not in known:
                one = await self._alone(row)
            else:
                one = _with_row(next(verified), row, path)
            found.append(one.model_copy(update={"of": _digest(row)}))
        return found

    def _workspace(self, row: EpisodeRow) -> Path | None:
        """The directory of an episode; None if there is none in the run's own."""
        path = self._place / row.workspace
        return path if row.workspace and path.resolve().is_relative_to(self._place.resolve()) else None

    async def _alone(self, row: EpisodeRow) -> Verification:
        """Play an episode again of which only the row was kept."""
        run = row.key or str(row.index)
        if row.workspace and self._workspace(row) is None:
            changed = ChangedFile(path="the row", problem=f"names {row.workspace!r}, which leads out of the directory")
            reason = f"{changed.path} {changed.problem}."
            return Verification(run=run, verdict="different", code="file_changed", reason=reason, files=(changed,))
        if self._stack is None:
            reason = "It cannot be played again: only its row was kept."
            return Verification(run=run, verdict="cannot", code=ONLY_ROW, reason=reason)
        try:
            again = await (await self._players()).play(row)
        except CoworldError as error:
            if error.kind not in ("usage", "answer"):
                raise
            reason = f"It cannot be played again: {error.message}"
            return Verification(run=run, verdict="cannot", code=error.code, reason=reason)
        for name in ("status", "error_type", "scores", "results"):
            was, now = getattr(row, name), getattr(again, name)
            if was != now:
                reason = (
                    f"Only its row was kept, and its players played it again: its {name} were {was}, and {now} came "
                    "out. Players with chance of their own may differ."
                )
                return Verification(
                    run=run,
                    verdict="different",
                    code="row_differs",
                    reason=reason,
                    recorded=shortened(str(was)),
                    now=shortened(str(now)),
                    checked=("row",),
                )
        note = "Only its row was kept: its players played it again, and it ended with the same scores."
        return Verification(run=run, verdict="same", checked=("row",), notes=(note,))

    async def _players(self) -> RowsAgain:
        assert self._stack is not None
        if self._again is None:
            try:
                self._again = await self._stack.enter_async_context(open_rows_again(self._place, what=self._game))
            except UsageError as error:
                self._again = error
        if isinstance(self._again, CoworldError):
            raise self._again
        return self._again


def _with_row(found: Verification, row: EpisodeRow, place: Path) -> Verification:
    """Compare a row with the record of its episode."""
    try:
        record = read_record(place)
    except CoworldError:
        return found
    replays = [file.sha256 for file in record.artifacts if file.path == EpisodeLayout.replay_name]
    pairs: list[tuple[str, Any, Any]] = [
        ("scores", row.scores, record.scores),
        ("status", row.status, record.status),
        ("seed", row.seed, record.seed),
        ("replay", row.replay_sha256 or replays, replays[0] if row.replay_sha256 and replays else replays),
    ]
    changed = [
        ChangedFile(path="the row", problem=f"says that its {name} is {here}, and its record {there}")
        for name, here, there in pairs
        if here != there
    ]
    checked = (*found.checked, "row")
    if not changed:
        return found.model_copy(update={"checked": checked})
    first = (
        {"code": "file_changed", "reason": f"{changed[0].path} {changed[0].problem}."}
        if found.verdict != "different"
        else {}
    )
    return found.model_copy(
        update={**first, "verdict": "different", "files": (*found.files, *changed), "checked": checked}
    )


class _Rows:
    """The rows of a run, as far as they can be read."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.problems: list[Verification] = []
        """Why they cannot be read any further."""

    def rows(self) -> Iterator[EpisodeRow]:
        """All rows; also of attempts that were lost."""
        self.problems = []
        try:
            yield from rows_of(self._place)[0]
        except CoworldError as error:
            log = EpisodeLayout(self._place).events.name if (self._place / _TOURNAMENT).is_file() else ROWS_NAME
            changed = ChangedFile(path=log, problem=f"cannot be read any further: {error.message}")
            reason = f"{log} {changed.problem}"
            found = Verification(
                run=str(self._place), verdict="different", code="file_changed", reason=reason, files=(changed,)
            )
            self.problems.append(found)


def _digest(row: EpisodeRow) -> str:
    return json_digest(row.model_dump(mode="json"))


def _drawn(rows: Iterable[EpisodeRow], count: int) -> list[EpisodeRow]:
    """Draw some of the rows by chance, of which nobody can know which these will be."""
    chance, drawn = random.SystemRandom(), list[EpisodeRow]()
    for number, row in enumerate(rows):
        if len(drawn) < count:
            drawn.append(row)
        elif (place := chance.randrange(number + 1)) < count:
            drawn[place] = row
    return drawn


def _kept(place: Path) -> dict[str, Verification]:
    """What was verified before, by the digest of its row."""
    found: dict[str, Verification] = {}
    path = place / VERIFIED_NAME
    if path.exists():
        with suppress(CoworldError):
            for document in read_lines(path, what="verification", name=VERIFIED_NAME):
                one = read_as(Verification, document, what="verification")
                found[one.of] = one
    return found
