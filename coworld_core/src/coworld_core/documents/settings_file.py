"""Settings that a person edits: TOML files in a directory, whose paths are relative to it."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import UsageError
from ..text.terminal import writable

__all__ = [
    "SettingsPart",
    "described_from",
    "described_game",
    "found_from",
    "found_game",
    "parse_settings",
]


class SettingsPart(BaseModel):
    """A file of settings, or a table in one; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_Settings = TypeVar("_Settings", bound=SettingsPart)


def parse_settings(model: type[_Settings], text: str, path: Path) -> _Settings:
    """Parse the text of a settings file.

    Args:
        model: Its content.
        text: The text.
        path: The file, for messages.

    Raises:
        UsageError: Code `settings_invalid`: the text is invalid; the message names the line or the field.
    """
    try:
        return model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}.", code="settings_invalid", hint="Correct that line.") from None
    except ValidationError as error:
        found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)]
        raise UsageError(
            f"{path}: {'; '.join(found)}.", code="settings_invalid", hint="Correct that, and repeat the command."
        ) from None


def found_from(directory: Path, word: str) -> str:
    """Make a path in the file, which is relative to its directory, relative to the current directory."""
    relative = word.startswith(("./", "../")) or word in (".", "..") or word.endswith((".py", "/"))
    return os.path.relpath(directory / word) if relative and not Path(word).is_absolute() else word


def described_from(directory: Path, path: Path) -> str:
    """Return a path as the file stores it: relative to its directory.

    Raises:
        UsageError: A name in it is not UTF-8 (`path_not_utf8`), as the file is.
    """
    relative = Path(os.path.relpath(path.expanduser().absolute(), directory.absolute())).as_posix()
    if writable(relative) != relative:
        raise UsageError(
            f"Settings cannot name {relative}, whose name is not UTF-8.",
            code="path_not_utf8",
            hint="Rename it, or keep the settings in the same directory.",
        )
    return relative if relative.startswith(".") else f"./{relative}"


def found_game(directory: Path, word: str) -> str:
    """Make the path of a game in the file relative to the current directory; an address stays as it is."""
    return found_from(directory, word) if word.startswith(".") else word


def described_game(directory: Path, game: str) -> str:
    """Return a game as the file stores it."""
    return described_from(directory, Path(game)) if Path(game).expanduser().exists() else game
