"""Plays rules in this process, without sockets, at the speed of a library: for training, tests and audits.

`rollout` plays one episode, `rollouts` many. `as_gym_env` and `as_vector_env` make Gymnasium environments from rules,
`as_parallel_env`, `as_aec_env` and `as_parallel_vector_env` PettingZoo environments, and `SeatEnv` makes a Gymnasium
environment from a seat of any Coworld. Environments need the extra `env`, whose libraries are imported when they are
first used. `to_minari` writes recorded samples as a dataset of Minari (extra `minari`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .episode_rollout import PolicyError as PolicyError
    from .episode_rollout import Rollout as Rollout
    from .episode_rollout import SeatPolicies as SeatPolicies
    from .episode_rollout import SeatPolicy as SeatPolicy
    from .episode_rollout import rollout as rollout
    from .gymnasium_env import as_gym_env as as_gym_env
    from .gymnasium_env import as_vector_env as as_vector_env
    from .minari_dataset import to_minari as to_minari
    from .pettingzoo_env import as_aec_env as as_aec_env
    from .pettingzoo_env import as_parallel_env as as_parallel_env
    from .pettingzoo_vector import as_parallel_vector_env as as_parallel_vector_env
    from .rollout_batch import rollouts as rollouts
    from .seat_env import SeatEnv as SeatEnv
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".rollout_batch": ("rollouts",),
            ".gymnasium_env": ("as_gym_env", "as_vector_env"),
            ".minari_dataset": ("to_minari",),
            ".pettingzoo_env": ("as_aec_env", "as_parallel_env"),
            ".pettingzoo_vector": ("as_parallel_vector_env",),
            ".episode_rollout": ("PolicyError", "Rollout", "SeatPolicies", "SeatPolicy", "rollout"),
            ".seat_env": ("SeatEnv",),
        },
    )
