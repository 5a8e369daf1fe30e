"""The files of an improvement: its plan, the log of its steps, each step's directory, and the best player."""

from __future__ import annotations

import difflib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from coworld_core.errors import UsageError
from coworld_core.files.new_files import write_new_files
from coworld_core.hints import Hint
from coworld_core.roles.improvement import (
    IMPROVEMENT_PLAN,
    IMPROVEMENT_STEPS,
    ImprovedPlayer,
    ImprovementPlan,
    read_improvement_plan,
)
from coworld_core.roles.role_record import ROLES_DIRECTORY
from coworld_core.secret_seeds import fresh_seed
from coworld_core.text.phrases import listed

from ..package.own_players.own_player import OwnPlayer
from ..package.own_players.player_directory import KEPT, directory_files
from ..runs.workspace import atomic_write

__all__ = ["ASKED", "ImprovementFolder", "changes_text", "player_files"]

_PLAYER = "player"
ASKED = "improver"
"""Directory of a step with what the program has left."""
_UNFINISHED = re.compile(rf"\.(player|best|old)-[0-9a-f]{{8}}|\.{_PLAYER}-unpacked|\.({ASKED}|diagnoser-.+)\.[0-9a-f]+")
"""Names of directories that a killed run leaves; whatever else begins with a dot is a person's."""
_LONGEST_DIFF = 1 << 20
_MAY_DIFFER = frozenset({"schema_version", "version"})


class ImprovementFolder:
    """The directory of an improvement.

    Args:
        path: The directory.

    Attributes:
        path: The same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def plan(self) -> Path:
        """The file of the plan."""
        return self.path / IMPROVEMENT_PLAN

    @property
    def log(self) -> Path:
        """The log of steps."""
        return self.path / IMPROVEMENT_STEPS

    @property
    def best(self) -> Path:
        """A copy of the best player so far, to be played."""
        return self.path / "best"

    def step(self, number: int) -> Path:
        """The directory of a step; 0: of the first player."""
        return self.path / "steps" / f"{number:04}"

    def evidence(self, best: int) -> Path:
        """The directory of the episodes of a player."""
        return self.path / "evidence" / f"{best:04}"

    def final(self, best: int) -> Path:
        """The directory of the comparison of a player with the first."""
        return self.path / "final" / f"{best:04}"

    def files_of(self, number: int, player: ImprovedPlayer) -> Path:
        """The directory of the files of a step's player."""
        place = self.step(number) / _PLAYER
        return place if player.single else place / player.entry

    def playable(self, number: int, player: ImprovedPlayer) -> Path:
        """What plays: the file or the directory of a step's player."""
        return self.step(number) / _PLAYER / player.entry

    def seed(self) -> int:
        """The base seed of the improvement that is there; if there is none, a fresh one.

        Raises:
            RecordError: Its plan is invalid.
        """
        return read_improvement_plan(self.plan).seed if self.plan.is_file() else fresh_seed()

    def refuse_other(self, plan: ImprovementPlan) -> None:
        """Refuse to go on with another improvement than the one that is there, if there is one.

        Raises:
            UsageError: The directory has another improvement (`another_improvement`), or the player has changed since
                (`player_changed`).
        """
        if self.plan.is_file():
            _refuse_other(self.path, read_improvement_plan(self.plan), plan)

    def begin(self, plan: ImprovementPlan, own: OwnPlayer) -> None:
        """Write the plan and the first player, unless they are there, and remove what a killed run left unfinished.

        Raises:
            UsageError: As for `refuse_other`.
        """
        self.refuse_other(plan)
        if not self.plan.is_file():
            atomic_write(self.plan, plan.to_document())
        self._sweep()
        if not self.files_of(0, plan.player).is_dir():
            self.put_player(0, plan.player, *player_files(own))

    def put_player(
        self, number: int, player: ImprovedPlayer, files: Mapping[str, bytes], runnable: frozenset[str]
    ) -> None:
        """Write the files of a step's player, all or none of them."""
        place = self.step(number)
        place.mkdir(parents=True, exist_ok=True)
        part = place / f".{_PLAYER}-{secrets.token_hex(4)}"
        write_new_files(part if player.single else part / player.entry, files, executable=runnable)
        part.rename(place / _PLAYER)

    def show_best(self, number: int, player: ImprovedPlayer, *, known: frozenset[int]) -> bool:
        """Put a copy of the best player where the user finds it.

        Args:
            number: The best player's step.
            player: The first player, for the names.
            known: Steps whose players may have been the best before.

        Returns:
            Whether it is there; not if someone else has changed the files there, or keeps a repository or the like
            there, which are left alone.
        """
        files, runnable = directory_files(self.files_of(number, player))
        if self.best.is_dir():
            there, _ = directory_files(self.best)
            if there == files:
                return True
            ours = not there or any(there == directory_files(self.files_of(one, player))[0] for one in known)
            if not ours or any(KEPT.intersection(names) for _, names, _ in os.walk(self.best)):
                return False
        part = self.path / f".best-{secrets.token_hex(4)}"
        write_new_files(part, files, executable=runnable)
        if self.best.exists():
            self.best.rename(old := self.path / f".old-{secrets.token_hex(4)}")
            part.rename(self.best)
            shutil.rmtree(old)
        else:
            part.rename(self.best)
        return True

    def sweep_step(self, number: int) -> None:
        """Remove what killed programs have left in a step's directory, once none of them runs any more."""
        _remove_unfinished(self.step(number))

    def _sweep(self) -> None:
        further = ("steps/*", "steps/*/player", f"evidence/*/episodes/*/{ROLES_DIRECTORY}")
        for place in (self.path, *(found for pattern in further for found in self.path.glob(pattern))):
            _remove_unfinished(place)


def _remove_unfinished(place: Path) -> None:
    for left in place.iterdir() if place.is_dir() else ():
        if _UNFINISHED.fullmatch(left.name) and left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)


def player_files(own: OwnPlayer) -> tuple[Mapping[str, bytes], frozenset[str]]:
    """The files of a player by relative path, and those that are executable."""
    return directory_files(own.path) if own.path.is_dir() else (own.files, own.runnable)


def changes_text(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """What differs between the files of two players, as a unified diff."""
    parts: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, b""), after.get(name, b"")
        if old == new:
            continue
        if len(old) + len(new) > _LONGEST_DIFF or b"\0" in old + new:
            parts.append(f"Binary or large file {name}: {len(old)} bytes before, {len(new)} after\n")
            continue
        first, second = (each.decode("utf-8", "replace").splitlines(keepends=True) for each in (old, new))
        for line in difflib.unified_diff(first, second, f"a/{name}", f"b/{name}"):
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _refuse_other(path: Path, found: ImprovementPlan, plan: ImprovementPlan) -> None:
    if found.player.entry == plan.player.entry and found.player.digest != plan.player.digest:
        raise UsageError(
            f"{plan.player.entry} has changed since its improvement in {path} began.",
            code="player_changed",
            hint=Hint(
                "restore_player",
                "Restore the old content, or start again: in another workspace, or under another name.",
            ),
        )
    others = [
        name
        for name in ImprovementPlan.model_fields
        if name not in _MAY_DIFFER and getattr(found, name) != getattr(plan, name)
    ]
    if others:
        raise UsageError(
            f"{path} has an improvement that differs from this one in: {listed(others)}.",
            code="another_improvement",
            hint=Hint("repeat_evaluation", "Repeat the call that began it, or pass another workspace."),
        )
