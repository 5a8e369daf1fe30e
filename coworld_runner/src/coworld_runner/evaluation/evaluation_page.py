"""Renders evaluations as one page: a file that opens anywhere, loads nothing and runs nothing.

Everything that came from a manifest, a game or a player is escaped. `templates/evaluation.html` defines the layout;
this module computes the values to fill in, including the positions in the drawings.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRow
from coworld_core.evaluation.comparison import ComparisonReport
from coworld_core.evaluation.number_text import excludes_zero, interval_text, number
from coworld_core.evaluation.report_base import UNMEASURED
from coworld_core.evaluation.report_contents import Contents, Encounter, Plot, Scene, ShownReport
from coworld_core.evaluation.suite_report import SuiteReport

from ..web.page_documents import script_digest
from ..web.page_templates import page_template
from .evaluation_run import PlayedEvaluation

__all__ = ["PAGE_POLICY", "axis_ticks", "different_games", "live_policy", "page_link", "report_page"]

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_MOST_EPISODES = 400
"""Maximum number of episodes listed per run; the run's files have them all."""
_MARGIN = 4.0
"""Percent of a scale to leave free at each end."""
_TITLES = {
    "compare": "Comparison",
    "rank": "Ranking",
    "scrimmage": "Scrimmage",
    "mix": "Mixture",
    "pickup": "Pickup",
    "diagnose": "Diagnosis",
    "tournament": "Tournament",
}


@dataclass(frozen=True, kw_only=True)
class _Bar:
    """An estimate on its scale; positions are percent of the width."""

    name: str
    value: str
    text: str
    at: float
    low: float | None
    high: float | None
    clear: bool
    """Whether zero is meaningful on this scale and the interval excludes it."""


@dataclass(frozen=True, kw_only=True)
class _Drawing:
    """A plot, ready to draw."""

    title: str
    bars: tuple[_Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float | None


@dataclass(frozen=True, kw_only=True)
class _Episode:
    key: str
    seats: str
    scores: str
    seconds: float
    fault: str
    folder: str
    replay: str


@dataclass(frozen=True, kw_only=True)
class _Scene:
    """A moment of an episode, with the addresses of its replays."""

    of: Scene
    lines: tuple[tuple[str, str, str], ...]
    """What was done in each game, the episode, and the address of its replay; empty: it has none."""


@dataclass(frozen=True, kw_only=True)
class _Section:
    """A run as the page shows it."""

    id: str
    kind: str
    mood: str
    workspace: str
    contents: Contents
    drawings: tuple[_Drawing, ...]
    players: tuple[str, ...]
    heat: dict[tuple[str, str], Encounter]
    scenes: tuple[_Scene, ...]
    episodes: tuple[_Episode, ...]
    more: int


def report_page(
    runs: Sequence[PlayedEvaluation],
    *,
    beside: str | os.PathLike[str],
    files: Path | None = None,
    live: bool = False,
    summary: SuiteReport | None = None,
) -> str:
    """Render one or more evaluations as one HTML document.

    Args:
        runs: The evaluations (`read_evaluation`); nothing in them is trusted.
        beside: The directory of the page; links to replays are relative to it.
        files: The directory of the episodes' files; None: the workspace of each run.
        live: Whether the server announces changes of the page over the websocket `changes`. A live page does not
            link to directories.
        summary: The suite that the evaluations belong to, which comes first.
    """
    template = page_template("coworld_runner.evaluation", "evaluation.html")
    sections = [_section(index, run, Path(beside), files or run.workspace, live) for index, run in enumerate(runs, 1)]
    if summary is not None:
        sections.insert(0, _summary(summary))
    return template.render(
        sections=sections,
        # A suite has several games on purpose
        warning=different_games([run.report for run in runs]) if summary is None else "",
        policy=live_policy() if live else PAGE_POLICY,
        live=live,
    )


@cache
def live_policy() -> str:
    """Return the `Content-Security-Policy` of a live page: only its own script may run."""
    script = (resources.files("coworld_runner.evaluation") / "templates" / "live.js").read_text("utf-8")
    return f"{PAGE_POLICY}; script-src '{script_digest(script)}'; connect-src 'self'"


def different_games(reports: Sequence[ShownReport]) -> str:
    """Return a warning if the evaluations are of different games; otherwise an empty string."""
    games = list(dict.fromkeys(f"{one.plan.coworld} {one.plan.version} ({one.plan.played})" for one in reports))
    if len(games) < 2:
        return ""
    return f"These runs are of different games: {', '.join(games)}. Their numbers cannot be compared with each other."


def _section(index: int, run: PlayedEvaluation, beside: Path, files: Path, live: bool) -> _Section:
    report, found = run.report, run.report.contents()
    kind = _TITLES.get(report.plan.kind, report.plan.kind)
    return _Section(
        id=f"run-{index}",
        kind=kind,
        mood=_mood(report),
        workspace=str(run.workspace),
        contents=found,
        drawings=tuple(_drawing(plot) for plot in found.plots),
        players=tuple(dict.fromkeys(one.first for one in found.encounters)),
        heat={(one.first, one.second): one for one in found.encounters},
        scenes=tuple(_scene(scene, files, beside) for scene in found.scenes),
        episodes=tuple(_episode(row, files, beside, live) for row in itertools.islice(run.rows(), _MOST_EPISODES)),
        more=max(0, run.episodes - _MOST_EPISODES),
    )


def _summary(report: SuiteReport) -> _Section:
    found = report.contents()
    return _Section(
        id="suite",
        kind="Suite",
        mood=("plain" if report.ok else "bad") if report.complete else "wait",
        workspace=report.name,
        contents=found,
        drawings=tuple(_drawing(plot) for plot in found.plots),
        players=(),
        heat={},
        scenes=(),
        episodes=(),
        more=0,
    )


def _scene(scene: Scene, files: Path, beside: Path) -> _Scene:
    told: list[tuple[str, str, str]] = []
    for said, episode in scene.lines:
        replay = EpisodeLayout(files / episode).replay
        told.append((said, episode, page_link(replay, beside) if replay.is_file() else ""))
    return _Scene(of=scene, lines=tuple(told))


def _mood(report: ShownReport) -> str:
    if report.stopped in UNMEASURED:
        return "bad"
    if isinstance(report, ComparisonReport):
        return {"better": "good", "worse": "bad", "equal": "plain"}.get(report.verdict, "wait")
    return "plain" if report.stopped else "wait"


def _episode(row: EpisodeRow, workspace: Path, beside: Path, live: bool) -> _Episode:
    layout = EpisodeLayout(workspace / row.workspace)
    return _Episode(
        key=row.key,
        seats=", ".join(seat.name for seat in row.slots),
        scores=", ".join(f"{score:.4g}" for score in row.scores),
        seconds=row.seconds,
        fault=row.message or "",
        folder=page_link(layout.workspace, beside) if layout.workspace.is_dir() and not live else "",
        replay=page_link(layout.replay, beside) if layout.replay.is_file() else "",
    )


def page_link(path: Path, beside: Path) -> str:
    """Return a relative address of a file, which stays valid when the page and the file are copied together."""
    try:
        relative = os.path.relpath(path.absolute(), beside.absolute())
    except ValueError:  # On another drive
        return path.absolute().as_uri()
    # Without "./", a first part with a colon would be read as a scheme
    return "./" + quote(Path(relative).as_posix())


# --- drawing ------------------------------------------------------------------------------------------------------


def _drawing(plot: Plot) -> _Drawing:
    ends = [end for one in plot.estimates if one.interval for end in (one.interval.low, one.interval.high)]
    ends += [one.value for one in plot.estimates] + ([0.0] if plot.zero else [])
    low, high = min(ends), max(ends)
    if low == high:
        room = abs(low) / 10 or 1.0
        low, high = low - room, high + room

    def at(value: float) -> float:
        return round(_MARGIN + (value - low) / (high - low) * (100 - 2 * _MARGIN), 3)

    bars = tuple(
        _Bar(
            name=one.of,
            value=number(one.value, one.interval, signed=plot.zero),
            text=interval_text(one.interval, signed=plot.zero),
            at=at(one.value),
            low=at(one.interval.low) if one.interval else None,
            high=at(one.interval.high) if one.interval else None,
            clear=plot.zero and excludes_zero(one.interval),
        )
        for one in plot.estimates
    )
    ticks = tuple((at(tick), f"{tick:g}") for tick in axis_ticks(low, high))
    return _Drawing(title=plot.title, bars=bars, ticks=ticks, zero=at(0.0) if plot.zero else None)


def axis_ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers between two limits."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]
