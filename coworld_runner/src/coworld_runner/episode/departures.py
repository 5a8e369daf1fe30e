"""Ends the wait for a game that all its players have left, and blames them for it."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from coworld_core.hints import Hint

from ..backend import Unit
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .episode_watch import Watch

__all__ = ["blame_for_leaving", "watch_leaving"]


async def watch_leaving(setup: Setup, ledger: Ledger, watch: Watch, players: Sequence[Unit]) -> None:
    """Give a game that all its players have left a while to end, or to leave its results; then blame the players.

    Does nothing if people play, if the game hosts its players, or if the game decides about missing players.

    Args:
        setup: The episode's surroundings.
        ledger: Receives what is seen.
        watch: Tells whether the game's part is over.
        players: The players' units.
    """
    if setup.options.on_player_failure == "continue" or len(players) < len(setup.plan.seats):
        return
    for player in players:
        await player.wait()
    if not ledger.all_left:
        return
    time_limit = setup.options.abandoned_timeout_seconds
    with anyio.move_on_after(time_limit):
        await watch.over.wait()
    if watch.over.is_set() or await watch.is_done() or not await watch.admits(players[0]) or watch.over.is_set():
        return
    await blame_for_leaving(
        ledger,
        f"{time_limit:g} s after the last player had left",
        hint=Hint(
            "allow_longer_alone",
            "A player stays until the game closes its connection or says that it is over. If the game did, it is the "
            "game that hangs; if it plays on without players, allow more: "
            "EpisodeOptions(abandoned_timeout_seconds=...).",
        ),
    )
    watch.over.set()


async def blame_for_leaving(ledger: Ledger, when: str, *, hint: str | None = None) -> None:
    """Tell the ledger that each player has left a game that was not over at the given time."""
    for slot, seat in ledger.seats.items():
        words = f"{ledger.who('player', slot)} ended with status 0 after {seat.span}, and the game was not over {when}."
        await ledger.see("abandoned", "player", slot, details=words, hint=hint)
