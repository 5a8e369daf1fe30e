"""What came of verifying runs, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coworld_core.text import plural

from .results import labelled
from .text import clean

if TYPE_CHECKING:
    from coworld_runner.certification.verification import Verification, VerificationSummary

__all__ = ["summary_text", "verification_text"]

_COLORS = {"same": "green", "different": "red", "cannot": "yellow"}
_WORDS = {"same": "the same", "different": "different", "cannot": "cannot be played again"}


def verification_text(found: Verification) -> str:
    """A verification: its verdict, what differs, and what was compared."""
    head = click.style(_WORDS.get(found.verdict, found.verdict), fg=_COLORS.get(found.verdict), bold=True)
    rows = [("Compared", ", ".join(found.checked) or "nothing")]
    if found.tick is not None:
        rows += [("Recorded", clean(found.recorded)), ("Came out", clean(found.now))]
    rows += [("Changed", clean(f"{file.path} {file.problem}", one_line=True)) for file in found.files]
    rows += [("Note", clean(note, one_line=True)) for note in found.notes]
    lines = [f"{clean(found.run, one_line=True)}: {head}"]
    if found.reason:
        lines.append(clean(found.reason, one_line=True))
    return "\n".join([*lines, labelled(rows)])


def summary_text(summary: VerificationSummary) -> str:
    """What came of many: how many of each verdict, and why."""
    kept = f", {summary.kept} of them before" if summary.kept else ""
    lines = [f"{plural(summary.verified, 'episode')} verified{kept}."]
    rows = [
        (click.style(_WORDS.get(verdict, verdict), fg=_COLORS.get(verdict)), str(count))
        for verdict, count in sorted(summary.verdicts.items())
    ]
    rows += [(f"  {code}", str(count)) for code, count in sorted(summary.reasons.items())]
    return "\n".join([*lines, labelled(rows)]) if rows else lines[0]
