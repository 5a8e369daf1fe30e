"""Many games of the same rules, played by this process, whose seats are rows of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, cast

from coworld_core.errors import UsageError
from coworld_core.rules import ActionRefused, Rules, RulesConfig
from coworld_core.rules.plain_values import to_plain

from ._env_extra import env_missing
from .episode_rollout import PolicyTable, SeatPolicies
from .seat_game import SeatGame, others_table
from .seat_spaces import SeatEncoding, misfit

try:
    import numpy as np
    from gymnasium import Space, spaces
    from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
except ModuleNotFoundError as error:
    raise env_missing(error) from error

__all__ = ["MISSED", "NEXT_STEP", "SAME_STEP", "GameRows", "VectorGames", "VectorSpec", "tree_map"]

NEXT_STEP: Final = "NextStep"
SAME_STEP: Final = "SameStep"

MISSED: Final = -1
"""The number of no action."""


@dataclass(frozen=True, kw_only=True)
class VectorSpec:
    """What is played, and how it becomes rows.

    Attributes:
        rules: The game.
        config: Its config.
        seats: Number of seats.
        seat: The learner's seat; None: all seats are, and each has a row.
        opponents: The players of the other seats.
        encoding: The conversion of actions and observations.
        max_cycles: Ticks after which an episode is truncated.
        autoreset: The value of Gymnasium's `AutoresetMode`.
    """

    rules: type[Rules]
    config: RulesConfig
    seats: int
    seat: int | None
    opponents: SeatPolicies
    encoding: SeatEncoding
    max_cycles: int | None
    autoreset: str

    def __post_init__(self) -> None:
        """Refuse what cannot be put into arrays."""
        for space, what, hint in (
            (self.encoding.observations.space, "observations", "Give observe= and space= of fixed size."),
            (self.encoding.actions.space, "actions", "Give actions=[…] with all of them, or actions=N."),
        ):
            if not _is_fixed(space):
                raise UsageError(f"{space} has no fixed size, as {what} in arrays must.", code="no_space", hint=hint)

    @property
    def rows(self) -> int:
        """Rows of each game."""
        return self.seats if self.seat is None else 1

    def table(self, opponents: SeatPolicies) -> PolicyTable:
        """The players of the other seats, ready to play; the learner's own seat has one that is never asked.

        Raises:
            UsageError: As for `rollout`.
        """
        assert self.seat is not None
        return others_table(self.rules, opponents, seat=self.seat, config=self.config, seats=self.seats)


def _is_fixed(space: Space[Any]) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts: Any = cast("Any", space.spaces)
        return all(map(_is_fixed, parts.values() if isinstance(space, spaces.Dict) else parts))
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def tree_map(change: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to each array of a batch of elements, which may be nested."""
    if isinstance(tree, dict):
        return {name: tree_map(change, one) for name, one in cast("dict[str, Any]", tree).items()}
    if isinstance(tree, tuple):
        return tuple(tree_map(change, one) for one in cast("tuple[Any, ...]", tree))
    return change(tree)


class GameRows:
    """The arrays through which games are played: actions into them, everything else out.

    Row g * `spec.rows` + i is the i-th row of game g.

    Args:
        spec: What is played.
        games: Number of games.
        memory: A buffer of `size` bytes, which several processes may share; None to find out that size.

    Attributes:
        actions: What each row does next.
        seen: What each row sees.
        final: What each row saw last before its game began again; None unless that is in the same step.
        mask: 1 for each legal action.
        to_act: Whether a row's action counts in the next step.
        rewards: What each row gained.
        terminated: Whether its game is over.
        truncated: Whether it has had its ticks.
        refused: Whether its last action was refused.
        scores: The scores of the game that ended last, by game.
        seeds: Its seed, by game.
        size: Bytes of all arrays.
    """

    def __init__(self, spec: VectorSpec, games: int, memory: Any = None) -> None:
        self._spec = spec
        self.size = 0
        rows = games * spec.rows
        encoding = spec.encoding

        def laid(shape: tuple[int, ...], dtype: Any) -> Any:
            kind = np.dtype(dtype)
            count = math.prod(shape)
            start = -(-self.size // 64) * 64
            self.size = start + count * kind.itemsize
            if memory is None or not count:
                return np.zeros(shape if not count else (0,), kind)
            return np.frombuffer(memory, kind, count, start).reshape(shape)

        self.actions: Any = create_empty_array(encoding.actions.space, rows, laid)
        self.seen: Any = create_empty_array(encoding.observations.space, rows, laid)
        again = spec.autoreset == SAME_STEP
        self.final: Any = create_empty_array(encoding.observations.space, rows, laid) if again else None
        self.mask = laid((rows, encoding.actions.count if encoding.actions.masks else 0), np.int8)
        self.to_act = laid((rows,), np.bool_)
        self.rewards = laid((rows,), np.float64)
        self.terminated = laid((rows,), np.bool_)
        self.truncated = laid((rows,), np.bool_)
        self.refused = laid((rows,), np.bool_)
        self.scores = laid((games, spec.seats), np.float64)
        self.seeds = laid((games,), np.int64)

    def part(self, first: int, last: int) -> GameRows:
        """The same arrays, of some of the games only."""
        part = object.__new__(GameRows)
        rows = self._spec.rows
        for name, value in vars(self).items():
            by = 1 if name in ("scores", "seeds") else rows
            cut = value if name in ("_spec", "size") or value is None else _cut(value, slice(first * by, last * by))
            setattr(part, name, cut)
        return part


def _cut(tree: Any, which: Any) -> Any:
    return tree_map(lambda array: array[which], tree)


class VectorGames:
    """Games that this process plays; each call writes all rows.

    Args:
        spec: What is played.
        rows: The rows of these games.
        games: Number of games.

    Raises:
        UsageError: There is no such opponent. As below, any method may raise what `rollout` raises.
    """

    def __init__(self, spec: VectorSpec, rows: GameRows, games: int) -> None:
        self._spec = spec
        self._rows = rows
        self._count = games * spec.rows
        self._refused: dict[int, str] = {}
        self._tables: dict[PolicyTable, ExitStack] = {}
        self._action_spaces = batch_space(spec.encoding.actions.space, self._count)
        self._numbered = isinstance(spec.encoding.actions.space, spaces.Discrete)
        table = None if spec.seat is None else self._opened(spec.opponents)
        self._games = [_Game(spec, table) for _ in range(games)]

    def close(self) -> None:
        """Let go of the opponents."""
        for stack in self._tables.values():
            stack.close()
        self._tables.clear()

    def reset(
        self, seeds: Sequence[int | None], chosen: Sequence[bool] | None, opponents: SeatPolicies | None
    ) -> dict[int, str]:
        """Begin games.

        Args:
            seeds: The seed of each; None: one that follows from the last.
            chosen: Which of them; None: all.
            opponents: New opponents of these games; None: as before.

        Returns:
            Nothing: no action has been refused.
        """
        table = None if opponents is None or self._spec.seat is None else self._opened(opponents)
        for index, game in enumerate(self._games):
            if chosen is None or chosen[index]:
                game.table = table or game.table
                game.begin(seeds[index])
                per = self._spec.rows
                at = slice(index * per, (index + 1) * per)
                self._rows.rewards[at] = 0.0
                self._rows.terminated[at] = self._rows.truncated[at] = False
        for unused in [one for one in self._tables if all(game.table is not one for game in self._games)]:
            self._tables.pop(unused).close()
        self._rows.refused[:] = False
        self._show()
        return {}

    def step(self) -> dict[int, str]:
        """Play on by the actions of all rows.

        Returns:
            By row, why its action was refused.
        """
        spec, rows = self._spec, self._rows
        per, again = spec.rows, spec.autoreset
        refused: dict[int, str] = {}
        rewards = [0.0] * self._count
        over, cut = [False] * self._count, [False] * self._count
        elements = self._elements()
        for index, game in enumerate(self._games):
            if game.ended:
                if again != NEXT_STEP:
                    raise UsageError(f"Game {index} has ended: reset it first.", code="no_episode")
                game.begin()
                continue
            row = index * per
            gained = game.step(elements, row, refused)
            if gained is not None:
                rewards[row : row + per] = gained
            if game.ended:
                rows.scores[index] = game.last
                rows.seeds[index] = game.seed
                over[row : row + per] = [game.over] * per
                cut[row : row + per] = [not game.over] * per
                if again == SAME_STEP:
                    for number, seat in enumerate(game.seats):
                        self._put(rows.final, row + number, game.element(seat))
                    game.begin()
        rows.rewards[:] = rewards
        rows.terminated[:] = over
        rows.truncated[:] = cut
        rows.refused[:] = False
        if refused:
            rows.refused[list(refused)] = True
        self._show()
        return refused

    def draw(self) -> list[str]:
        """The board of each game, as spectators see it."""
        return [game.play.frame().drawing for game in self._games]

    def _opened(self, opponents: SeatPolicies) -> PolicyTable:
        with ExitStack() as stack:
            table = stack.enter_context(self._spec.table(opponents))
            self._tables[table] = stack.pop_all()
        return table

    def _elements(self) -> Sequence[Any]:
        if self._numbered:
            return self._rows.actions.tolist()
        return list(iterate(self._action_spaces, self._rows.actions))

    def _put(self, tree: Any, row: int, element: Any) -> None:
        space = self._spec.encoding.observations.space
        concatenate(space, [element], _cut(tree, slice(row, row + 1)))

    def _show(self) -> None:
        rows, encoding = self._rows, self._spec.encoding
        numbers: list[float] = []
        elements: list[Any] = []
        masks: list[bytes] = []
        to_act: list[bool] = []

        def append(value: Any, _: list[float]) -> None:
            elements.append(encoding.observations.encode(value))

        write = encoding.observations.write or append
        actions = encoding.actions
        for game in self._games:
            play, asked = game.play, () if game.ended else game.play.to_act
            for seat in game.seats:
                value = play.observation(seat)
                try:
                    write(value, numbers)
                except (LookupError, TypeError, ValueError) as error:
                    raise misfit(error, value, tick=play.tick, seat=seat) from error
                to_act.append(seat in asked)
                if actions.masks:
                    legal, mask = actions.offered(play.named_options(seat))
                    game.offered[seat] = legal, play.options(seat)
                    masks.append(mask)
        if elements:
            concatenate(encoding.observations.space, elements, rows.seen)
        else:
            rows.seen[:] = np.array(numbers, np.float32).reshape(rows.seen.shape)
        if masks:
            rows.mask[:] = np.frombuffer(b"".join(masks), np.int8).reshape(rows.mask.shape)
        rows.to_act[:] = to_act


class _Game(SeatGame):
    """One game after another, in the place of one game, played by the elements of spaces."""

    def __init__(self, spec: VectorSpec, table: PolicyTable | None) -> None:
        super().__init__(
            spec.rules,
            config=spec.config,
            seats=spec.seats,
            seat=spec.seat,
            table=table,
            max_ticks=spec.max_cycles,
        )
        self._spec = spec
        self._actions = spec.encoding.actions
        self.offered: dict[int, tuple[tuple[int, ...] | None, Any]] = {}
        """By seat, the numbers of its legal actions and these."""

    def step(self, elements: Sequence[Any], row: int, refused: dict[int, str]) -> list[float] | None:
        """Play a tick, and those of the others until the learner is asked again.

        Args:
            elements: The actions of all rows.
            row: The first row of this game.
            refused: Gets the reasons of refused actions by row.

        Returns:
            What each row has gained; None: nothing.
        """
        asked = self.play.to_act
        rows = ((seat, row + number) for number, seat in enumerate(self.seats) if seat in asked)
        return self.advance({seat: self._action(seat, elements[at], at, refused) for seat, at in rows})

    def element(self, seat: int) -> Any:
        """What a seat sees, as an element of the space."""
        return self._spec.encoding.seen(self.play, seat)

    def _action(self, seat: int, element: Any, row: int, refused: dict[int, str]) -> Any:
        play = self.play
        numbers, options = self.offered.get(seat, (None, None))
        if numbers is not None and element in numbers:
            return options[numbers.index(element)]
        if self._actions.masks and element == MISSED:
            return None
        value = self._actions.decode(element, lambda: to_plain(list(play.named_options(seat) or ())))
        try:
            return play.read(seat, value)
        except ActionRefused as error:
            refused[row] = error.message
            return None
