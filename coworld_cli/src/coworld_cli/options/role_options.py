"""Options for the roles that look at episodes: which programs, and how they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .declarations import Options, option
from .values import FILE

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["EpisodeRoleOptions"]

_SECTION = "After the episode"


class EpisodeRoleOptions(Options):
    """The roles that look at each episode once it has ended, and the key that then signs its record."""

    sign_with: Path | None = option(
        "--sign-with",
        section="Evidence",
        type=FILE,
        metavar="FILE",
        help="Sign the record of each episode with this private key, for `coworld verify --key`.",
    )
    report: bool = option(
        "--report",
        section=_SECTION,
        is_flag=True,
        default=False,
        help="Have every reporter of the manifest report on the episode, or those that --reporter names.",
    )
    reporter: tuple[str, ...] = option(
        "--reporter",
        section=_SECTION,
        multiple=True,
        metavar="REPORTER",
        help="Report with this: an id of the manifest, a file (./reporter.py), or an image; repeatable.",
    )
    grade: bool = option(
        "--grade",
        section=_SECTION,
        is_flag=True,
        default=False,
        help="Have every grader of the manifest grade the episode, or those that --grader names.",
    )
    grader: tuple[str, ...] = option(
        "--grader",
        section=_SECTION,
        multiple=True,
        metavar="GRADER",
        help="Grade with this; repeatable.",
    )
    diagnose: tuple[str, ...] = option(
        "--diagnose",
        section=_SECTION,
        multiple=True,
        metavar="PLAYER",
        help="Have every diagnoser of the manifest diagnose this player: its slot, or its name; repeatable.",
    )
    diagnoser: tuple[str, ...] = option(
        "--diagnoser",
        section=_SECTION,
        multiple=True,
        metavar="DIAGNOSER",
        help="Diagnose with this, which needs --diagnose; repeatable.",
    )

    def check(self) -> None:
        """Check that the options fit together."""
        import click

        if self.diagnoser and not self.diagnose:
            raise click.UsageError("--diagnoser needs --diagnose PLAYER: the slot or the name of a player.")
