"""How an episode is run, and what may look on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from coworld_core import durations

from ..backend import Limits, Network, Unit
from .links import PlayLinks

__all__ = ["ContractProbe", "EpisodeOptions", "OnReady"]

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
ENTRIES = 100_000
"""Files and directories; they are counted and removed within a second or so."""


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """How an episode is run. Times are seconds."""

    timeout: float = durations.EPISODE
    """The one deadline, from the first moment to the last."""
    ready_timeout: float = durations.READY
    """For the game to answer ``/healthz`` with 200."""
    connect_timeout: float = durations.CONNECT
    """For players to connect once all of them were started, where that can be seen; a game whose config allows them
    more by ``player_connect_timeout_seconds`` gives them more."""
    viewer_timeout: float = 10.0
    """For the first message on ``/global``, counted from when every player was started."""
    player_exit_timeout: float = durations.PLAYER_EXIT
    """For players to end once the game is over."""
    linger: float = durations.LINGER
    """How long a game may go on for its viewers after results and replay are complete."""
    replay_timeout: float = durations.REPLAY
    """How long valid results may wait for a replay before the game is stopped without one."""
    on_player_failure: Literal["stop", "continue"] = "stop"
    """Whether a player's failure ends the episode (after ``failure_grace``) or the game decides how to go on."""
    failure_grace: float = 1.0
    """How long after a player's failure the game's own end may still show that the player was not to blame; then a
    failure that ends the episode does."""
    stop_grace: float = 5.0
    """Between TERM and KILL when a unit is stopped."""
    collect_timeout: float = 300.0
    """For the files that the players leave to be brought in, and again for the game's."""
    game_limits: Limits = field(
        default_factory=lambda: Limits(
            memory_bytes=4 * GIBIBYTE, pids=1024, disk_bytes=8 * GIBIBYTE, disk_entries=ENTRIES
        )
    )
    """For the game. Defaults a backend cannot enforce are dropped; ``required_capabilities`` are not."""
    player_limits: Limits = field(
        default_factory=lambda: Limits(memory_bytes=2 * GIBIBYTE, pids=512, disk_bytes=GIBIBYTE, disk_entries=ENTRIES)
    )
    """For each player."""
    player_network: Network = "game-only"
    """``open`` gives players a route to the internet and to each other."""
    players_drop_privileges: bool = False
    """Whether start scripts of players' images may change owners and become another user, as those of games may."""
    required_capabilities: tuple[str, ...] = ()
    """Names of ``Capabilities`` fields without which the episode must not start."""
    platform: str | None = None
    """os/architecture of the images; None: the engine's own."""
    watch: bool = False
    """Whether to follow the public viewer stream and publish ``GameProgressed``."""
    admin: bool = False
    """Whether to ask the game for its admin page (``COWORLD_ADMIN=1``); only ever for local play."""


OnReady = Callable[[PlayLinks], None]


class ContractProbe(Protocol):
    """Further checks of a running game, beside those of every episode; it keeps what it saw to itself.

    Both are called once, with the game's ``host:port`` and the tokens by slot, and must not raise.
    """

    async def before_players(self, address: str, tokens: Sequence[str]) -> None:
        """The game is ready; no player is started before this returns."""
        ...

    async def during_play(self, address: str, tokens: Sequence[str], players: Sequence[Unit]) -> None:
        """Every player was started, or could not be; cancelled when the game is over.

        ``players`` are their units: whoever wants to know how one ended waits for it.
        """
        ...
