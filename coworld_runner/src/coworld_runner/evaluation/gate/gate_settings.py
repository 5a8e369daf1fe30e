"""What a folder of bots is gated in, in the file `gate.toml`: the game, and the opponents."""

from __future__ import annotations

from pathlib import Path

import tomlkit
from pydantic import Field

from coworld_core.documents.settings_file import SettingsPart, described_game, found_from, found_game, parse_settings
from coworld_core.errors import UsageError

from ...package.player_names import read_players
from ...package.resolver import Package
from ...runs.workspace import atomic_write
from ..settings_words import described_player

__all__ = ["GATE_SETTINGS", "GateSettings", "read_gate_settings", "write_gate_settings"]

GATE_SETTINGS = "gate.toml"


class GateSettings(SettingsPart):
    """The whole file; whatever it leaves out has its default."""

    game: str = ""
    """The game; empty: the caller names it."""
    variant: str | None = None
    opponents: list[str] | None = None
    """The opponents, as `read_players` reads them; None: the other bots of the folder."""
    margin: float | None = Field(default=None, ge=0)
    """The largest difference of mean scores that is negligible: a version that is as good as the accepted one passes,
    too. None: it must be better."""
    metric: str = ""
    forfeit: float | None = None
    count_starved: bool = False

    def but(self, **changes: object) -> GateSettings:
        """The settings with what was given in place of the file's; None, False and what is empty was not given."""
        return self.model_copy(
            update={
                name: value for name, value in changes.items() if value is not False and value not in (None, "", ())
            }
        )


def read_gate_settings(directory: Path) -> GateSettings:
    """Read the settings of a folder; its paths become relative to the current directory. Defaults if it has no file.

    Raises:
        UsageError: Code `settings_invalid`: the file is invalid; the message names the line or the field.
    """
    path = directory / GATE_SETTINGS
    try:
        found = parse_settings(GateSettings, path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        return GateSettings()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", code="settings_invalid") from error
    opponents = None if found.opponents is None else [found_from(directory, word) for word in found.opponents]
    return found.model_copy(update={"game": found_game(directory, found.game), "opponents": opponents})


def write_gate_settings(
    directory: Path, package: Package, game: str, *, variant: str | None, opponents: tuple[str, ...]
) -> Path | None:
    """Write what was named as the settings of a folder that has none; returns the file, or None if there was one."""
    path = directory / GATE_SETTINGS
    if path.exists():
        return None
    document = tomlkit.document()
    document["game"] = described_game(directory, game)
    if variant is not None:
        document["variant"] = variant
    if opponents:
        document["opponents"] = [described_player(directory, player) for player in read_players(opponents, package)]
    atomic_write(path, tomlkit.dumps(document).encode())
    return path
