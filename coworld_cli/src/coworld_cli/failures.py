"""Reporting errors: one helpful line or one JSON object, and the exit status."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from pathlib import Path
from typing import Any, cast

import click

from coworld_core.errors import CoworldError, DocumentError

from . import exitcodes
from .event_loop import Interrupted
from .former_words import former_word
from .hints import with_command_hints
from .output import to_json, to_line
from .render.text import clean, hint_line
from .terminal import echo

__all__ = ["report"]


def report(error: BaseException, *, json: bool, lines: bool = False) -> int:
    """Report an error and return the exit status; on standard error if standard output takes nothing.

    With `COWORLD_DEBUG=1` the traceback goes to standard error as well.

    Args:
        error: The exception that ended the command.
        json: Whether to write it to standard output as a JSON object.
        lines: Whether to write it to standard output as one line of JSON.
    """
    error = _single(error)
    status, data = _described(error)
    if os.environ.get("COWORLD_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
    try:
        if lines:
            echo(to_line({"error": data}))
        elif json:
            echo(to_json({"error": data}), nl=False)
        else:
            _tell(error, data)
    except OSError:
        _tell(error, data)
    return status


def _single(error: BaseException) -> BaseException:
    """Unwrap the only error of a group; a group of several errors stays as it is."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _single(group.exceptions[0]) if len(group.exceptions) == 1 else group


def _described(error: BaseException) -> tuple[int, dict[str, Any]]:
    match error:
        case CoworldError():
            data = cast("dict[str, Any]", with_command_hints(error.to_dict()))
            if error.code == "unknown_player":
                data["hint"] = former_word([str(error.context.get("player"))]) or data["hint"]
            notes = getattr(error, "__notes__", [])
            return exitcodes.for_kind(error.kind), {**data, **({"notes": notes} if notes else {})}
        case Interrupted():
            return exitcodes.INTERRUPTED, _data("interrupted", error.message, error.hint, error.context)
        case click.Abort() | KeyboardInterrupt():
            return exitcodes.INTERRUPTED, _data("interrupted", "Interrupted.", None)
        case click.UsageError():
            command = error.ctx.command_path if error.ctx is not None else "coworld"
            return exitcodes.USAGE, _data("usage", _sentence(error.format_message()), f"See {command} --help.")
        case click.ClickException():
            return exitcodes.USAGE, _data("usage", _sentence(error.format_message()), None)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f" ({error.filename})" if error.filename else ""
            return exitcodes.ENVIRONMENT, _data("disk_full", f"There is no room left on the disk{where}.", None)
        case FileNotFoundError() if not _is_anywhere():
            message = "The current directory has been removed."
            return exitcodes.ENVIRONMENT, _data("no_current_directory", message, "Change to one that exists: cd ~")
        case BrokenPipeError():
            return exitcodes.ENVIRONMENT, _data("output_closed", "The output was closed before its end.", None)
        case _:
            return exitcodes.INTERNAL, _internal(error)


def _is_anywhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _internal(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "coworld" in Path(frame.filename).parent.name] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    what = traceback.format_exception_only(error)[-1].strip()
    return _data(
        "internal",
        f"Internal error: {what}" + (f" ({place})" if place else ""),
        "This is a bug in coworld. Run the command again with COWORLD_DEBUG=1 for the traceback, and report that "
        "with the output of `coworld version`.",
        {"type": type(error).__name__, "where": place},
    )


def _data(code: str, message: str, hint: str | None, context: dict[str, object] | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint, "context": context or {}}


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".?!" else f"{text}."


def _tell(error: BaseException, data: dict[str, Any]) -> None:
    if isinstance(error, DocumentError):
        from .render.issues import render_report

        echo(render_report(error.report), err=True)
    else:
        word = "" if data["code"] == "interrupted" else click.style("error: ", fg="red", bold=True)
        echo(f"{word}{clean(str(data['message']))}", err=True)
    for note in data.get("notes", ()):
        echo(f"  {clean(note)}", err=True)
    tail = data["context"].get("log_tail")
    if isinstance(tail, str) and tail.strip():
        echo("\n".join(f"  | {line}" for line in clean(tail).strip().splitlines()[-15:]), err=True)
    if data["hint"]:
        echo(hint_line(str(data["hint"]), one_line=False), err=True)
