"""A player of Paint Arena to begin with: it goes to the nearest tile that is not its own."""

from typing import Any


async def play(seat: Any) -> None:
    """Answer each observation with a move."""
    async for seen in seat:
        if seen["type"] == "observation":
            await seat.send({"move": move(seen)})


def move(seen: dict[str, Any]) -> str:
    """One of up, down, left, right and stay."""
    x, y = seen["positions"][seen["slot"]]
    ways: list[tuple[int, int, int]] = []
    for index, owner in enumerate(seen["tile_owners"]):
        row, column = divmod(index, seen["width"])
        if owner != seen["slot"]:
            ways.append((abs(column - x) + abs(row - y), column - x, row - y))
    if not ways:
        return "stay"
    _, right, down = min(ways)
    if right:
        return "right" if right > 0 else "left"
    return "down" if down > 0 else "up"
