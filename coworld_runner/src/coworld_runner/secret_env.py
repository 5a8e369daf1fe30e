"""Secrets for players, read from this process's environment or from a file, so that they appear on no command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coworld_core.environment import is_reserved_env
from coworld_core.errors import UsageError
from coworld_core.hints import Hint

__all__ = ["SecretEnv", "read_secret_env"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class SecretEnv:
    """Secrets by variable name."""

    values: Mapping[str, str] = field(repr=False)
    exposed: tuple[str, ...] = ()
    """Names whose values were given on the command line, where process lists, shell history and CI logs show them."""


def read_secret_env(
    items: Sequence[str] = (), *, files: Sequence[Path] = (), environment: Mapping[str, str]
) -> SecretEnv:
    """Read secrets from arguments and files.

    Args:
        items: ``NAME``, whose value is taken from ``environment``, or ``NAME=VALUE``. They take precedence over files.
        files: Files with one ``NAME=VALUE`` or ``NAME`` per line. Empty lines and lines that begin with ``#`` are
            ignored, quotes around a whole value are removed, and values are not expanded. Later files take precedence.
        environment: The variables to look bare names up in.

    Raises:
        UsageError: A name is invalid or reserved for the runner, a value is missing, or a file cannot be read.
    """
    values: dict[str, str] = {}
    for file in files:
        for number, line in enumerate(_lines(file), start=1):
            name, value = _split(line, environment, f"{file}:{number}", may_be_blank=True)
            values[name] = _unquoted(value) if "=" in line else value
    exposed: list[str] = []
    for number, item in enumerate(items, start=1):
        name, value = _split(item, environment, f"Secret {number}")
        values[name] = value
        if "=" in item:
            exposed.append(name)
    values.pop("", None)
    return SecretEnv(values=values, exposed=tuple(dict.fromkeys(exposed)))


def _lines(file: Path) -> list[str]:
    """Return the lines of a file without a leading ``export``, with comments blanked to keep the line numbers."""
    try:
        with file.expanduser().open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"The secrets file {file} cannot be read: {error.strerror}.", code="secrets_unreadable"
        ) from error
    if len(data) > _MAX_BYTES:
        raise UsageError(f"The secrets file {file} is larger than 1 MiB.", code="secrets_unreadable")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"The secrets file {file} is not UTF-8 text.", code="secrets_unreadable") from error
    stripped = [line.strip() for line in text.splitlines()]
    return ["" if line.startswith("#") else line.removeprefix("export ").lstrip() for line in stripped]


def _split(item: str, environment: Mapping[str, str], where: str, *, may_be_blank: bool = False) -> tuple[str, str]:
    """Return name and value of an item; both are empty for a blank line of a file."""
    if not item and may_be_blank:
        return "", ""
    name, given, value = item.partition("=")
    name = name.strip()
    if not _NAME.fullmatch(name):
        # never show the item itself: a secret value may be in the place of the name
        raise UsageError(
            f"{where}: there is no name of an environment variable before the `=`."
            if given
            else f"{where}: this is not a name of an environment variable.",
            code="bad_secret_name",
            hint="Write NAME to take the value from your environment, or NAME=VALUE in a file.",
        )
    if is_reserved_env(name):
        raise UsageError(
            f"{where}: {name} is set by the runner itself, so it cannot be a secret of a player.",
            code="reserved_env_name",
            context={"name": name},
        )
    if not given:
        if name not in environment:
            raise UsageError(
                f"{where}: {name} is not set in your environment.",
                code="secret_not_set",
                hint=Hint("set_secret", "Set it first (export {name}=...), or put {name}=... into a file.", name=name),
                context={"name": name},
            )
        value = environment[name]
    if "\0" in value:
        raise UsageError(f"{where}: the value of {name} contains a NUL character.", code="bad_secret_value")
    return name, value


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value
