"""Options of an episode, and the hooks into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from coworld_core import time_limits

from ..backend import Limits, Network, Unit
from .model_access import ModelAccess
from .play_links import PlayLinks

__all__ = ["GAME_LIMITS", "PLAYER_LIMITS", "ContractProbe", "EpisodeOptions", "OnReady", "Recorded"]

Recorded = Literal["off", "samples", "frames"]
"""What is recorded of an episode while it is played."""

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
ENTRIES = 100_000
"""Limit of files and directories; that many are counted and removed within about a second."""
GAME_LIMITS = Limits(memory_bytes=4 * GIBIBYTE, pids=1024, disk_bytes=8 * GIBIBYTE, disk_entries=ENTRIES)
"""Those of a game, where none are given and a backend can enforce them."""
PLAYER_LIMITS = Limits(memory_bytes=2 * GIBIBYTE, pids=512, disk_bytes=GIBIBYTE, disk_entries=ENTRIES)
"""Those of a player."""

_OF_LIMIT = {
    "memory_bytes": "memory_limit",
    "cpus": "cpu_limit",
    "pids": "pids_limit",
    "disk_bytes": "disk_limit",
    "disk_entries": "disk_limit",
}
"""Field of `Limits` → field of `Capabilities`."""


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """How an episode is run."""

    timeout_seconds: float = time_limits.EPISODE
    """For the whole episode."""
    ready_timeout_seconds: float = time_limits.READY
    """For the game to answer `/healthz` with 200."""
    connect_timeout_seconds: float = time_limits.CONNECT
    """For players to connect once all of them have been started, where that can be seen. A larger
    `player_connect_timeout_seconds` in the game's config takes precedence."""
    viewer_timeout_seconds: float = 10.0
    """For the first message on `/global`, counted from when every player was started."""
    player_exit_timeout_seconds: float = time_limits.PLAYER_EXIT
    """For players to end once the game is over."""
    abandoned_timeout_seconds: float = time_limits.ABANDONED
    """How long a game may go on once all its players have ended with status 0."""
    linger_seconds: float = time_limits.LINGER
    """How long a game may go on for its viewers after results and replay are complete."""
    replay_timeout_seconds: float = time_limits.REPLAY
    """How long valid results may wait for a replay before the game is stopped without one."""
    on_player_failure: Literal["stop", "continue"] = "stop"
    """Whether a player's failure ends the episode after `failure_grace_seconds`, or the game decides how to go on."""
    failure_grace_seconds: float = 1.0
    """How long after a player's failure the game's own end may still clear the player. After that, the failure ends the
    episode if `on_player_failure` is `stop`."""
    hook_timeout_seconds: float = time_limits.HOOK
    """For each hook that changes the plan before the episode starts."""
    stop_grace_seconds: float = 5.0
    """Between TERM and KILL when a unit is stopped."""
    collect_timeout_seconds: float = 300.0
    """For collecting the players' files, and again for the game's."""
    game_limits: Limits = field(default_factory=Limits)
    """For the game. What is given is enforced, or the episode is refused. What is None is as in the manifest or in
    `GAME_LIMITS`, where the backend can enforce that."""
    player_limits: Limits = field(default_factory=Limits)
    """For each player, in the same way; see `PLAYER_LIMITS`."""
    usual_limits: bool = True
    """Whether `GAME_LIMITS` and `PLAYER_LIMITS` hold; not where something else limits what runs there."""
    player_network: Network | None = None
    """`open` gives players a route to the internet and to each other; `game-only` is enforced, or the episode is
    refused. None: `game-only` where the backend can enforce it."""
    player_https: tuple[str, ...] = ()
    """HTTPS hosts that players may reach besides the game, on port 443: `api.example.com`, or `*.example.com` for
    all hosts below it. Refused on a backend that cannot enforce it."""
    players_drop_privileges: bool = False
    """Whether players' start scripts may change file owners and switch users, as those of games may."""
    required_capabilities: tuple[str, ...] = ()
    """Names of `Capabilities` fields without which the episode must not start; `required` has those of all options."""
    platform: str | None = None
    """os/architecture of the images; None: the engine's."""
    watch: bool = False
    """Whether to follow the public viewer stream and publish `GameProgressed`."""
    record: Recorded = "off"
    """`samples` keeps what each seat saw and did in each turn, which games of the kit tell. `frames` keeps every
    message between players and their game, of any game; players then connect through a recorder that passes them on.
    Either is a file of the workspace that grows while the game is played (`iter_samples`, `iter_frames`)."""
    models: ModelAccess | None = None
    """The language models that the game and its players may use, through a program beside the episode; None: whatever
    they reach with what they were given."""
    admin: bool = False
    """Whether to ask the game for its admin page (`COWORLD_ADMIN=1`); only ever for local play."""
    countdown_seconds: float = 0.0
    """Seconds to ask the game to count down once all players are there (`COWORLD_COUNTDOWN_SECONDS`), so that people
    see the start. 0: no countdown. Games that do not know the variable start at once."""
    rematch: bool = False
    """Whether another game follows on the same links (`COWORLD_REMATCH=1`), so that pages can offer it."""

    def usual(self, limits: Limits) -> Limits:
        """`GAME_LIMITS` or `PLAYER_LIMITS`, if these hold, else none."""
        return limits if self.usual_limits else Limits()

    @property
    def required(self) -> tuple[str, ...]:
        """Names of `Capabilities` fields without which the episode must not start, because of any option."""
        found = list(self.required_capabilities)
        for limits in (self.game_limits, self.player_limits):
            found += [name for of, name in _OF_LIMIT.items() if getattr(limits, of) is not None]
        if self.player_network == "game-only":
            found.append("network_isolation")
        if self.players_drop_privileges:
            found.append("images")
        return tuple(dict.fromkeys(found))


OnReady = Callable[[PlayLinks], None]


class ContractProbe(Protocol):
    """Further checks of a running game, in addition to those of every episode. The probe keeps its own results.

    Both methods are called once, with the game's `host:port` and the tokens by slot, and must not raise.
    """

    async def before_players(self, address: str, tokens: Sequence[str]) -> None:
        """Called when the game is ready; no player starts before this returns."""
        ...

    async def during_play(self, address: str, tokens: Sequence[str], players: Sequence[Unit]) -> None:
        """Called when every player has been started or could not be started; cancelled when the game is over.

        `players` are their units; wait for one to learn how it ended.
        """
        ...
