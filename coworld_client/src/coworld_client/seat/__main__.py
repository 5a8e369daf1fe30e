"""`python -m coworld_client.seat FILE.py`: play the seat whose address the environment has, with the player in it."""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any


def _named(name: str) -> Any:
    from .controllers import load_controller
    from .playing import load_player

    return load_controller(name) if name.endswith(".json") else load_player(name)


def main() -> int:
    """Play one game, and return the exit code: 0 when it is over, 1 when this player failed, 2 for a wrong call."""
    # The first process of a container ignores SIGTERM until it says otherwise.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if len(sys.argv) != 2:
        print("usage: python -m coworld_client.seat FILE.py[:NAME] | MODULE[:NAME]", file=sys.stderr)
        return 2
    # What is imported stays: looking through it for cycles, again and again, takes a tenth of the start.
    gc.disable()
    import asyncio

    from coworld_core.errors import UsageError

    from .playing import SeatError, play_seat, seat_url

    async def play(player: Any, url: str) -> dict[str, Any] | None:
        # once it waits for the game, everything is there
        asyncio.get_running_loop().call_soon(_settled)
        return await play_seat(player, url)

    try:
        over = asyncio.run(play(_named(sys.argv[1]), seat_url()))
    except (UsageError, SeatError) as error:
        if error.__cause__ is not None:
            import traceback

            traceback.print_exception(error.__cause__)
        print(error, file=sys.stderr)
        return 2 if error.kind == "usage" else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print("the game has closed the connection" if over is None else f"over: scores {over.get('scores')}", flush=True)
    return 0


def _settled() -> None:
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    sys.exit(main())
