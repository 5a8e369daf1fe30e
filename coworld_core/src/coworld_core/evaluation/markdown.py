"""Reports as Markdown, for a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..text.terminal import strip_controls
from .report_parts import Scene, Shown, Table

__all__ = ["markdown_text", "report_markdown"]


def report_markdown(report: Shown) -> str:
    """Render a report as a section of Markdown.

    Args:
        report: The report of an evaluation or a suite.
    """
    found = report.contents()
    lines = [f"### {markdown_text(found.headline)}", ""]
    for number, table in enumerate(found.tables):
        lines += [f"#### {markdown_text(table.title)}", ""] if number else []
        lines += [*_table(table), ""]
    if found.facts:
        lines += [f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in found.facts] + [""]
    if found.notes:
        lines += ["Notes:", "", *(f"- {markdown_text(note)}" for note in found.notes), ""]
    if found.scenes:
        lines += [f"#### {markdown_text(found.scenes_title)}", ""]
        lines += [line for scene in found.scenes for line in _scene(scene)] + [""]
    return "\n".join([*lines, f"{markdown_text(found.about)}", ""])


def _table(table: Table) -> list[str]:
    line = ["---" if column in table.names else "---:" for column in range(len(table.head))]
    rows: list[Sequence[str]] = [table.head, line, *([markdown_text(cell) for cell in row] for row in table.rows)]
    return [f"| {' | '.join(cells)} |" for cells in rows]


def _scene(scene: Scene) -> list[str]:
    """A scene as an item of a list; what was seen is set as code, which needs no escaping."""
    lines = [f"- {markdown_text(scene.title)}{': ' * bool(scene.note)}{markdown_text(scene.note)}"]
    if scene.seen:
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", scene.seen)), 3)
        lines += [
            "",
            f"  {fence}text",
            *(f"  {line}" for line in strip_controls(scene.seen).splitlines()),
            f"  {fence}",
            "",
        ]
    at = f", tick {scene.tick}" if scene.tick is not None else ""
    return [*lines, *(f"  - {markdown_text(said)} ({markdown_text(place)}{at})" for said, place in scene.lines)]


def markdown_text(text: str) -> str:
    """Untrusted text on one line, with its Markdown escaped."""
    return "".join(f"\\{c}" if c in "\\|`*_<>[]#" else c for c in " ".join(text.split()))
