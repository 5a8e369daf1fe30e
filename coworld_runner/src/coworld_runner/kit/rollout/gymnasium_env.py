"""Gymnasium environments made from rules: one seat of one game, or of many at once, and all seats for self-play."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from coworld_core.errors import UsageError
from coworld_core.rules import Play, Rules, RulesConfig, action_schema, rules_config
from coworld_core.rules.rules_schemas import observation_schema

from ...package.random_player import RANDOM
from ._env_extra import env_missing
from .episode_rollout import SeatPolicies
from .seat_spaces import MaskPlace, Observe, SeatEncoding
from .vector_games import VectorSpec, tree_map
from .vector_processes import PlayedGames, played_games

try:
    import gymnasium
    import numpy as np
    from gymnasium import Space
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = ["RulesEnv", "RulesVectorEnv", "as_gym_env", "as_vector_env", "vector_spec"]

ALL = "all"


def vector_spec(
    rules: type[Rules],
    *,
    seat: int | None,
    opponents: SeatPolicies,
    config: RulesConfig | Mapping[str, Any] | None,
    seats: int | None,
    actions: Sequence[Any] | int | None,
    observe: Observe | None,
    space: Space[Any] | None,
    max_cycles: int | None,
    mask: MaskPlace,
    autoreset: str,
) -> VectorSpec:
    """Check what is to be played; parameters as for `as_vector_env`, without a seat for all of them.

    Raises:
        UsageError: There is no such seat, the config is invalid, or a space cannot be determined.
        RulesError: The rules fail.
    """
    known = rules_config(rules, config)
    play = Play(rules, config=known, seats=seats)
    if seat is not None and not 0 <= operator.index(seat) < play.seats:
        raise UsageError(f"There is no seat {seat}; there are {play.seats}.", code="wrong_seats")
    encoding = SeatEncoding.of(
        action_schema(rules),
        observation_schema(rules),
        lambda: play.observation(0),
        name=rules.__name__,
        actions=actions,
        observe=observe,
        space=space,
        mask=mask,
        flat=True,
    )
    return VectorSpec(
        rules=rules,
        config=known,
        seats=play.seats,
        seat=seat,
        opponents=opponents,
        encoding=encoding,
        max_cycles=max_cycles,
        autoreset=autoreset,
    )


class RulesVectorEnv(VectorEnv[Any, Any, Any]):
    """Many games at once as a vector environment; `as_vector_env` makes it.

    Arrays that are returned are the caller's own.

    Attributes:
        encoding: The conversion of observations and actions, for players of what was trained.
        seats: The number of seats of each game.
    """

    def __init__(self, spec: Any, games: int, *, processes: int, mode: AutoresetMode) -> None:
        played = played_games(spec, games, processes=processes)
        self.num_envs = games * spec.rows
        self.metadata = {
            "name": f"{spec.rules.__name__}_v{spec.rules.version}",
            "render_modes": ["ansi"],
            "autoreset_mode": mode,
        }
        self.render_mode = "ansi"
        self.encoding: SeatEncoding = spec.encoding
        self.seats: int = spec.seats
        self.single_observation_space = self.encoding.observation_space()
        self.single_action_space = self.encoding.actions.space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.autoreset_mode = mode
        self._spec: VectorSpec = spec
        self._count = games
        self._games: PlayedGames = played

    def __enter__(self) -> RulesVectorEnv:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride] - lists of seeds, as Gymnasium's own have
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all games.

        Args:
            seed: Game g gets `seed` + g; or one seed for each game. Without one, it follows from the last. Later
                episodes follow from it, too.
            options: `opponents`: other opponents from now on; `reset_mask`: an array of flags of the rows, to begin
                only their games and to give only these other opponents.

        Raises:
            UsageError: The environment is closed, or an option is invalid.
        """
        self._open()
        first = seed if isinstance(seed, int) or seed is None else None
        super().reset(seed=first)
        seeds = _seeds(seed, self._count)
        given = dict(options or {})
        chosen = self._chosen(given.pop("reset_mask", None))
        opponents = given.pop("opponents", None)
        if given:
            raise UsageError(f"There is no option {next(iter(given))!r}: there are opponents and reset_mask.")
        self._games.reset(seeds, chosen, opponents)
        return self._seen(), self._infos({})

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Act in all games.

        A row whose game has ended does not act: with the default autoreset, the step begins its next game.
        """
        self._open()
        rows = self._games.rows
        _put(rows.actions, actions)
        refused = self._games.step()
        infos = self._infos(refused)
        return self._seen(), rows.rewards.copy(), rows.terminated.copy(), rows.truncated.copy(), infos

    def render(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The board of each row's game as spectators see it, as text."""
        self._open()
        return tuple(board for board in self._games.draw() for _ in range(self._spec.rows))

    def action_masks(self) -> Any:
        """Which actions are legal, as flags of shape (`num_envs`, actions), as sb3-contrib wants them."""
        self._open()
        return self._games.rows.mask.astype(np.bool_)

    def env_method(self, name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        """The answers of `action_masks`, one for each row, as from a `VecEnv` of Stable-Baselines3."""
        if name != "action_masks" or arguments or named:
            raise AttributeError(f"rows have no method {name}")
        masks = list(self.action_masks())
        return masks if indices is None else [masks[row] for row in np.atleast_1d(indices)]

    def has_attr(self, name: str) -> bool:
        """Whether rows have something of this name, as a `VecEnv` says it."""
        return name == "action_masks" and self.encoding.actions.masks

    def close_extras(self, **options: Any) -> None:
        """End the processes."""
        self._games.close()

    def _open(self) -> None:
        if self._games.closed:
            raise UsageError("The environment is closed: make another one.", code="env_closed")

    def _seen(self) -> Any:
        rows = self._games.rows
        seen = tree_map(np.copy, rows.seen)
        return {"observation": seen, "action_mask": rows.mask.copy()} if self.encoding.mask_observed else seen

    def _infos(self, refused: Mapping[int, str]) -> dict[str, Any]:
        rows, every = self._games.rows, np.ones(self.num_envs, np.bool_)
        infos: dict[str, Any] = {"to_act": rows.to_act.copy(), "_to_act": every}
        if self.encoding.actions.masks:
            infos |= {"action_mask": rows.mask.copy(), "_action_mask": every.copy()}
        last: dict[str, Any] = {}
        if refused:
            why = np.full(self.num_envs, None, object)
            for row, reason in refused.items():
                why[row] = reason
            last |= {"refused": why, "_refused": rows.refused.copy()}
        ended = rows.terminated | rows.truncated
        again = self.autoreset_mode is AutoresetMode.SAME_STEP
        if ended.any():
            per = self._spec.rows
            scores, seeds = rows.scores.repeat(per, axis=0), rows.seeds.repeat(per)
            scores[~ended], seeds[~ended] = 0, 0
            last |= {"scores": scores, "_scores": ended.copy(), "seed": seeds, "_seed": ended.copy()}
            if again:
                infos |= {"final_obs": self._final(ended), "_final_obs": ended, "final_info": last}
                infos["_final_info"] = ended.copy()
                return infos
        return infos | last

    def _final(self, ended: Any) -> Any:
        rows = self._games.rows
        found = np.full(self.num_envs, None, object)
        for row in np.flatnonzero(ended):
            seen = tree_map(lambda array: array[row].copy(), rows.final)  # noqa: B023 - called at once
            nothing = np.zeros(rows.mask.shape[1], np.int8)
            found[row] = {"observation": seen, "action_mask": nothing} if self.encoding.mask_observed else seen
        return found

    def _chosen(self, mask: Any) -> list[bool] | None:
        if mask is None:
            return None
        flags = np.asarray(mask)
        if flags.shape != (self.num_envs,) or flags.dtype != np.bool_ or not flags.any():
            raise UsageError(
                f"reset_mask is an array of {self.num_envs} flags, at least one of them true.", code="bad_option"
            )
        games = flags.reshape(self._count, -1)
        if (games.any(axis=1) != games.all(axis=1)).any():
            raise UsageError("reset_mask must name all rows of a game or none.", code="bad_option")
        return games[:, 0].tolist()


class RulesEnv(gymnasium.Env[Any, Any]):
    """One seat of one game as an environment; `as_gym_env` makes it.

    Attributes:
        encoding: The conversion of observations and actions, for players of what was trained.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, spec: Any, *, render_mode: str | None) -> None:
        self.render_mode = render_mode
        self.encoding: SeatEncoding = spec.encoding
        self.observation_space = self.encoding.observation_space()
        self.action_space = self.encoding.actions.space
        self._spec: VectorSpec = spec
        self._games: PlayedGames = played_games(spec, 1, processes=1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode; without a seed, use one that follows from the last.

        Args:
            seed: The seed.
            options: `opponents`: other opponents from now on.
        """
        super().reset(seed=seed)
        self._games.reset(_seeds(seed, 1), None, (options or {}).get("opponents"))
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, and let the others act until it is the seat's turn again or the episode is over.

        A refused action counts as none in time; `info["refused"]` has the reason.
        """
        rows = self._games.rows
        _put(rows.actions, tree_map(lambda one: np.expand_dims(one, 0), action))
        refused = self._games.step()
        over, cut = bool(rows.terminated[0]), bool(rows.truncated[0])
        info = self._info()
        if refused:
            info["refused"] = refused[0]
        if over or cut:
            info |= {"scores": rows.scores[0].copy(), "seed": int(rows.seeds[0])}
        return self._seen(), float(rows.rewards[0]), over, cut, info

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The board as spectators see it, as text; None unless the render mode is `ansi`."""
        return self._games.draw()[0] if self.render_mode == "ansi" else None

    def action_masks(self) -> Any:
        """Which actions are legal, as flags, as sb3-contrib wants them."""
        return self._games.rows.mask[0].astype(np.bool_)

    def close(self) -> None:
        """Let go of the opponents."""
        self._games.close()

    def _seen(self) -> Any:
        rows = self._games.rows
        seen = tree_map(lambda array: array[0].copy(), rows.seen)
        return {"observation": seen, "action_mask": rows.mask[0].copy()} if self.encoding.mask_observed else seen

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._games.rows.mask[0].copy()} if self.encoding.actions.masks else {}


def _put(rows: Any, given: Any) -> None:
    """Copy a batch of elements into arrays."""
    if isinstance(rows, dict):
        for name, one in cast("dict[str, Any]", rows).items():
            _put(one, given[name])
    elif isinstance(rows, tuple):
        for one, other in zip(cast("tuple[Any, ...]", rows), given, strict=True):
            _put(one, other)
    else:
        if np.shape(given) != rows.shape:
            raise UsageError(f"The actions have shape {np.shape(given)} instead of {rows.shape}.", code="bad_actions")
        rows[...] = given


def _seeds(seed: int | Sequence[int | None] | None, games: int) -> list[int | None]:
    if seed is None:
        return [None] * games
    if isinstance(seed, Sequence):
        if len(seed) != games:
            raise UsageError(f"There are {games} games and {len(seed)} seeds.", code="bad_seed")
        return list(seed)
    first = operator.index(seed)
    return [first + game for game in range(games)]


def as_vector_env(
    rules: type[Rules],
    num_envs: int,
    *,
    seat: int | Literal["all"] = 0,
    opponents: SeatPolicies = RANDOM,
    processes: int = 1,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    actions: Sequence[Any] | int | None = None,
    observe: Observe | None = None,
    space: Space[Any] | None = None,
    max_cycles: int | None = None,
    mask: MaskPlace = "observation",
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
) -> RulesVectorEnv:
    """Make a Gymnasium vector environment of many games at once.

    ::

        with as_vector_env(Nim, 64, opponents=["players/counter.py"], processes=2) as envs:
            seen, infos = envs.reset(seed=1)
            seen, rewards, terminated, truncated, infos = envs.step(choose(seen["action_mask"]))

    A row is one game in which the learner has a seat: a step is its action, and all that follows until it is asked
    again. With `seat="all"`, each seat has a row: row g * seats + s is seat s of game g, a step is a tick, and
    `infos["to_act"]` says whose actions count.

    Observations are vectors of float32, `{"observation": …, "action_mask": …}` if the actions can be numbered, and
    `infos["action_mask"]` has the masks in any case. The rewards are those of the rules; if they give no `rewards`, the
    changes of the scores: without `live_scores` in the rules, the whole score comes at the end. Where a game has ended,
    `infos["scores"]` has the scores of all seats, and `infos["seed"]` the seed that plays it again. A refused action
    counts as none in time, as does number -1; `infos["refused"]` has the reason.

    Args:
        rules: The game.
        num_envs: Number of rows; with `seat="all"`, a multiple of the seats.
        seat: The learner's seat, or `all`.
        opponents: The players of the other seats, as for `rollout`: one for all, or one for each.
        processes: Number of processes; 1: only this one. Otherwise rules, opponents and `observe` must be in files, as
            for `rollouts`.
        config: The rules' config, or its fields as JSON; defaults if omitted.
        seats: How many seats; by default the smallest number that the game allows.
        actions: As for `as_aec_env`.
        observe: Turns an observation (as JSON) into an element of `space`.
        space: The space of observations, of fixed size. By default, what the rules declare as `Observation`, or the
            structure of the first observation, as one vector (`gymnasium.spaces.flatten`).
        max_cycles: Ticks after which an episode is truncated.
        mask: `observation`, or `info` for observations without a mask.
        autoreset_mode: When the next game of a row begins, as in Gymnasium.

    Raises:
        UsageError: There is no such seat or opponent, the config is invalid, a space cannot be determined, or something
            cannot be sent to another process.
        RulesError: The rules fail. `reset` and `step` may raise it, too.
        PolicyError: An opponent raised an exception; likewise.
        EnvironmentFault: A process died; likewise. The environment is then closed.
    """
    mode = AutoresetMode(autoreset_mode)
    spec = vector_spec(
        rules,
        seat=None if seat == ALL else seat,
        opponents=opponents,
        config=config,
        seats=seats,
        actions=actions,
        observe=observe,
        space=space,
        max_cycles=max_cycles,
        mask=mask,
        autoreset=str(mode.value),
    )
    if num_envs < 1 or num_envs % spec.rows:
        raise UsageError(
            f"num_envs must be a multiple of {spec.rows}, got {num_envs}.",
            code="bad_count",
            hint="Each seat of a game has a row." if spec.rows > 1 else None,
        )
    return RulesVectorEnv(spec, num_envs // spec.rows, processes=processes, mode=mode)


def as_gym_env(
    rules: type[Rules],
    *,
    seat: int = 0,
    opponents: SeatPolicies = RANDOM,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    actions: Sequence[Any] | int | None = None,
    observe: Observe | None = None,
    space: Space[Any] | None = None,
    max_cycles: int | None = None,
    mask: MaskPlace = "observation",
    render_mode: str | None = None,
) -> RulesEnv:
    """Make a Gymnasium environment of one seat of one game; what `as_vector_env` has in each row.

    Args:
        rules: The game.
        seat: The learner's seat.
        opponents: As for `as_vector_env`.
        config: As for `as_vector_env`.
        seats: As for `as_vector_env`.
        actions: As for `as_vector_env`.
        observe: As for `as_vector_env`.
        space: As for `as_vector_env`.
        max_cycles: As for `as_vector_env`.
        mask: As for `as_vector_env`.
        render_mode: `ansi` for text.

    Raises:
        UsageError: As for `as_vector_env`.
        RulesError: As for `as_vector_env`.
        PolicyError: As for `as_vector_env`.
    """
    spec = vector_spec(
        rules,
        seat=seat,
        opponents=opponents,
        config=config,
        seats=seats,
        actions=actions,
        observe=observe,
        space=space,
        max_cycles=max_cycles,
        mask=mask,
        autoreset=str(AutoresetMode.DISABLED.value),
    )
    return RulesEnv(spec, render_mode=render_mode)
