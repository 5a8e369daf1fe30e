"""The optimizer: writes the next idea for a player that was not tried yet, and passes on what the diagnoser advises."""

from pathlib import Path

from coworld_runner.kit.roles import OptimizerTask

ID = "paint-arena-optimizer"

SWEEP = """x, y = seen["positions"][seen["slot"]]
    if y % 2 == 0 and x < seen["width"] - 1:
        return "right"
    if y % 2 == 1 and x > 0:
        return "left"
    return "down" if y < seen["height"] - 1 else "up"
"""
NEAREST = """x, y = seen["positions"][seen["slot"]]
    tiles = [divmod(tile, seen["width"]) for tile, owner in enumerate(seen["tile_owners"]) if owner != seen["slot"]]
    row, column = min(tiles, key=lambda tile: abs(tile[0] - y) + abs(tile[1] - x), default=(y, x))
    if column != x:
        return "right" if column > x else "left"
    return "stay" if row == y else "down" if row > y else "up"
"""
IDEAS = {"It goes row by row.": SWEEP, "It heads for the nearest tile that it does not own.": NEAREST}
PLAYER = """from paintarena.players.client import main


def choose(seen):
    {idea}

main(choose, name="improved")
"""


def optimize(task: OptimizerTask, player: Path | None) -> list[str]:
    """Write the first idea that no earlier step has tried; without a player, only advise."""
    advice = dict.fromkeys(str(text) for found in task.findings for text in found.get("recommendations", ()))
    tried = {step.note for step in task.history}
    for idea, source in IDEAS.items():
        if player is not None and idea not in tried:
            player.write_text(PLAYER.format(idea=source))
            return [idea]
    return list(advice) or ["Compare it with the frontier painter, and look at the games that it loses."]
