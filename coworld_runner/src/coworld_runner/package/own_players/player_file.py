"""A player that is one file: Python, a script, or machine code."""

from __future__ import annotations

import ast
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.files.lfs_pointers import read_whole
from coworld_core.hints import Hint
from coworld_core.images import machine_of
from coworld_core.rules.player_source import is_hosted, module_contents
from coworld_core.rules.seat_talk import TALK
from coworld_core.text.phrases import closest

from .own_player import MOST_BYTES, MOST_FILES, PYTHON, OwnPlayer, too_large

__all__ = ["SEAT", "imported_names", "only_defines", "parse_python", "read_file", "with_imports"]

SEAT = (PYTHON, "-m", "coworld_client.seat")
"""Command that plays the function or class whose file follows."""
_ACT = ("observation", "legal", "rng")


def read_file(
    path: Path, status: os.stat_result, *, host: Callable[[Path, bytes], tuple[str, ...]] | None = None
) -> OwnPlayer:
    """Read a program from a file, by default a player.

    Args:
        path: The file.
        status: Its status.
        host: Returns the command to which the path of a file of Python is passed, if that only defines something; empty
            if the file is a program itself.

    Raises:
        UsageError: The file cannot be run, or is too large.
        OSError: It cannot be read.
    """
    if status.st_size > MOST_BYTES:
        raise too_large(path)
    content = read_whole(path)
    words = _shebang(content)
    common: dict[str, Any] = {"name": path.stem, "file": path.name, "path": path, "files": {path.name: content}}
    if path.suffix == ".py" or (words and Path(words[0]).name.startswith("python")):
        hosted_by = (host or _seat_of)(path, content)
        common["files"] = with_imports(path, content)
        command = (*(hosted_by or (PYTHON,)), f"{{}}/{path.name}")
        return OwnPlayer(**common, command=command, needs_client=hosted_by == SEAT)
    needs = machine_of(content)
    if not needs and not words:
        raise UsageError(
            f"{path} is neither Python nor a program.",
            code="player_not_runnable",
            hint="A player is a .py file, an executable, or a script that begins with a line such as #!/bin/sh; "
            "or name a directory with a Dockerfile or a pyproject.toml.",
        )
    if not status.st_mode & 0o111:
        raise UsageError(
            f"{path} is not executable.", code="player_not_runnable", hint=f"If it is to be run: chmod +x {path}"
        )
    # In a pod, input files are readable but not executable
    command = (*words, f"{{}}/{path.name}") if words else (f"{{}}/{path.name}",)
    return OwnPlayer(**common, command=command, needs=needs, runnable=frozenset({path.name}))


def _shebang(content: bytes) -> tuple[str, ...]:
    """Return the interpreter command in a script's first line; empty if there is none."""
    if not content.startswith(b"#!"):
        return ()
    words = content[2:].split(b"\n", 1)[0][:500].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    return tuple(words)


# --- a file of Python --------------------------------------------------------------------------------------------


def parse_python(path: Path, content: bytes) -> ast.Module:
    """Parse a player's source with the Python version that runs coworld.

    Raises:
        UsageError: It has a syntax error (the message names the line), or is not Python.
    """
    try:
        return ast.parse(content, filename=str(path))
    except SyntaxError as error:
        line = error.lineno or 1
        shown = (error.text or "").strip()
        raise UsageError(
            f"{path}:{line}: {error.msg or 'invalid syntax'}{f': {shown}' if shown else '.'}",
            code="player_syntax",
            hint=f"Correct line {line}, which Python {platform.python_version()} cannot read; nothing was started.",
            context={"path": str(path), "line": line},
        ) from None
    except ValueError as error:
        raise UsageError(f"{path} is not Python: {error}.", code="player_syntax", hint="Is it another file?") from None


def with_imports(path: Path, content: bytes) -> dict[str, bytes]:
    """Return a Python file and the modules beside it that it imports, and that they import, by relative path.

    Raises:
        UsageError: A file has a syntax error, or they are too large together.
    """
    files = {path.name: content}
    left = MOST_BYTES - len(content)
    waiting = [(path, content)]
    while waiting:
        for name in imported_names(parse_python(*waiting.pop())):
            for file in _module_files(path.parent, name):
                relative = file.relative_to(path.parent).as_posix()
                if relative in files:
                    continue
                left -= file.stat().st_size
                if left < 0 or len(files) == MOST_FILES:
                    raise too_large(path)
                files[relative] = read_whole(file)
                waiting.append((file, files[relative]))
    return files


def imported_names(tree: ast.AST, *, optional: bool = True) -> set[str]:
    """The first names of the modules that a file imports anywhere, without those of the standard library.

    Args:
        tree: The file.
        optional: Whether to include what is imported in a `try`, which may handle that a module is missing.
    """
    names: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        match waiting.pop():
            case ast.Import(names=found):
                names.update(alias.name.partition(".")[0] for alias in found)
            case ast.ImportFrom(module=str(module), level=0):
                names.add(module.partition(".")[0])
            case ast.Try() as attempt if not optional:
                waiting += [*attempt.handlers, *attempt.orelse, *attempt.finalbody]
            case node:
                waiting += ast.iter_child_nodes(node)
    return names - sys.stdlib_module_names


def _module_files(directory: Path, name: str) -> list[Path]:
    """The files of a module or a package in a directory; none if it is not there."""
    if (package := directory / name / "__init__.py").is_file():
        return sorted(file for file in package.parent.rglob("*.py") if file.is_file())
    module = directory / f"{name}.py"
    return [module] if module.is_file() else []


def _seat_of(path: Path, content: bytes) -> tuple[str, ...]:
    """The command of `coworld_client.seat` if that plays a file; empty if the file is a complete program."""
    names, works = module_contents(parse_python(path, content))
    if "act" in names:
        _check_arguments(path, names["act"])
    if is_hosted(names, works):
        return SEAT
    if works:
        return ()
    near = closest("act", names)
    raise UsageError(
        f"{path} has no function act(observation, legal, rng), and is not a program either: nothing in it would run.",
        code="player_without_act",
        hint=f"Did you mean {near!r} to be act?"
        if near
        else Hint("begin_player", "A player is a file with that function, or a program."),
        context={"path": str(path)},
    )


def only_defines(path: Path, content: bytes) -> frozenset[str] | None:
    """The names that a module binds, if it does nothing else; None if it does more, as a program does.

    Raises:
        UsageError: It is not Python.
    """
    names, works = module_contents(parse_python(path, content))
    return None if works else frozenset(names)


def _check_arguments(path: Path, statement: ast.stmt) -> None:
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    given = statement.args
    placed = given.posonlyargs + given.args
    count, least = len(placed), len(placed) - len(given.defaults)
    # A player that talks has a fourth
    most = 4 if count > 3 and placed[3].arg == TALK else 3
    required = [arg.arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    if (count < 3 and given.vararg is None) or least > most or required:
        raise UsageError(
            f"{path}:{statement.lineno}: act does not take three arguments by position.",
            code="player_without_act",
            hint=f"Write: def act({', '.join(_ACT)})",
            context={"path": str(path), "line": statement.lineno},
        )
