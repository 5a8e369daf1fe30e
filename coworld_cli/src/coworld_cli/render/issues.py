"""Issues of a document, one per line, in the format that editors and CI systems expect."""

from __future__ import annotations

import click

from coworld_core.issues import Issue, Report
from coworld_core.text import plural

from .text import clean, hint_line, shown_path

__all__ = ["render_issue", "render_report", "verdict"]

_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


def render_issue(source: str, issue: Issue) -> str:
    """`file:line:column: severity[code] message (pointer)`, and the hint on a line of its own below."""
    place = "".join(f":{part}" for part in (issue.line, issue.column) if part is not None)
    severity = click.style(issue.severity, fg=_COLOURS[issue.severity], bold=True)
    pointer = click.style(f" ({clean(issue.pointer, one_line=True)})", dim=True) if issue.pointer else ""
    line = f"{shown_path(source)}{place}: {severity}[{issue.code}] {clean(issue.message, one_line=True)}{pointer}"
    return f"{line}\n{hint_line(issue.hint, indent='    ')}" if issue.hint else line


def verdict(report: Report) -> str:
    """The number of errors and warnings: `2 errors, 1 warning`."""
    counts = [
        plural(len(report.errors), "error") if report.errors else "",
        plural(len(report.warnings), "warning") if report.warnings else "",
    ]
    return ", ".join(filter(None, counts)) or "no errors"


def render_report(report: Report) -> str:
    """Every issue, and the count."""
    return "\n".join([*(render_issue(report.source, issue) for issue in report.issues), verdict(report)])
