"""Reading files and standard input for commands, and writing files atomically."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from coworld_core.errors import UsageError, WorkspaceError
from coworld_core.files import refuse_lfs_pointer
from coworld_core.files import write_whole as write_file
from coworld_core.ids import id_problem

from .render.text import shown_path

__all__ = [
    "json_object",
    "json_values",
    "platform_episode",
    "read_bytes",
    "read_object",
    "read_secret",
    "secret_files",
    "target_file",
    "write_whole",
]

_LIMIT = 16 << 20
_STDIN = Path("-")


def read_bytes(path: Path, *, limit: int = _LIMIT) -> bytes:
    """The content of a file, or of standard input for `-`.

    Raises:
        UsageError: It cannot be read, or has more than `limit` bytes.
    """
    name = "standard input" if path == _STDIN else shown_path(path)
    try:
        if path == _STDIN:
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with path.expanduser().open("rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.", code="path_unreadable") from error
    if len(data) > limit:
        raise UsageError(f"{name} has more than {limit >> 20} MiB.", code="input_too_large")
    return refuse_lfs_pointer(data, name)


def _read_line(path: Path, *, what: str) -> str:
    """Read the single word that a file or standard input contains, such as a token or a code.

    Raises:
        UsageError: There is no word, or more than one. The message does not quote the content.
    """
    words = read_bytes(path, limit=1 << 20).decode("utf-8-sig", "replace").split()
    name = "standard input" if path == _STDIN else shown_path(path)
    if len(words) != 1:
        raise UsageError(
            f"There is no {what} in {name}." if not words else f"There is more than a {what} in {name}.",
            code="bad_input",
            hint=f"It must hold the {what} and nothing else.",
        )
    return words[0]


def read_secret(file: Path | None, *, what: str) -> str:
    """Read a token or a code from a file, standard input, or a hidden prompt.

    Raises:
        UsageError: The input is empty or has more than one word.
    """
    if file is None and sys.stdin.isatty():
        import click

        return click.prompt(what.capitalize(), hide_input=True, err=True)
    return _read_line(file or _STDIN, what=what)


def json_object(text: str | bytes, *, what: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        UsageError: The text is not JSON, or not an object; for a syntax error the message gives line and column.
    """
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.", code="bad_json"
        ) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON.", code="bad_json") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not a JSON object.", code="bad_json")
    return cast("dict[str, Any]", value)


def read_object(value: str, *, what: str) -> dict[str, Any]:
    """Read an object from an option's value: JSON itself, or the path of a JSON, TOML or YAML file.

    Args:
        value: The option's value.
        what: The option.

    Raises:
        UsageError: The value is neither, or the file has no object.
    """
    text = value.strip()
    if text.startswith(("{", "[")):
        return json_object(text, what=what)
    path = Path(value)
    data, name = read_bytes(path), shown_path(value)
    match path.suffix.lower():
        case ".toml":
            return _toml_object(data, what=name)
        case ".yaml" | ".yml":
            return _yaml_object(data, what=name)
        case _:
            return json_object(data, what=name)


def _toml_object(data: bytes, *, what: str) -> dict[str, Any]:
    import tomllib

    try:
        return _as_json(tomllib.loads(data.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{what} is not TOML: {error}.", code="bad_toml") from error
    except TypeError as error:
        raise UsageError(f"{what} has a value that JSON has not: {error}.", code="bad_toml") from error


def _yaml_object(data: bytes, *, what: str) -> dict[str, Any]:
    import yaml

    try:
        value: object = yaml.safe_load(data.decode("utf-8-sig"))
        if not isinstance(value, dict):
            raise UsageError(f"{what} has no names with values at its top.", code="bad_yaml")
        return _as_json(cast("dict[str, Any]", value))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        # Its message has several lines
        raise UsageError(f"{what} is not YAML: {' '.join(str(error).split())}.", code="bad_yaml") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} has a value that JSON has not: {error}.", code="bad_yaml") from error


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value, allow_nan=False))


def json_values(pairs: Mapping[str, str]) -> dict[str, Any]:
    """Parse the values that are JSON; keep the others as text."""

    def value(text: str) -> Any:
        try:
            return json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            return text

    return {key: value(text) for key, text in pairs.items()}


def secret_files(files: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files of `--secret-env-file`; `-` is standard input.

    Raises:
        UsageError: Standard input is named twice.
    """
    if files.count(_STDIN) > 1:
        raise UsageError("--secret-env-file - can be given once: standard input is read to its end.")
    return tuple(Path("/dev/stdin") if file == _STDIN else file for file in files)


def platform_episode(run: str) -> str | None:
    """The id of an episode of a platform; None for one of this machine, a path of such a name included.

    Raises:
        UsageError: It begins as such an id does, and is none.
    """
    from coworld_core.api import check_id, id_kind

    if id_kind(run) != "episode request" or Path(run).exists():
        return None
    return check_id(run, "episode request")


def target_file(value: Path | None, default: str, *, overwrite: bool) -> Path:
    """The absolute path of the file to write.

    Args:
        value: The path that the user gave.
        default: The name of the file in the current directory if no path was given.
        overwrite: Whether the file may exist.

    Raises:
        UsageError: The default cannot be a file name.
        WorkspaceError: The path is a directory, or a file that exists although it may not.
    """
    if value is None and (problem := id_problem(default)) is not None:
        raise UsageError(f"{default!r} {problem}, so it names no file.", code="bad_id", hint="Name one with --output.")
    path = (value or Path(default)).expanduser().absolute()
    if path.is_dir():
        raise WorkspaceError(f"{shown_path(path)} is a directory.", code="path_is_directory", hint="Name a file.")
    if path.exists() and not overwrite:
        raise WorkspaceError(
            f"{shown_path(path)} already exists.",
            code="path_exists",
            hint="Name another file, or add --overwrite.",
            context={"path": str(path)},
        )
    return path


def write_whole(target: Path, content: bytes) -> Path:
    """Write a file atomically; returns its path."""
    target = target.expanduser().absolute()
    try:
        write_file(target, content)
    except OSError as error:
        raise WorkspaceError(
            f"{shown_path(target)} cannot be written: {error.strerror}.", code="path_unwritable"
        ) from error
    return target
