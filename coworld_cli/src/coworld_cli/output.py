"""A command's output: the result goes to standard output, everything else to standard error."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coworld_core.text import writable

from .terminal import echo, is_live

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Output", "output_options", "published_option", "to_json", "to_line"]

_F = TypeVar("_F", bound=Callable[..., Any])
_PAUSE = 2.0
"""Seconds between two lines of progress."""


def to_json(value: object) -> str:
    """A value as JSON for `--json`: indented by two spaces, with a newline at the end."""
    import json

    return _printable(json.dumps(value, indent=2, ensure_ascii=False, default=str)) + "\n"


def to_line(value: object) -> str:
    """A value as one line of JSON, for `--jsonl`."""
    import json

    return _printable(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def _printable(text: str) -> str:
    """JSON in characters that standard output has."""
    import json

    text = writable(text)
    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    return text if utf8 else re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], text)


class Output:
    """What a command writes to.

    Args:
        json: Whether standard output gets one JSON object and nothing else.
        quiet: Whether standard error gets errors only.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.above: Callable[[str], None] | None = None
        """Writes a line above a live display, while there is one."""

    @property
    def live(self) -> bool:
        """Whether to show live progress: an interactive terminal, and output not disabled by a flag."""
        return not self.quiet and is_live()

    def note(self, text: str = "") -> None:
        """Narrate on standard error."""
        if self.quiet:
            return
        if self.above is not None:
            self.above(text)
        else:
            echo(text, err=True)

    def warn(self, text: str) -> None:
        """Warn of something that the user should act on."""
        self.note(f"{click.style('warning:', fg='yellow', bold=True)} {text}")

    def warn_of_token(self, what: str) -> None:
        """Say what happens to COWORLD_TOKEN, if it is set."""
        if os.environ.get("COWORLD_TOKEN"):
            self.warn(f"COWORLD_TOKEN {what}")

    def counted(self, what: str) -> Callable[..., None]:
        """Narrate a count now and then, if it takes long; returns what is told the count, and perhaps the total."""
        told = time.monotonic()

        def tell(done: int, total: int | None = None) -> None:
            nonlocal told
            if (now := time.monotonic()) - told >= _PAUSE:
                told = now
                self.note(f"… {done:,}{f' of {total:,}' if total is not None else ''} {what}")

        return tell

    def say(self, text: str = "") -> None:
        """Write a part of the result as text; nothing under `--json`."""
        if not self.json:
            echo(text)

    def show(self, text: str) -> None:
        """Show essential information while a command runs: above a live display, and never as the result."""
        if self.above is not None:
            self.above(text)
        else:
            echo(text, err=self.json or sys.stdout.isatty())

    def answer(self, value: Mapping[str, Any] | Sequence[Any] | BaseModel) -> None:
        """Write the result as JSON; nothing without `--json`."""
        if self.json:
            from .hints import with_command_hints

            data = value if isinstance(value, Mapping | Sequence) else value.model_dump(mode="json", by_alias=True)
            echo(to_json(with_command_hints(data)), nl=False)

    def line(self, value: object) -> None:
        """Write one row as a line of JSON."""
        from .hints import with_command_hints

        echo(to_line(with_command_hints(value)))


_UNUSED = "coworld_cli.unused"
"""Key of `Context.meta` for what is to be said of options without an effect."""


def published_option(*names: str, says: str, **attrs: Any) -> Callable[[_F], _F]:
    """Accept an option of the published package that has no effect here; if it is given, one line says what holds.

    Args:
        names: The option's names.
        says: The line, without the option's name.
        attrs: Further attributes of the option; `is_flag` for one without a value.
    """

    def note(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value not in (None, False, ()):
            ctx.meta.setdefault(_UNUSED, []).append(f"{names[0].partition('/')[0]}: {says}")

    return click.option(*names, help=says, hidden=True, expose_value=False, callback=note, **attrs)


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--json` and `--quiet`, and pass it an `Output` as `out`."""

    @click.option("--json", is_flag=True, help="Write the result as one JSON object to standard output.")
    @click.option("--quiet", "-q", is_flag=True, help="Write no narration to standard error.")
    @functools.wraps(function)
    def wrapped(*args: Any, json: bool, quiet: bool, **kwargs: Any) -> Any:
        out = Output(json=json, quiet=quiet)
        for line in click.get_current_context().meta.get(_UNUSED, ()):
            out.note(line)
        return function(*args, out=out, **kwargs)

    return wrapped
