"""The settings of a tournament, in the file `tournament.toml`."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import Field, StringConstraints

from coworld_core.commissioner.hook_names import HookName
from coworld_core.documents.settings_file import SettingsPart, parse_settings
from coworld_core.errors import UsageError
from coworld_core.evaluation.ratings import RatingName
from coworld_core.files.atomic import write_whole
from coworld_core.hints import Hint

from ...runs.workspace import atomic_write

__all__ = [
    "SEEDS_NAME",
    "SETTINGS_NAME",
    "TournamentSettings",
    "change_entrants",
    "read_secret",
    "read_settings",
    "write_secret",
]

SETTINGS_NAME = "tournament.toml"
SEEDS_NAME = "seed.secret"
"""The file with the secret from which seeds are drawn, in hexadecimal, if the settings name no seed."""

_SECRET_BYTES = 32
_Name = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$")]


class PairingSettings(SettingsPart):
    """How players are paired."""

    kind: str = "round-robin"
    rounds: int | None = Field(default=None, ge=1)
    blocks: int = Field(default=1, ge=1)
    commissioner: str = ""
    hooks: list[HookName] = Field(default_factory=list[HookName])
    """The optional questions to ask the commissioner. A commissioner without one of these hooks never answers it."""


class StopSettings(SettingsPart):
    """When the tournament ends, other than by the pairing having no more rounds."""

    max_blocks: int = Field(default=1000, ge=1)
    told_apart: bool = False


class TournamentSettings(SettingsPart):
    """The whole file."""

    game: str
    variant: str | None = None
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Changes to the game config."""
    seed: int | None = None
    """The base seed; None: the seeds are drawn from the secret in `SEEDS_NAME`."""
    metric: str = ""
    forfeit: float | None = None
    count_starved: bool = False
    rating: RatingName | Literal["mean"] = "bradley-terry"
    pairing: PairingSettings = PairingSettings()
    stop: StopSettings = StopSettings()
    entrants: dict[_Name, str] = Field(default_factory=dict[_Name, str])


def read_settings(directory: Path) -> TournamentSettings:
    """Read the settings of a tournament.

    Raises:
        UsageError: The file is missing (`no_tournament`), or invalid (`settings_invalid`); the message names the
            line or the field.
    """
    path = directory / SETTINGS_NAME
    try:
        return parse_settings(TournamentSettings, path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        raise UsageError(
            f"{directory} has no tournament: there is no {SETTINGS_NAME}.",
            code="no_tournament",
            hint=Hint("begin_tournament", "Begin one with create_tournament."),
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", code="settings_invalid") from error


def read_secret(directory: Path) -> bytes | None:
    """Read the secret of a tournament's seeds; None if it has none.

    Raises:
        UsageError: Code `secret_invalid`: the file cannot be read, or is not a secret.
    """
    path = directory / SEEDS_NAME
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a hexadecimal number"
        raise UsageError(
            f"{path} cannot be read: {why}.", code="secret_invalid", hint="Put back the file as it was."
        ) from None
    if len(secret) < _SECRET_BYTES:
        raise UsageError(
            f"{path} has {len(secret)} bytes, fewer than the {_SECRET_BYTES} of a secret.",
            code="secret_invalid",
            hint="Put back the file as it was.",
        )
    return secret


def write_secret(directory: Path) -> None:
    """Write a new secret, readable only by its owner, unless the directory has one.

    Raises:
        OSError: It cannot be written.
    """
    path = directory / SEEDS_NAME
    if not path.exists():
        write_whole(path, f"{secrets.token_hex(_SECRET_BYTES)}\n".encode(), mode=0o600)


def change_entrants(directory: Path, *, add: tuple[str, str] | None = None, remove: str = "") -> None:
    """Add an entrant to the file or remove one; everything else stays as it was written.

    Args:
        directory: The tournament's directory.
        add: Name and player of the entrant to add.
        remove: Name of the entrant to remove.
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
    parse_settings(TournamentSettings, text, path)
    atomic_write(path, text.encode())
