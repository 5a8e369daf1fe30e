"""The sweep player: row by row, like a lawn mower. `python -m paintarena.players.sweep`.

An even slot starts at the top and sweeps down, going right on even rows and left on odd ones; an odd slot starts at the
bottom and sweeps up, going left on even rows and right on odd ones. At the end of the last row it turns back.
"""

from paintarena.players.client import Observation, main
from paintarena.rules import Action


def choose(seen: Observation) -> Action:
    """Return the next move of the sweep."""
    slot = seen["slot"]
    x, y = seen["positions"][slot]
    rightward = (y % 2 == 0) == (slot % 2 == 0)
    if rightward and x < seen["width"] - 1:
        return "right"
    if not rightward and x > 0:
        return "left"
    if slot % 2 == 0:
        return "down" if y < seen["height"] - 1 else "up"
    return "up" if y > 0 else "down"


if __name__ == "__main__":
    main(choose, name="sweep")
