"""`python -m coworld_client.seat FILE.py`: let the player in a file play from the seat that the environment names."""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any


def _named(name: str) -> Any:
    from .controllers import load_controller
    from .seat_session import load_player

    return load_controller(name) if name.endswith(".json") else load_player(name, alone=True)


def main() -> int:
    """Play one game, and return the exit code: 0 when it is over, 1 when this player failed, 2 for wrong usage."""
    # The first process of a container ignores SIGTERM unless it installs a handler.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if len(sys.argv) != 2:
        print("usage: python -m coworld_client.seat FILE.py[:NAME] | MODULE[:NAME]", file=sys.stderr)
        return 2
    # Imported modules stay, and collecting garbage among them would take a tenth of the start-up time.
    gc.disable()
    import asyncio

    from coworld_core.errors import UsageError

    from .seat_session import SeatError, play_seat, seat_url

    async def play(player: Any, url: str) -> dict[str, Any] | None:
        # Once the loop waits for the game, everything is imported
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
