"""Players that are files: copies them from the template's directory to that of the built manifest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from ..package.own_players.game_run_player import read_hosted
from ._build_plan import BuildPlan

__all__ = ["check_player_files", "copy_player_files"]


def check_player_files(plan: BuildPlan) -> None:
    """Check that the files exist and can be handed to the game.

    Raises:
        UsageError: A file is missing or cannot be handed to the game.
    """
    for source, _ in _places(plan):
        read_hosted(source)


def copy_player_files(plan: BuildPlan) -> None:
    """Copy the files to where the built manifest expects them."""
    for source, target in _places(plan):
        if target.resolve() == source.resolve():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)


def _places(plan: BuildPlan) -> Iterator[tuple[Path, Path]]:
    for player in plan.manifest.player:
        if player.file is not None and not player.file.startswith("sha256:"):
            yield plan.template.parent / player.file, plan.output.parent / player.file
