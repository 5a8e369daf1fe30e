"""The bundle of an episode on this machine: from its workspace, from a row of a run of many, or from another bundle."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import anyio.from_thread
import anyio.to_thread

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, read_record
from coworld_core.episode.verdict import Verdict, VerdictPolicy, judge, judge_row
from coworld_core.errors import EnvironmentFault, UsageError, WorkspaceError
from coworld_core.files.atomic import write_whole
from coworld_core.files.locks import is_free
from coworld_core.roles.bundle import BundledSeat, BundleItem, BundleMetadata, BundlePlan, plan_bundle
from coworld_core.roles.bundle_contents import episode_items, episode_metadata, pieces_of
from coworld_core.roles.bundle_file import Bundle, Pieces, is_bundle, items_of, pack_bundle, read_bundle

from ..package.locations import expand, missing
from ..runs.episode_places import find_episode, not_one_episode, row_at

__all__ = ["EndedEpisode", "bundle_episode", "read_episode"]

_POLICY = VerdictPolicy(players_end_it=False)
"""As on a platform, and as in evaluations: an episode counts if its game played it to the end."""


@dataclass(frozen=True, kw_only=True)
class EndedEpisode:
    """An episode that has ended, as far as a bundle tells of it."""

    path: Path
    """Its workspace, or its bundle."""
    id: str
    """Its run id, or `ereq_…` if it was played on a platform."""
    status: Literal["success", "failed"]
    """Whether it counts."""
    items: tuple[BundleItem[Pieces], ...]
    """The files that it has left."""
    metadata: BundleMetadata | None
    """What is known besides; None for one of a bundle, whose metadata are among its files."""
    record: EpisodeRecord | None = None
    """Its record; None for one of a bundle, and for one that failed before it had a record."""

    def plan(
        self, *, include: Collection[str] | None = None, slots: Collection[int] | None = None
    ) -> BundlePlan[Pieces]:
        """Plan its bundle; see `coworld_core.roles.bundle.plan_bundle`."""
        return plan_bundle(
            self.id, self.items, status=self.status, metadata=self.metadata, include=include, slots=slots
        )


def read_episode(path: str | os.PathLike[str]) -> EndedEpisode:
    """Find an episode that has ended, and list what it has left. Blocks.

    Args:
        path: A workspace, an episode of a run of many, `latest` (all as in `find_episode`), or a bundle.

    Raises:
        UsageError: There is none (`path_missing`, `no_run`, `no_such_episode`), there are several
            (`several_episodes`), it is not an episode (`not_an_episode`), or it has not ended or was cut short
            (`episode_unfinished`).
        RecordError: Its record is not valid.
        BundleError: The bundle is not valid.
    """
    place = find_episode(expand(os.fspath(path)))
    if place.is_file():
        if not is_bundle(place):
            raise UsageError(
                f"{place} is not a bundle.",
                code="not_an_episode",
                hint="Name an episode's bundle, or its workspace.",
                context={"path": str(place)},
            )
        bundle = read_bundle(place)
        status: Literal["success", "failed"] = "success" if bundle.status == "success" else "failed"
        return EndedEpisode(path=place, id=bundle.episode_id, status=status, items=items_of(bundle), metadata=None)
    layout = EpisodeLayout(place)
    if layout.record.is_file():
        record = read_record(layout.record)
        ended = _ended(layout, record.run_id, judge(record, _POLICY), len(record.slots), episode_metadata(record))
        return replace(ended, record=record)
    row = row_at(place)
    if row is not None:
        # It failed before it had a record
        return _ended(layout, row.run_id, judge_row(row), len(row.slots), _metadata_of_row(row))
    if not place.exists():
        raise missing(place, what="episode")
    raise not_one_episode(place) or _not_ended(layout)


async def bundle_episode(
    episode: EndedEpisode | str | os.PathLike[str],
    target: Path,
    *,
    include: Collection[str] | None = None,
    slots: Collection[int] | None = None,
) -> Bundle:
    """Write the bundle of an episode to a file.

    The same episode gives the same bytes, and memory does not grow with its size.

    Args:
        episode: The episode, or where it is, as for `read_episode`.
        target: The file, which is replaced if it exists. It may be the bundle that the episode is read from.
        include: Parts to deliver (`coworld_core.roles.bundle.BUNDLE_PARTS`); None: all. What the episode has not left
            is left out.
        slots: Slots whose players' logs and artifacts are delivered; None: all.

    Raises:
        UsageError: As for `read_episode`.
        RecordError: The episode's record is not valid.
        BundleError: The bundle that it is read from is not valid.
        WorkspaceError: The file cannot be written.
        EnvironmentFault: The disk is full, or a file of the episode cannot be read.
    """
    return await anyio.to_thread.run_sync(functools.partial(_write, episode, target, include, slots))


def _write(
    episode: EndedEpisode | str | os.PathLike[str],
    target: Path,
    include: Collection[str] | None,
    slots: Collection[int] | None,
) -> Bundle:
    ended = episode if isinstance(episode, EndedEpisode) else read_episode(episode)
    pieces = pack_bundle(ended.plan(include=include, slots=slots))
    with _writing(target):
        write_whole(target, _readable(pieces))
    return read_bundle(target)


def _readable(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pass pieces on until the task is cancelled; a file that cannot be read is not mistaken for the target."""
    try:
        for piece in pieces:
            anyio.from_thread.check_cancelled()
            yield piece
    except OSError as error:
        raise EnvironmentFault(
            f"A file of the episode cannot be read: {error.filename or ''} {error.strerror or error}.",
            code="path_unreadable",
            context={"path": str(error.filename)},
        ) from error


@contextlib.contextmanager
def _writing(target: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EnvironmentFault(
                f"There is no room to write {target}.", code="disk_full", hint="Free some room, or name another file."
            ) from error
        raise WorkspaceError(
            f"{target} cannot be written: {error.strerror or error}.",
            code="path_unwritable",
            context={"path": str(target)},
        ) from error


def _ended(layout: EpisodeLayout, run_id: str, verdict: Verdict, slots: int, metadata: BundleMetadata) -> EndedEpisode:
    items = tuple(
        BundleItem[Pieces](part=item.part, key=item.key, source=functools.partial(pieces_of, item.source))
        for item in episode_items(layout, verdict, slots=slots)
    )
    return EndedEpisode(
        path=layout.workspace,
        id=run_id,
        status="success" if verdict.counts else "failed",
        items=items,
        metadata=metadata,
    )


def _metadata_of_row(row: EpisodeRow) -> BundleMetadata:
    return BundleMetadata(
        variant_id=row.variant,
        duration_seconds=row.seconds,
        players=tuple(BundledSeat(slot=slot, policy_name=seat.name or None) for slot, seat in enumerate(row.slots)),
    )


def _not_ended(layout: EpisodeLayout) -> UsageError:
    place = layout.workspace
    if not layout.events.is_file():
        return UsageError(
            f"{place} is not the workspace of an episode: there is no {layout.record.name} in it.",
            code="not_an_episode",
            hint="Name the directory of an episode, or a bundle.",
            context={"path": str(place)},
        )
    if not is_free(layout.events):
        words, hint = "is still being played", "Wait until it has ended."
    else:
        words = "was cut short before its record was written"
        hint = f"Nothing tells how it ended; what there is of its logs is in {layout.logs}."
    return UsageError(
        f"The episode in {place} {words}.", code="episode_unfinished", hint=hint, context={"path": str(place)}
    )
