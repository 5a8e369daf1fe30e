"""The rows of a run: one for each of its episodes that has ended, under the episode's key.

The file is append-only and written one whole line at a time, so a killed run can resume.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coworld_core.documents.canonical_json import canonical_json
from coworld_core.episode.hook_record import HookRecord
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import LOST
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, SlotRow, read_rows
from coworld_core.episode.seat_behaviour import read_behaviour
from coworld_core.episode.verdict import judge_error
from coworld_core.errors import UsageError
from coworld_core.text.phrases import listed

from ..package.plan import EpisodePlan
from ..runs._append_log import AppendedFile
from .plan_hooks import EpisodeHook
from .venue import Wanted

__all__ = ["RowFile", "Rows", "planned_digest", "require_same_hooks", "row_of_error", "row_of_record", "slot_rows"]


class Rows(abc.ABC):
    """The rows of a run.

    Attributes:
        seen: A digest of the episode of each row, by key.
        lost: How many attempts were lost at those whose last was, by key (`LOST`).
        hooks: The hooks of the rows: names and digests, as one tuple for each way in which episodes were played.
        directories: The directories of those episodes.
    """

    def __init__(self) -> None:
        self.seen: dict[str, bytes] = {}
        self.lost: dict[str, int] = {}
        self.hooks: set[tuple[tuple[str, str], ...]] = set()
        self.directories: set[str] = set()

    @abc.abstractmethod
    def append(self, *rows: EpisodeRow) -> None:
        """Write rows, all or none of them, and `note` them."""

    def check(self, key: str, plan: EpisodePlan) -> None:
        """Check that a key's row belongs to this plan.

        Raises:
            UsageError: The row has other players, another seed, another variant, or other changes to its config.
        """
        if self.seen[key] != planned_digest(plan):
            raise UsageError(
                f"The episode {key!r} was played by other players, or with another seed, variant or game config.",
                code="key_of_another_plan",
                hint="Resume with the plans of the interrupted run, or start a new one in another directory.",
            )

    def require_hooks(self, hooks: Sequence[EpisodeHook]) -> None:
        """Check that the episodes of all rows went through these hooks.

        Raises:
            UsageError: Code `hooks_changed`: there were others, another order of them, or other sources.
        """
        for played in self.hooks:
            _require_same(played, _identity(hooks))

    def note(self, row: EpisodeRow) -> None:
        """Remember that this row exists."""
        self.seen[row.key] = (
            bytes.fromhex(row.planned) if row.planned else _what(row.variant, row.seed, row.slots, row.config_changes)
        )
        self.lost.pop(row.key, None)
        if row.party in LOST:
            self.lost[row.key] = row.earlier + 1
        self.hooks.add(_identity(row.hooks))
        if row.workspace:
            self.directories.add(row.workspace)


class RowFile(Rows):
    """The rows of a run in a file.

    Args:
        file: The file, entered; it may have rows already.
    """

    def __init__(self, file: AppendedFile) -> None:
        super().__init__()
        self._file = file
        file.cut_unfinished()
        for row in read_rows(file.path):
            self.note(row)

    def append(self, *rows: EpisodeRow) -> None:
        """Write rows.

        Raises:
            EnvironmentFault: They cannot be written; the file is then as it was.
        """
        self._file.append(b"".join(row.to_line() for row in rows))
        for row in rows:
            self.note(row)


def planned_digest(plan: EpisodePlan) -> bytes:
    """Return a digest of what is planned: the variant, its changes, the seed and the players."""
    return _what(plan.variant, plan.seed, slot_rows(plan), plan.config_changes)


def row_of_record(
    episode: Wanted, directory: Path, plan: EpisodePlan, record: EpisodeRecord, *, planned: str = ""
) -> EpisodeRow:
    """Return the row of an episode that has its record.

    Args:
        episode: The episode, as it was planned.
        directory: Its directory.
        plan: Its plan, as hooks made it.
        record: Its record.
        planned: The digest of the plan before that, in hex.
    """
    fault, starvation = record.fault, record.starvation
    conduct = read_behaviour(EpisodeLayout(directory).game_events, len(plan.seats))
    return EpisodeRow(
        index=episode.index,
        key=episode.key,
        earlier=episode.earlier,
        run_id=record.run_id,
        workspace=directory.name,
        variant=record.variant,
        config_changes=dict(plan.config_changes),
        seed=record.seed,
        episode_tags=record.episode_tags,
        hooks=record.hooks,
        planned=planned,
        status=record.status,
        ok=record.ok,
        slots=slot_rows(plan, record),
        scores=record.scores,
        seconds=record.seconds,
        phases=record.phases,
        starved=starvation.starved if starvation is not None else None,
        starved_by=starvation.starved_by if starvation is not None and starvation.starved else (),
        error_type=fault.error_type if fault is not None else None,
        party=fault.party if fault is not None else None,
        fault_slot=fault.slot if fault is not None else None,
        message=fault.message if fault is not None else None,
        player_faults=record.player_faults(acted=[slot for slot, seat in enumerate(conduct) if seat.acted]),
        replay_sha256=next((file.sha256 for file in record.artifacts if file.path == EpisodeLayout.replay_name), ""),
        conduct=conduct,
    )


def row_of_error(
    episode: Wanted,
    directory: Path | None,
    plan: EpisodePlan,
    error: Exception,
    *,
    run_id: str,
    seconds: float,
    hooks: tuple[HookRecord, ...] = (),
    planned: str = "",
) -> EpisodeRow:
    """Return the row of an episode that failed before it had a record; the arguments are as for `row_of_record`.

    Without a directory, nothing of it was to be kept here.
    """
    verdict = judge_error(error)
    return EpisodeRow(
        index=episode.index,
        key=episode.key,
        earlier=episode.earlier,
        run_id=run_id,
        workspace=directory.name if directory is not None else "",
        variant=plan.variant,
        config_changes=dict(plan.config_changes),
        seed=plan.seed,
        episode_tags=dict(plan.episode_tags),
        hooks=hooks,
        planned=planned,
        status="failed",
        ok=False,
        slots=slot_rows(plan),
        seconds=seconds,
        error_type=verdict.error_type,
        party=verdict.party,
        message=verdict.message,
    )


def slot_rows(plan: EpisodePlan, record: EpisodeRecord | None = None) -> tuple[SlotRow, ...]:
    """Return who sits in an episode, by slot; digests of images and use of models are its record's, if it has one."""
    known = [(slot.image.digest, slot.model_use) for slot in record.slots] if record is not None else []
    return tuple(
        SlotRow(
            name=seat.name,
            player_id=seat.player_id,
            image=seat.image,
            digest=digest,
            player_version=seat.player_version,
            follows=seat.follows,
            model_use=model_use,
        )
        for seat, (digest, model_use) in zip(plan.seats, known or [("", None)] * len(plan.seats), strict=True)
    )


def require_same_hooks(played: Sequence[HookRecord], hooks: Sequence[EpisodeHook]) -> None:
    """Check that episodes that were played went through these hooks.

    Raises:
        UsageError: Code `hooks_changed`: there were others, another order of them, or other sources.
    """
    _require_same(_identity(played), _identity(hooks))


def _require_same(played: tuple[tuple[str, str], ...], wanted: tuple[tuple[str, str], ...]) -> None:
    if played != wanted:
        raise UsageError(
            f"Its episodes so far were played with {_describe_hooks(played)}, "
            f"and this run has {_describe_hooks(wanted)}.",
            code="hooks_changed",
            hint="Resume with the same hooks, as they were, or start a new run in another directory.",
        )


def _identity(hooks: Sequence[EpisodeHook | HookRecord]) -> tuple[tuple[str, str], ...]:
    return tuple((hook.name, hook.digest) for hook in hooks)


def _describe_hooks(hooks: tuple[tuple[str, str], ...]) -> str:
    return listed(f"the hook {name} ({digest[:12] or 'without a digest'})" for name, digest in hooks) or "no hooks"


def _what(variant: str, seed: int | None, seats: tuple[SlotRow, ...], changes: Mapping[str, Any]) -> bytes:
    """A short digest that tells episodes apart; small, because there may be many episodes."""
    changed = canonical_json(changes) if changes else b""
    told = repr((variant, seed, [(seat.name, seat.player_id, seat.follows or seat.image) for seat in seats], changed))
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=8).digest()
