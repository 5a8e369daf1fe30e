"""``tournament.toml``: what a person wants of a tournament."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from coworld_core.errors import UsageError
from coworld_core.evaluation.ratings import RatingName
from coworld_core.tournament.hooks import HookName

from ..players import PlayerRef
from ..runs.workspace import atomic_write

__all__ = ["SETTINGS_NAME", "TournamentSettings", "change_entrants", "described_from", "found_from", "read_settings"]

SETTINGS_NAME = "tournament.toml"

_Name = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PairingSettings(_Part):
    """Who meets whom."""

    kind: str = "round-robin"
    rounds: int | None = Field(default=None, ge=1)
    blocks: int = Field(default=1, ge=1)
    commissioner: str = ""
    hooks: list[HookName] = []
    """What the commissioner is asked besides its rounds; those of its hooks that it does not have, it never answers."""


class StopSettings(_Part):
    """When it is over, besides when the pairing has no more rounds."""

    blocks: int = Field(default=1000, ge=1)
    told_apart: bool = False


class TournamentSettings(_Part):
    """The whole file."""

    game: str
    variant: str | None = None
    seed: int = 0
    metric: str = ""
    forfeit: float | None = None
    count_starved: bool = False
    rating: RatingName | Literal["mean"] = "bradley-terry"
    pairing: PairingSettings = PairingSettings()
    stop: StopSettings = StopSettings()
    entrants: dict[_Name, str] = {}


def read_settings(directory: Path) -> TournamentSettings:
    """Read the file of a tournament.

    Raises:
        UsageError: There is none (``no_tournament``), or something in it is wrong (``settings_invalid``), with its
            line or its field.
    """
    path = directory / SETTINGS_NAME
    try:
        return parse_settings(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        raise UsageError(
            f"{directory} has no tournament: there is no {SETTINGS_NAME}.",
            code="no_tournament",
            hint="Begin one with `coworld tournament init`.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", code="settings_invalid") from error


def parse_settings(text: str, path: Path) -> TournamentSettings:
    """The settings in a text.

    Raises:
        UsageError: Something in it is wrong; code ``settings_invalid``.
    """
    try:
        return TournamentSettings.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}.", code="settings_invalid", hint="Correct that line.") from None
    except ValidationError as error:
        found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)]
        raise UsageError(
            f"{path}: {'; '.join(found)}.", code="settings_invalid", hint="Correct that, and repeat the command."
        ) from None


def change_entrants(directory: Path, *, add: tuple[str, str] | None = None, remove: str = "") -> None:
    """Write another entrant into the file, or take one out; everything else stays as it was written.

    Args:
        directory: That of the tournament.
        add: Name and player.
        remove: Name.
    """
    path = directory / SETTINGS_NAME
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    if "entrants" not in document:
        document["entrants"] = tomlkit.table()
    entrants = document["entrants"]
    assert isinstance(entrants, dict)
    if add is not None:
        entrants[add[0]] = add[1]
    if remove:
        entrants.pop(remove, None)
    text = tomlkit.dumps(document)
    parse_settings(text, path)
    atomic_write(path, text.encode())


def found_from(directory: Path, word: str) -> str:
    """What a word of the file means from here: files are looked for from the directory of the tournament."""
    relative = word.startswith(("./", "../")) or word in (".", "..") or word.endswith((".py", "/"))
    return os.path.relpath(directory / word) if relative and not Path(word).is_absolute() else word


def described_from(directory: Path, path: Path) -> str:
    """A path as the file has it: from the directory of the tournament."""
    relative = Path(os.path.relpath(path.expanduser().absolute(), directory.absolute())).as_posix()
    return relative if relative.startswith(".") else f"./{relative}"


def described_player(directory: Path, player: PlayerRef) -> str:
    """A player as the file has it."""
    own = player.own
    return described_from(directory, own.path) if own is not None and player.word != own.name else player.word
