"""A report's plots as a matplotlib figure: its intervals, and a heat map of who beat whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lazy import load_library
from ..text.tables import one_line
from .number_text import excludes_zero
from .report_parts import Contents, Encounter, Plot

__all__ = ["draw_contents"]

_WIDTH = 7.0
"""Width of the figure in inches."""
_ROW = 0.32
"""Height in inches of a row: a player or another thing with an interval."""


def draw_contents(contents: Contents) -> Any:
    """Draw the contents of a report.

    Args:
        contents: The contents.

    Returns:
        A `matplotlib.figure.Figure` that belongs to no window: `savefig` writes it, and a notebook shows it.

    Raises:
        EnvironmentFault: Code `not_installed` if matplotlib is not installed.
    """
    matplotlib: Any = load_library("matplotlib.figure", "pip install 'coworld-core[plot]'")
    players = list(dict.fromkeys(one.first for one in contents.encounters))
    heights = [1.0 + _ROW * len(plot.estimates) for plot in contents.plots]
    heights += [1.4 + 1.5 * _ROW * len(players)] if players else []
    figure: Any = matplotlib.Figure(figsize=(_WIDTH, sum(heights) + 0.5), layout="constrained")
    figure.suptitle(_plain(contents.headline), fontsize="medium", wrap=True)
    if heights:
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        for at, plot in enumerate(contents.plots):
            _draw_intervals(figure.add_subplot(grid[at]), plot)
        if players:
            _draw_encounters(figure.add_subplot(grid[-1]), players, contents.encounters)
    return figure


def _plain(text: str) -> str:
    """Untrusted text on one line; dollar signs are escaped because they would begin a formula."""
    return one_line(text).replace("$", r"\$")


def _draw_intervals(axes: Any, plot: Plot) -> None:
    for row, one in enumerate(plot.estimates):
        clear = plot.zero and excludes_zero(one.interval)
        colour = "tab:blue" if clear or not plot.zero else "tab:gray"
        if one.interval is not None:
            axes.plot([one.interval.low, one.interval.high], [row, row], color=colour, solid_capstyle="butt")
        axes.plot([one.value], [row], marker="o", color=colour)
    if plot.zero:
        axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(plot.estimates)), [_plain(one.of) for one in plot.estimates])
    axes.set_ylim(len(plot.estimates) - 0.5, -0.5)
    axes.set_title(plot.title, fontsize="medium", loc="left")


def _draw_encounters(axes: Any, players: Sequence[str], encounters: Sequence[Encounter]) -> None:
    share = {(one.first, one.second): one.share for one in encounters}
    # NaN leaves a cell empty
    cells = [[share.get((first, second), float("nan")) for second in players] for first in players]
    axes.imshow(cells, vmin=0, vmax=1, cmap="RdBu", aspect="auto")
    for row, first in enumerate(players):
        for column, second in enumerate(players):
            if (first, second) in share:
                percent = f"{100 * share[first, second]:.0f}"
                pale = 0.2 < share[first, second] < 0.8
                axes.text(column, row, percent, ha="center", va="center", color="black" if pale else "white")
    names = [_plain(name) for name in players]
    axes.set_xticks(range(len(players)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(players)), names)
    axes.set_title("Blocks won by the player of the row, in per cent (draws count half)", fontsize="medium", loc="left")
