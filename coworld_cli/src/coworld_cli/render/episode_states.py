"""Episodes and their states as text: a list, one of them, and a line for each change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coworld_core.text import listed

from .results import labelled
from .rows import Column, rows_table, status_word, when
from .run_tables import scores_text
from .text import clean, shown_path

if TYPE_CHECKING:
    from coworld_core.controller import EpisodeInfo
    from coworld_runner.jobs import StoppedJobs

__all__ = ["change_line", "episode_info_text", "episode_infos_text", "stopped_jobs_text"]

_ID = 8
"""Characters of the id of a run in a list; they name it."""

_COLUMNS: tuple[Column[EpisodeInfo], ...] = (
    Column("Begun", lambda info: when(info.started_at or info.created_at)),
    Column("Run", lambda info: _id(info)),
    Column("Kind", lambda info: info.kind, free=True),
    Column("Game", lambda info: info.coworld, free=True),
    Column("Status", lambda info: status_word(info.state)),
    Column("Scores", lambda info: scores_text(info.scores)),
    Column("Labels", lambda info: _labels(info), free=True),
)


def episode_infos_text(infos: Sequence[EpisodeInfo], *, more: bool) -> str:
    """Episodes, one on a line."""
    if not infos:
        return "There are no such episodes."
    return "\n".join([rows_table(_COLUMNS, infos), *(["There are more: --limit shows them."] if more else [])])


def episode_info_text(info: EpisodeInfo) -> str:
    """One episode."""
    rows = [
        ("Episode", info.id),
        ("Status", info.state),
        ("Game", " ".join(filter(None, (info.coworld, info.version, info.variant)))),
        ("Scores", scores_text(info.scores)),
        ("Fault", info.error or ""),
        ("Labels", _labels(info)),
        ("Evidence", shown_path(info.workspace) if info.workspace is not None else ""),
        ("Server", info.server or ""),
    ]
    return labelled([(label, clean(text, one_line=True)) for label, text in rows if text], indent="")


def change_line(info: EpisodeInfo) -> str:
    """A change, on a line: when, what, and its state from then on."""
    moment = info.ended_at or info.started_at or info.created_at
    words = (when(moment), _id(info), f"{status_word(info.state)}", info.kind, info.coworld, scores_text(info.scores))
    return "  ".join(filter(None, (*words, _labels(info))))


def _id(info: EpisodeInfo) -> str:
    return info.id if info.id.startswith("ereq_") else info.id[:_ID]


def _labels(info: EpisodeInfo) -> str:
    return ", ".join(f"{name}={clean(value, one_line=True)}" for name, value in info.labels.items())


def stopped_jobs_text(ended: StoppedJobs) -> str:
    """A run of a cluster that was ended."""
    removed = f"Removed: {listed(ended.jobs)}" if ended.jobs else "No Job of it was there any more."
    return "\n".join(
        [
            f"The run {clean(ended.run_id, one_line=True)} has ended; what was played is kept.",
            f"No cluster was asked: {clean(ended.unreached, one_line=True)}" if ended.unreached else removed,
            f"It goes on with the same command, and --store {clean(ended.store, one_line=True)}",
        ]
    )
