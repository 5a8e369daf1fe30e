"""A player of Paint Arena to begin with: it goes to the nearest tile that is not its own.

It needs nothing but websockets, which the game's own image has, so it plays there as well as on your machine.
"""

import asyncio
import json
import os
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedOK


async def main() -> None:
    """Answer each observation with a move, until the game is over."""
    # The game may be over while it thinks
    with suppress(ConnectionClosedOK):
        async with connect(os.environ["COWORLD_PLAYER_WS_URL"], proxy=None) as game:
            async for text in game:
                seen = json.loads(text)
                if seen["type"] == "observation":
                    await game.send(json.dumps({"move": move(seen)}))
                elif seen["type"] == "final":
                    return


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


if __name__ == "__main__":
    asyncio.run(main())
