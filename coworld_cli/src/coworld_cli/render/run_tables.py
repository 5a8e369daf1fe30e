"""Local runs as text: lists, one run, one episode, the answer to a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from coworld_core.text import listed, plural

from .results import labelled
from .rows import Column, rows_table, status_word, when
from .text import clean, labels_line, number, seconds, shown_path, table

if TYPE_CHECKING:
    from coworld_core.records import EpisodeEntry, RunEntry
    from coworld_runner.records import ExportedTables, QueryResult

__all__ = [
    "episode_text",
    "episodes_text",
    "export_text",
    "labels_text",
    "query_text",
    "run_text",
    "runs_text",
    "scores_text",
]

_ID = 8
"""Characters of a run's id in a list; they name it."""
_MOST_ROWS = 100
_MOST_SCORES = 4
_MOST_PLAYERS = 4

_RUNS: tuple[Column[RunEntry], ...] = (
    Column("Begun", lambda run: when(run.started_at)),
    Column("Run", lambda run: run.run_id[:_ID] or run.path.name),
    Column("Kind", lambda run: run.kind, free=True),
    Column("Game", lambda run: run.coworld, free=True),
    Column("Status", lambda run: status_word(run.status)),
    Column("Result", lambda run: _result(run), free=True),
    Column("Labels", lambda run: labels_line(run.labels), free=True),
)

_EPISODES: tuple[Column[EpisodeEntry], ...] = (
    Column("Run", lambda one: one.run.name),
    Column("Episode", lambda one: one.key, free=True),
    Column("Game", lambda one: one.coworld, free=True),
    Column("Status", lambda one: status_word(one.status)),
    Column("Scores", lambda one: scores_text(one.scores)),
    Column("Fault", lambda one: one.error_type, free=True),
)

_OF_RUN: tuple[Column[EpisodeEntry], ...] = (
    Column("No.", lambda one: one.number, right=True),
    Column("Episode", lambda one: one.key, free=True),
    Column("Status", lambda one: status_word(one.status)),
    Column("Scores", lambda one: scores_text(one.scores)),
    Column("Seats", lambda one: ", ".join(seat.name for seat in one.seats), free=True),
    Column("Fault", lambda one: one.error_type, free=True),
)


def runs_text(runs: Sequence[RunEntry], *, more: bool) -> str:
    """Runs, one on a line."""
    if not runs:
        return "There are no such runs."
    parts = [rows_table(_RUNS, runs)]
    parts += [
        f"{run.run_id[:_ID] or run.path.name}: {clean(run.problem, one_line=True)}" for run in runs if run.problem
    ]
    return "\n".join([*parts, *(["There are more: --limit shows them."] if more else [])])


def episodes_text(episodes: Sequence[EpisodeEntry], *, more: bool) -> str:
    """Episodes, one on a line."""
    if not episodes:
        return "There are no such episodes."
    return "\n".join([rows_table(_EPISODES, episodes), *(["There are more: --limit shows them."] if more else [])])


def run_text(run: RunEntry, episodes: Sequence[EpisodeEntry]) -> str:
    """A run with its episodes."""
    if run.kind == "episode" and episodes:
        return "\n".join([_head(run), "", _seats(episodes[0])])
    parts = [_head(run)]
    if episodes:
        left = run.episodes - len(episodes)
        parts += ["", rows_table(_OF_RUN, episodes)]
        parts += [f"{left:,} more are not shown: --limit shows them."] if left > 0 else []
    return "\n".join(parts)


def episode_text(episode: EpisodeEntry, evidence: Sequence[str]) -> str:
    """One episode of a run of many, and the names of its files."""
    rows = [
        ("Episode", episode.key),
        ("Of", shown_path(episode.run)),
        ("Game", f"{episode.coworld} {episode.version}, {episode.variant}"),
        ("Status", episode.status),
        ("Seed", str(episode.seed) if episode.seed is not None else "-"),
        ("Fault", episode.message or "-"),
        ("Labels", labels_line(episode.labels) or "-"),
        ("Evidence", shown_path(episode.path) if episode.path is not None else "none: only the row is kept"),
        ("Files", listed(evidence) if evidence else "-"),
    ]
    shown = [(label, clean(text, one_line=True)) for label, text in rows if text != "-"]
    return "\n".join([labelled(shown, indent=""), "", _seats(episode)])


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels, one on a line."""
    return "\n".join(f"{name}={clean(value, one_line=True)}" for name, value in labels.items()) or "It has no labels."


def query_text(found: QueryResult) -> str:
    """The answer to a query."""
    rows = [tuple(map(_cell, row)) for row in found.rows[:_MOST_ROWS]]
    head = tuple(click.style(clean(name, one_line=True), dim=True) for name in found.columns)
    lines = [table([head, *rows])]
    left = len(found) - len(rows)
    if left > 0:
        lines.append(f"{left:,} more rows are not shown: --json has them all, and LIMIT asks for fewer.")
    return "\n".join(lines)


def export_text(done: ExportedTables) -> str:
    """What was exported."""
    return table(
        [(shown_path(done.path(name)), plural(count, "row")) for name, count in done.rows.items()],
    )


def _head(run: RunEntry) -> str:
    rows = [
        ("Run", run.run_id),
        ("Directory", shown_path(run.path)),
        ("Kind", run.kind),
        ("Game", " ".join(filter(None, (run.coworld, run.version)))),
        ("Variant", run.variant),
        ("Backend", run.backend),
        ("Begun", when(run.started_at)),
        ("Status", run.status),
        ("Took", seconds(run.seconds) if run.seconds is not None else ""),
        ("Outcome", run.outcome),
        ("Episodes", f"{run.episodes:,}" + (f", {run.faulted:,} with faults" if run.faulted else "")),
        ("Labels", labels_line(run.labels)),
        ("Note", run.problem),
    ]
    return labelled([(label, clean(text, one_line=True)) for label, text in rows if text and text != "-"], indent="")


def _seats(episode: EpisodeEntry) -> str:
    columns: tuple[Column[object], ...] = (
        Column("Seat", lambda seat: getattr(seat, "slot", None), right=True),
        Column("Player", lambda seat: getattr(seat, "name", None)),
        Column("Score", lambda seat: _cell(getattr(seat, "score", None)), right=True),
        Column("Content", lambda seat: getattr(seat, "digest", None) or getattr(seat, "image", None)),
    )
    lines = [rows_table(columns, episode.seats)] if episode.seats else []
    if episode.message:
        lines.append(f"{episode.error_type}: {clean(episode.message, one_line=True)}")
    return "\n".join(lines)


def _result(run: RunEntry) -> str:
    if run.kind == "episode":
        return scores_text(run.scores)
    faults = f", {run.faulted:,} at fault" if run.faulted else ""
    if not run.outcome:
        return f"{run.episodes:,} episode{'s' if run.episodes != 1 else ''}{faults}"
    unnamed = any(player not in run.outcome for player in run.players)
    who = f"{listed(run.players, limit=_MOST_PLAYERS)}: " if unnamed else ""
    return f"{who}{run.outcome.removesuffix('.')}{faults}"


def scores_text(scores: Sequence[float | None]) -> str:
    """Scores by slot, the first few of them."""
    shown = ", ".join(_cell(score) for score in scores[:_MOST_SCORES])
    return f"{shown}, …" if len(scores) > _MOST_SCORES else shown


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(number(value) if isinstance(value, float) else str(value), one_line=True)
