"""What a folder of bots keeps in `.history`: the history, the files of versions, and what gates have measured.

The history is append-only and never shortened. Versions are stored by content; they and the measurements are bounded:
those of the newest gates are kept, and every bot's last accepted versions.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.evaluation.gate_history import (
    GATE_HISTORY,
    GatedPlayer,
    GateHistory,
    GateMeasurement,
    GateRecord,
    read_gate_history,
)
from coworld_core.hints import Hint
from coworld_core.rules.player_directories import defines_player, player_entry

from ...package.own_players.kept_players import KeptPlayers
from ...package.own_players.own_player import OwnPlayer
from ...package.own_players.player_directory import CACHES
from ...runs._tree_removal import remove_tree
from ...runs.logged_folder import open_in_turn
from ...runs.workspace import timestamp

__all__ = ["GateFolder"]

_PLACE = ".history"
_GATES = 30
"""Gates whose measurements are kept."""
_VERSIONS = 10
"""Accepted versions of each bot whose files are kept."""
_LEFT_OUT = CACHES | {"results", "wheels"}


class GateFolder:
    """A folder that holds the bots of one game.

    Args:
        directory: The folder.

    Attributes:
        directory: The same.
        place: Where it keeps its history.
        versions: The files of versions.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.place = self.directory / _PLACE
        self.versions = KeptPlayers(self.place / "versions")

    @property
    def log(self) -> Path:
        """The history's file."""
        return self.place / GATE_HISTORY

    def history(self, *, needed: bool = False) -> GateHistory:
        """Read the history.

        Args:
            needed: Whether there must be one; otherwise it may be empty.

        Raises:
            UsageError: It must be there, and is not (`no_history`).
            RecordError: A line is not of a history.
        """
        if self.log.is_file():
            return read_gate_history(self.log)
        if needed:
            raise UsageError(
                f"{self.directory} has no history of bots: there is no {_PLACE}/{GATE_HISTORY}.",
                code="no_history",
                hint=Hint("gate_first", "Gate a bot of this folder first."),
            )
        return GateHistory.of(())

    def gate(self, gate: str) -> Path:
        """The directory of a gate's measurements."""
        return self.place / "gates" / gate

    def measured(self, gate: GateRecord, measurement: GateMeasurement) -> Path:
        """The directory of a measurement."""
        return self.gate(gate.gate) / measurement.directory

    def new_gate(self, bot: str) -> str:
        """Return an id for a gate of a bot, which sorts by time."""
        return f"{timestamp()}-{Path(bot).stem or 'bot'}-{secrets.token_hex(2)}"

    # --- the history

    def enter(self, decide: Callable[[GateHistory], GateRecord | None]) -> GateRecord | None:
        """Append what a function makes of the history, while no other process writes, and keep what it needs.

        Args:
            decide: Returns the line to append, if any. It may keep players; those that no line needs are removed later.

        Returns:
            That line.

        Raises:
            WorkspaceError: The folder cannot be written to.
            EnvironmentFault: The disk is full; the history is unchanged.
        """
        with open_in_turn(self.log) as log:
            record = decide(self.history())
            if record is not None:
                log.append(record.to_line())
                if record.status != "begun":
                    self._prune()
            return record

    # --- versions

    def version(self, player: GatedPlayer) -> Path:
        """The path of a kept version: its file or its directory."""
        return self.versions.path(player.digest, player.name)

    def _prune(self) -> None:
        """Remove the measurements of old gates, and versions that neither a kept gate nor a bot needs any more."""
        history = self.history()
        kept = history.gates[-_GATES:]
        versions = {
            player.digest
            for gate in kept
            for player in (gate.bot, gate.accepted, *gate.opponents, *gate.earlier)
            if player
        }
        for bot in history.bots:
            versions.update(version.digest for version in history.versions_of(bot)[:_VERSIONS])
        self.versions.prune(versions)
        old, place = {gate.gate for gate in history.gates[:-_GATES]}, self.place / "gates"
        for entry in place.iterdir() if place.is_dir() else ():
            if entry.name in old:
                remove_tree(entry)

    # --- bots

    def others(self, own: OwnPlayer, history: GateHistory) -> list[Path]:
        """The other bots beside one: those of the history, files that define a player, and directories that hold one.

        Args:
            own: The bot.
            history: The history.
        """
        mine = {own.path.name, *(() if own.path.is_dir() else own.files)}
        known = {gate.bot.name for gate in history.accepted}
        return [
            entry
            for entry in sorted(self.directory.iterdir())
            if not entry.name.startswith((".", "_"))
            and entry.name not in _LEFT_OUT | mine
            and (entry.name in known or _is_bot(entry))
        ]


def _is_bot(path: Path) -> bool:
    if path.is_file():
        return path.suffix == ".py" and defines_player(path)
    if not path.is_dir() or any(path.glob("coworld_manifest*.json")):
        return False
    try:
        player_entry(path)
    except (UsageError, OSError):
        return False
    return True
