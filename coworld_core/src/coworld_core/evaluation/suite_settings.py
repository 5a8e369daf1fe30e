"""What a suite plays, in a file that a person writes: `suite.toml`, or any other name."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from ..documents.settings_file import SettingsPart, found_from, found_game, parse_settings
from ..errors import UsageError
from ..text.phrases import listed

__all__ = ["CANDIDATE", "EntrySettings", "SuiteSettings", "read_suite_settings"]

CANDIDATE = "{player}"
"""Stands in a line-up for each player that the suite is played with."""

_Name = Annotated[str, StringConstraints(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$")]


class EntrySettings(SettingsPart):
    """One entry: every line-up is measured in every variant."""

    name: _Name
    variants: list[str] | None = Field(default=None, min_length=1)
    """Ids and patterns (`small-*`); None: the certification fixture."""
    lineups: list[Annotated[list[str], Field(min_length=1)]] = Field(min_length=1)
    """Players that share the seats; one that is named twice has twice the seats."""
    episodes: int | None = Field(default=None, ge=1)
    seed: int | None = None
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Changes to the game config, after those of the suite."""


class SuiteSettings(SettingsPart):
    """The whole file."""

    name: str = ""
    """Empty: the name of the file."""
    game: str = ""
    """The game; empty: the caller names it."""
    episodes: int = Field(default=50, ge=1)
    """Episodes of each line-up in each variant, at least: the last block is played whole."""
    seed: int | None = None
    """The base seed; None: a fresh one, which nobody can guess, for each directory."""
    metric: str = ""
    forfeit: float | None = None
    count_starved: bool = False
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Changes to the game config."""
    entry: list[EntrySettings] = Field(min_length=1)

    @property
    def players(self) -> tuple[str, ...]:
        """The players that line-ups name, each once, without `{player}`."""
        words = (word for entry in self.entry for lineup in entry.lineups for word in lineup)
        return tuple(dict.fromkeys(word for word in words if word != CANDIDATE))


def read_suite_settings(path: str | os.PathLike[str]) -> SuiteSettings:
    """Read a suite; its paths become relative to the current directory.

    Raises:
        UsageError: The file is missing (`file_not_found`), or invalid (`settings_invalid`); the message names the
            line or the field.
    """
    file = Path(path)
    try:
        found = parse_settings(SuiteSettings, file.read_text(encoding="utf-8"), file)
    except FileNotFoundError:
        raise UsageError(f"There is no file {file}.", code="file_not_found", hint="Name the file of a suite.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", code="settings_invalid") from error
    twice = [name for name, count in Counter(entry.name for entry in found.entry).items() if count > 1]
    if twice:
        raise UsageError(
            f"{file}: several entries are called {listed(twice)}.",
            code="settings_invalid",
            hint="Give each entry a name of its own.",
        )
    entries = [
        entry.model_copy(
            update={"lineups": [[found_from(file.parent, word) for word in lineup] for lineup in entry.lineups]}
        )
        for entry in found.entry
    ]
    update = {"name": found.name or file.stem, "game": found_game(file.parent, found.game), "entry": entries}
    return found.model_copy(update=update)
