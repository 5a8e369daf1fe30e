"""Reports players that have not connected, and blames them when their time is up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from coworld_core.episode.events import Notice

from ..backend import Unit
from ..package.plan import CONNECT_TIMEOUT
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .episode_watch import SILENT, Watch, is_number

__all__ = ["watch_connections"]

_SILENT = 10.0
"""Seconds after which a player that has not connected is reported."""
_LOOK_AGAIN = 0.5


async def watch_connections(
    setup: Setup, ledger: Ledger, watch: Watch, all_started: anyio.Event, missing: Callable[[], Sequence[Unit]]
) -> None:
    """Report the players that have not connected yet, and blame those that do not connect in time.

    Args:
        setup: The episode's surroundings.
        ledger: Receives what is seen.
        watch: Tells whether the game's part is over.
        all_started: Set when every player has been started or could not be started.
        missing: Returns the players not connected, as far as that can be seen.
    """
    await all_started.wait()
    begun, named = anyio.current_time(), set[str]()
    allowed = setup.plan.game_config.get(CONNECT_TIMEOUT)
    allowed = allowed if is_number(allowed) else 0
    time_limit = max(setup.options.connect_timeout_seconds, allowed, setup.plan.warm_up())
    while (waited := anyio.current_time() - begun) < time_limit:
        for player in missing() if waited >= _SILENT else ():
            if player.name not in named and player.exit is None:
                named.add(player.name)
                who = ledger.who("player", player.spec.slot).removeprefix("Player")
                words = f"Waiting for player{who}: it has not connected for {waited:.0f} s."
                ledger.publish(Notice(message=words))
        await anyio.sleep(min(_LOOK_AGAIN, time_limit - waited))
    if watch.over.is_set() or await watch.is_done():
        return
    for player in missing():
        slot = player.spec.slot
        words = (
            f"{ledger.who('player', slot)} had not connected {time_limit:g} s after all players were started{SILENT}"
        )
        await ledger.see("never_connected", "player", slot, details=words)
        if setup.options.on_player_failure == "stop":
            watch.over.set()
