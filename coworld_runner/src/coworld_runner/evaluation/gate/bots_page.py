"""Renders the bots of a folder as one page: ratings over time, against whom each loses, what was tried, worst games.

Everything that came from a game or a player is escaped. `templates/bots.html` defines the layout, in the style of the
page of evaluations; this module computes the values to fill in.
"""

from __future__ import annotations

import datetime as dt
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from coworld_core.episode.layout import EpisodeLayout, directory_of
from coworld_core.evaluation.gate_history import GateRecord
from coworld_core.evaluation.gate_report import BotReport, BotVersion, bots_report

from ...web.page_templates import page_template
from ..evaluation_page import PAGE_POLICY, axis_ticks, page_link
from .gate_folder import GateFolder
from .worst_games import WorstGame, worst_games

__all__ = ["folder_page"]

_MOST_GATES = 200
"""Gates of a bot that are listed; the history has them all."""
_HEIGHT = 190.0
"""Height of a drawing in pixels."""
_TOP, _LEFT, _RIGHT = 14.0, 14.0, 4.0
_LABELS = 8
"""Versions that are labelled at most."""


@dataclass(frozen=True, kw_only=True)
class _Dot:
    """A version in the drawing: x in percent of the width, y in pixels."""

    number: int
    x: float
    y: float
    low: float
    high: float
    text: str
    label: str


@dataclass(frozen=True, kw_only=True)
class _Curve:
    dots: tuple[_Dot, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float


@dataclass(frozen=True, kw_only=True)
class _Game:
    key: str
    against: str
    seat: int
    score: str
    other: str
    apart: bool
    fault: str
    opens: str
    replay: str


@dataclass(frozen=True, kw_only=True)
class _Bot:
    """A bot as the page shows it."""

    id: str
    about: BotReport
    mood: str
    curve: _Curve | None
    gates: tuple[GateRecord, ...]
    more: int
    worst: tuple[tuple[str, tuple[_Game, ...]], ...]


def folder_page(folder: GateFolder, *, beside: str | os.PathLike[str]) -> str:
    """Render the bots of a folder as one HTML document, which loads nothing and runs nothing.

    Args:
        folder: The folder; nothing in it is trusted.
        beside: The directory of the page; links to replays are relative to it.

    Raises:
        RecordError: The history cannot be read.
    """
    report = bots_report(folder.history())
    template = page_template("coworld_runner.evaluation", "bots.html", moment=_moment)
    bots = [_bot(index, bot, folder, Path(beside)) for index, bot in enumerate(report.bots, 1)]
    return template.render(folder=str(folder.directory), report=report, bots=bots, policy=PAGE_POLICY)


def _moment(time: dt.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


def _bot(index: int, bot: BotReport, folder: GateFolder, beside: Path) -> _Bot:
    newest = bot.gates[0] if bot.gates else None
    mood = {"accepted": "good", "rejected": "bad"}.get(newest.status, "wait") if newest is not None else "plain"
    shown: list[tuple[str, GateRecord]] = []
    present = bot.present
    if present is not None:
        measured = [gate for gate in bot.gates if gate.bot == present.player and gate.measurements]
        shown += [(f"The accepted version, {present.player.version}", gate) for gate in measured[:1]]
    if newest is not None and (present is None or newest.bot != present.player):
        shown.append((f"The last version that was tried, {newest.bot.version}", newest))
    worst = [(title, tuple(_game(game, beside) for game in worst_games(folder, gate))) for title, gate in shown]
    return _Bot(
        id=f"bot-{index}",
        about=bot,
        mood=mood,
        curve=_curve([version for version in bot.versions if version.rating is not None]),
        gates=bot.gates[:_MOST_GATES],
        more=max(0, len(bot.gates) - _MOST_GATES),
        worst=tuple((title, games) for title, games in worst if games),
    )


def _game(game: WorstGame, beside: Path) -> _Game:
    place = game.directory / directory_of(game.key)
    words = ["replay", str(place)] if game.kept else ["evaluation", "replay", str(game.directory), game.key]
    replay = EpisodeLayout(place).replay
    return _Game(
        key=game.key,
        against=str(game.against),
        seat=game.slot,
        score="-" if game.score is None else f"{game.score:.4g}",
        other="-" if game.other is None else f"{game.other:.4g}",
        apart=game.apart,
        fault=game.fault,
        opens=shlex.join(["coworld", *words]),
        replay=page_link(replay, beside) if game.kept and replay.is_file() else "",
    )


def _curve(versions: list[BotVersion]) -> _Curve | None:
    """The ratings of versions, one after the other; None if none is rated."""
    if not versions:
        return None
    points = [(one.rating or 0.0, one.low or 0.0, one.high or 0.0) for one in versions]
    low, high = min(low for _, low, _ in points), max(high for _, _, high in points)
    if low == high:
        low, high = low - 1, high + 1

    def at(value: float) -> float:
        return round(_TOP + (high - value) / (high - low) * (_HEIGHT - 2 * _TOP), 1)

    step = (100 - _LEFT - _RIGHT) / len(points)
    every = -(-len(points) // _LABELS)
    dots = tuple(
        _Dot(
            number=number,
            x=round(_LEFT + (number - 0.5) * step, 3),
            y=at(rating),
            low=at(least),
            high=at(most),
            text=f"version {number} ({version.player.version}), {version.time:%Y-%m-%d %H:%M}: "
            f"{rating:+.0f} ({least:+.0f} to {most:+.0f})",
            label=str(number) if (number - 1) % every == 0 else "",
        )
        for number, (version, (rating, least, most)) in enumerate(zip(versions, points, strict=True), 1)
    )
    return _Curve(
        dots=dots,
        ticks=tuple((at(tick), f"{tick:+g}" if tick else "0") for tick in axis_ticks(low, high)),
        height=_HEIGHT,
    )
