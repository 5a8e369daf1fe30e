"""The frontier player, which is hard to beat. `python -m paintarena.players.frontier`.

It searches paths a few steps ahead, favours those near tiles that it does not own, and takes the path that gains most
soonest. A free tile gains one; another player's tile gains two, as the other player also loses one; a tile that another
player stands on gains less, because it may be repainted at once. It has no memory and uses no randomness: the same
observation always gives the same move.
"""

from typing import Final

from paintarena.players.client import Observation, main
from paintarena.rules import MOVES, NOBODY, Action

DEPTH: Final = 10
"""Steps to look ahead."""

WIDTH: Final = 12
"""Number of paths kept at each step."""

UNDER_FOOT: Final = 0.3
"""Factor for the gain of a tile that another player stands on."""

Path = tuple[float, int, int, Action, frozenset[int]]
"""Worth so far, column, row, first action, tiles gained on the way."""


def choose(seen: Observation) -> Action:
    """Return the first step of the best path found."""
    slot, columns, rows, owners = seen["slot"], seen["width"], seen["height"], seen["tile_owners"]
    gains = [0.0 if owner == slot else 1.0 if owner == NOBODY else 2.0 for owner in owners]
    for other, (x, y) in enumerate(seen["positions"]):
        if other != slot:
            gains[y * columns + x] *= UNDER_FOOT
    pull = _pull(gains, columns, rows)
    # Ties are broken differently in each seat; with mirrored preferences, two of these players would copy each other.
    order: list[Action] = ["right", "down", "left", "up"] if slot % 2 == 0 else ["up", "left", "down", "right"]
    x, y = seen["positions"][slot]
    paths: list[Path] = [(0.0, x, y, "stay", frozenset())]
    steps = max(1, min(DEPTH, seen["max_ticks"] - seen["tick"]))
    for step in range(steps):
        longer: dict[tuple[int, int, frozenset[int]], Path] = {}
        for worth, px, py, first, taken in paths:
            for action in order:
                nx, ny = px + MOVES[action][0], py + MOVES[action][1]
                if not (0 <= nx < columns and 0 <= ny < rows):
                    continue
                tile = ny * columns + nx
                gain = 0 if tile in taken else gains[tile]
                path = (
                    # Sooner is better: the other player may take it first.
                    worth + gain * 0.95**step,
                    nx,
                    ny,
                    action if step == 0 else first,
                    taken | {tile} if gain else taken,
                )
                key = (nx, ny, path[4])
                if key not in longer or longer[key][0] < path[0]:
                    longer[key] = path
        # Sorting is stable, so the choice is the same every time.
        paths = sorted(longer.values(), key=lambda path: -path[0] + 0.05 * pull[path[2] * columns + path[1]])[:WIDTH]
    return paths[0][3]


def _pull(gains: list[float], columns: int, rows: int) -> list[int]:
    """Return each tile's distance in steps from the nearest tile that gains anything."""
    far = columns + rows
    distance = [0 if gain else far for gain in gains]
    for tile in range(len(gains)):
        if tile % columns:
            distance[tile] = min(distance[tile], distance[tile - 1] + 1)
        if tile >= columns:
            distance[tile] = min(distance[tile], distance[tile - columns] + 1)
    for tile in reversed(range(len(gains))):
        if tile % columns < columns - 1:
            distance[tile] = min(distance[tile], distance[tile + 1] + 1)
        if tile < len(gains) - columns:
            distance[tile] = min(distance[tile], distance[tile + columns] + 1)
    return distance


if __name__ == "__main__":
    main(choose, name="frontier")
