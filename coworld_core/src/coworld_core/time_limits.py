"""Default time limits, in seconds, that several parts of coworld share: libraries, options and their help."""

from __future__ import annotations

__all__ = [
    "ABANDONED",
    "CONNECT",
    "EPISODE",
    "HOOK",
    "HOSTED_SMOKE",
    "JOB",
    "JOB_KEPT",
    "LINGER",
    "PLAYER_EXIT",
    "READY",
    "REPLAY",
    "REPLAY_SHOWN",
    "RULES_ANSWER",
    "RULES_AUDIT",
    "SMOKE_EPISODE",
]

ABANDONED = 60.0
"""For a game whose players have all left to end or to write its results."""
CONNECT = 180.0
"""For the players to connect, once all have been started."""
HOOK = 10.0
"""For a hook to return the plan of an episode."""
EPISODE = 3600.0
"""For a whole episode, from beginning to end."""
READY = 180.0
"""For a game to answer `/healthz` with 200."""
PLAYER_EXIT = 30.0
"""For the players to save their files and end, once the game is over."""
LINGER = 5.0
"""For a game to keep serving viewers after its results and replay are complete."""
REPLAY = 60.0
"""For a replay to appear, once there are valid results."""
REPLAY_SHOWN = 60.0
"""For a replay to be fetched and shown by the game."""
SMOKE_EPISODE = 300.0
"""For the episode that certifies a package."""
RULES_ANSWER = 60.0
"""For rules that are played in a worker process to take in one answer of a player."""
RULES_AUDIT = 120.0
"""For the audit of the rules of a game that is certified."""
HOSTED_SMOKE = 1800.0
"""For the platform's first episodes after an upload."""
JOB = 1200
"""For a Kubernetes Job that plays an episode, including uploads."""
JOB_KEPT = 3600
"""How long such a Job is kept for inspection after its end."""
