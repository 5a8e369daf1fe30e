"""Plays rules in this process, without sockets, at the speed of a library: for training, tests and audits.

`rollout` plays one episode, `rollouts` many. `as_gym_env` and `as_vector_env` make Gymnasium environments from rules,
`as_parallel_env`, `as_aec_env` and `as_parallel_vector_env` PettingZoo environments, and `SeatEnv` makes a Gymnasium
environment from a seat of any Coworld. Environments need the extra `env`, whose libraries are imported when they are
first used. `to_minari` writes recorded samples as a dataset of Minari (extra `minari`).

`SeatInWords` is a seat for language models. `as_verifiers`, `as_openenv` and `coworld_task` make environments of
verifiers, OpenEnv and Inspect from it, and need that library.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
