"""How long things may take where several parts of coworld say it: libraries, options and their help. In seconds."""

from __future__ import annotations

__all__ = [
    "ABANDONED",
    "CONNECT",
    "EPISODE",
    "HOSTED_SMOKE",
    "JOB",
    "JOB_KEPT",
    "LINGER",
    "PLAYER_EXIT",
    "READY",
    "REPLAY",
    "REPLAY_SHOWN",
    "SMOKE_EPISODE",
]

ABANDONED = 60.0
"""A game that all its players have left, to end or to leave its results."""
CONNECT = 180.0
"""Players, to connect once all of them have been started."""
EPISODE = 3600.0
"""An episode: the one deadline, from the first moment to the last."""
READY = 180.0
"""A game, until it answers ``/healthz`` with 200."""
PLAYER_EXIT = 30.0
"""Players, to keep what they want and to end once the game is over."""
LINGER = 5.0
"""A game that goes on for its viewers after results and replay are complete."""
REPLAY = 60.0
"""A replay, once there are valid results."""
REPLAY_SHOWN = 60.0
"""A replay, to be fetched and for the game to show it."""
SMOKE_EPISODE = 300.0
"""The episode that certifies a package."""
HOSTED_SMOKE = 1800.0
"""The platform's first episodes of what was uploaded."""
JOB = 1200
"""A Job in which a cluster plays an episode, uploads included."""
JOB_KEPT = 3600
"""Such a Job, to be looked at after its end."""
