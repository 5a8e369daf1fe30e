"""The rules of Paint Arena: pure state, no clock, no sockets, no files.

The board is a grid; `(0, 0)` is the top left tile and `y` grows downward. Tile `(x, y)` has the index
`y * width + x`. Every slot holds one action, initially `stay`, until it is given another.
"""

from typing import Final, Literal, TypedDict

Action = Literal["up", "down", "left", "right", "stay"]

MOVES: Final[dict[Action, tuple[int, int]]] = {
    "up": (0, -1),
    "down": (0, 1),
    "left": (-1, 0),
    "right": (1, 0),
    "stay": (0, 0),
}
"""Step of each action as `(dx, dy)` in tiles."""

NOBODY: Final = -1
"""Owner of a tile that no slot has painted yet."""


class BoardState(TypedDict):
    """The part of a snapshot that the rules provide."""

    width: int
    height: int
    positions: list[list[int]]
    tile_owners: list[int]
    scores: list[int]
    tick: int


def action_from(word: str) -> Action:
    """Return the action named `word`; any unknown word means `stay`."""
    for action in MOVES:
        if action == word:
            return action
    return "stay"


class Board:
    """One game of Paint Arena.

    Args:
        width: Columns, at least 1.
        height: Rows, at least 1.
        slots: Number of players, at least 1. Slot `n` starts in corner `n % 4`: top left, bottom right,
            bottom left, top right. The start tiles are not painted before the first tick.

    Raises:
        ValueError: A size is not positive.
    """

    def __init__(self, width: int, height: int, *, slots: int) -> None:
        if width < 1 or height < 1 or slots < 1:
            raise ValueError(f"width, height and slots must be positive, got {width}, {height} and {slots}")
        self.width = width
        self.height = height
        self.slots = slots
        corners = ((0, 0), (width - 1, height - 1), (0, height - 1), (width - 1, 0))
        self._positions = [corners[slot % 4] for slot in range(slots)]
        self._held: list[Action] = ["stay"] * slots
        self._owners = [NOBODY] * (width * height)
        self._scores = [0] * slots
        self._tick = 0

    @property
    def tick(self) -> int:
        """Ticks played so far."""
        return self._tick

    @property
    def scores(self) -> tuple[int, ...]:
        """Tiles owned by each slot."""
        return tuple(self._scores)

    def held(self, slot: int) -> Action:
        """Return the action that `slot` is holding."""
        return self._held[slot]

    def hold(self, slot: int, action: Action) -> None:
        """Make `slot` repeat `action` on every tick until the next call."""
        self._held[slot] = action

    def step(self) -> None:
        """Play one tick: all players move, then all paint, in ascending slot order.

        Players pass through each other and stop at the edge. Of several players on one tile the highest slot
        paints last and so owns it. Scores are updated with each painted tile; the board is never recounted.
        """
        right, bottom = self.width - 1, self.height - 1
        for slot, (x, y) in enumerate(self._positions):
            dx, dy = MOVES[self._held[slot]]
            self._positions[slot] = (min(max(x + dx, 0), right), min(max(y + dy, 0), bottom))
        for slot, (x, y) in enumerate(self._positions):
            tile = y * self.width + x
            before = self._owners[tile]
            if before != slot:
                if before != NOBODY:
                    self._scores[before] -= 1
                self._owners[tile] = slot
                self._scores[slot] += 1
        self._tick += 1

    def state(self) -> BoardState:
        """Return a copy of everything visible on the board."""
        return {
            "width": self.width,
            "height": self.height,
            "positions": [[x, y] for x, y in self._positions],
            "tile_owners": list(self._owners),
            "scores": list(self._scores),
            "tick": self._tick,
        }
