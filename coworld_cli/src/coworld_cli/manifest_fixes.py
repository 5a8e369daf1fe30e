"""Fixing a manifest: shows the changes, and writes them when the user agrees."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coworld_core.text import plural

from . import exitcodes
from .output import Output
from .render.text import clean, command_line, shown_path

if TYPE_CHECKING:
    from coworld_core.versions import Published

__all__ = ["agrees", "difference", "fix_manifest", "may_ask", "yes_option"]


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--yes` to a command that has `--fix`."""
    return click.option("--yes", "-y", is_flag=True, help="With --fix: write without asking.")(function)


def fix_manifest(
    out: Output,
    where: Path,
    *,
    yes: bool,
    to: Path | None = None,
    overwrite: bool = False,
    published: Published | None = None,
    warnings: bool = False,
) -> int:
    """Fix the issues of a manifest that have exactly one right fix, without losing anything; list the rest.

    Args:
        out: Where to write.
        where: The manifest's file, or a directory that contains one.
        yes: Write without asking.
        to: The new file to write, without asking; None: the manifest's own.
        overwrite: Whether the new file may exist.
        published: A published version whose rules apply, too.
        warnings: Whether warnings count as issues.

    Returns:
        0 if the manifest then has no issue under the strict rules, else 1.
    """
    from coworld_core.manifest import fixed_manifest

    from .files import target_file, write_whole
    from .render.issues import render_report

    target = target_file(to, "", overwrite=overwrite) if to is not None else None
    fixed = fixed_manifest(where, published=published, to=target)
    ok = fixed.left.ok and not (warnings and fixed.left.warnings)
    name = shown_path(fixed.path)
    changed = fixed.after != fixed.before
    yes = yes or target is not None
    write = target is not None or (
        changed and (yes or (not out.json and agrees(fixed.before, fixed.after, name, len(fixed.done))))
    )
    if yes and changed:
        out.say(difference(fixed.before, fixed.after, name))
    if target is not None:
        write_whole(target, fixed.after.encode())
    elif write:
        fixed.write()
    out.answer(
        {
            "ok": ok and (write or not changed),
            "path": str(fixed.path),
            "written": write,
            "fixed": [issue.model_dump(mode="json") for issue in fixed.done],
            "difference": difference(fixed.before, fixed.after, name, colour=False),
            **fixed.left.model_dump(mode="json"),
        }
    )
    if write:
        out.say(f"{name} is written, with {plural(len(fixed.done), 'issue')} fixed.")
    elif changed:
        out.say(f"Nothing is written. To write it: {command_line('validate', name, '--fix', '--yes')}")
    else:
        out.say(f"There is nothing in {name} that can be fixed automatically.")
    if fixed.left.issues:
        out.say("Left for you to fix:" if not ok else "Remarks:")
        out.say(render_report(fixed.left))
    return exitcodes.OK if ok and (write or not changed) else exitcodes.ANSWER_IS_NO


def may_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agrees(before: str, after: str, name: str, count: int) -> bool:
    """Show the difference and ask, if the terminal is interactive."""
    click.echo(difference(before, after, name))
    return may_ask() and click.confirm(f"Write {plural(count, 'change')} to {name}?", err=True)


def difference(before: str, after: str, name: str, *, colour: bool = True) -> str:
    """The difference between two texts of a file, in lines, for a terminal."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, f"{name} (changed)", n=1, lineterm="")
    colours = {"+": "green", "-": "red", "@": "cyan"}
    told = [clean(line) for line in lines]
    if not colour:
        return "\n".join(told)
    return "\n".join(click.style(line, fg=colours.get(line[:1])) for line in told)
