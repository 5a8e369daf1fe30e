"""Plays rules in this process, without sockets, at the speed of a library: for training, tests and audits.

`rollout` plays one episode, `rollouts` many. `as_parallel_env` and `as_aec_env` make PettingZoo environments from
rules, and `SeatEnv` makes a Gymnasium environment from a seat of any Coworld. Environments need the extra `env`, whose
libraries are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .batch import rollouts as rollouts
    from .environments import as_aec_env as as_aec_env
    from .environments import as_parallel_env as as_parallel_env
    from .playing import PolicyError as PolicyError
    from .playing import Rollout as Rollout
    from .playing import SeatPolicies as SeatPolicies
    from .playing import SeatPolicy as SeatPolicy
    from .playing import rollout as rollout
    from .seat_env import SeatEnv as SeatEnv
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".batch": ("rollouts",),
            ".environments": ("as_aec_env", "as_parallel_env"),
            ".playing": ("PolicyError", "Rollout", "SeatPolicies", "SeatPolicy", "rollout"),
            ".seat_env": ("SeatEnv",),
        },
    )
