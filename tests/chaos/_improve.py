"""An improvement to be killed: goes on where the one before it was. Arguments: the game, the player, the optimizer,
the workspace, and the variant."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from coworld_core.roles.improvement_budget import ImprovementBudget
from coworld_runner.evaluation import EvaluationRules
from coworld_runner.improvement import ImprovementRules, improve_player


async def main(game: str, player: str, optimizer: str, workspace: str, variant: str) -> None:
    evaluation = EvaluationRules(variant=variant, seed=0, count_starved=True, max_blocks=40)
    await improve_player(
        game,
        player,
        improver=optimizer,
        budget=ImprovementBudget(steps=2),
        rules=ImprovementRules(episodes=2, evaluation=evaluation),
        workspace=Path(workspace),
        parallel=4,
    )


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:6])  # pyright: ignore[reportArgumentType]
