"""The frame of a program: standard streams, the reporting of errors, and the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, TextIO

import click

from . import exitcodes
from .terminal import colour

__all__ = ["CommandLine"]


class CommandLine(click.Group):
    """The group of all commands of a program; its name is the program's."""

    one_line: ClassVar[str] = "--jsonl"
    """The flag with which an error is one line of JSON. With `--json`, unless that is this flag, it is indented."""

    def main(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command line and exit with its status (`click.testing` calls this)."""
        del prog_name, complete_var, standalone_mode, extra  # There is one way to run, whoever calls
        sys.exit(self.run(args))

    def run(self, args: Sequence[str] | None = None) -> int:
        """Run a command line and return its exit status; every error is reported here."""
        argv = list(sys.argv[1:] if args is None else args)
        _open_closed_streams()
        _tame(sys.stdout)
        _tame(sys.stderr)
        stdout = sys.stdout
        try:
            status = super().main(argv, prog_name=self.name, standalone_mode=False, color=colour())
            sys.stdout.flush()
        except SystemExit as leave:
            # click exits this way after shell completion, and when a reader has gone, whose stream it then replaces
            if sys.stdout is stdout:
                return leave.code if isinstance(leave.code, int) else exitcodes.INTERNAL
            sys.stdout = stdout
            return self._report(BrokenPipeError(), argv)
        except BaseException as error:  # noqa: BLE001 (the outermost handler reports every error)
            return self._report(error, argv)
        finally:
            _settle(sys.stdout)
            _settle(sys.stderr)
        return status if isinstance(status, int) else exitcodes.OK

    def _report(self, error: BaseException, argv: Sequence[str]) -> int:
        from .failures import report

        words = argv[: argv.index("--")] if "--" in argv else argv
        return report(error, json="--json" in words, lines=self.one_line in words)


def _settle(stream: TextIO) -> None:
    """Send what a stream could not write to nowhere: the interpreter flushes once more at exit, and would complain."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_closed_streams() -> None:
    """Replace standard streams that the parent process has closed (`coworld version >&-`).

    Otherwise the next file or socket that is opened would get a stream's descriptor, and its output.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(_at(0, os.open(os.devnull, os.O_RDONLY)), encoding="utf-8")
    if sys.stdout is None:
        # A pipe whose reader has gone, so that both cases end in the same way
        reader, writer = os.pipe()
        os.close(reader)
        sys.stdout = os.fdopen(_at(1, writer), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(_at(2, os.open(os.devnull, os.O_WRONLY)), "w", encoding="utf-8")


def _at(number: int, descriptor: int) -> int:
    """Move an open file to another descriptor."""
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
    return number


def _tame(stream: object) -> None:
    """Replace characters that a stream cannot encode, instead of raising."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
