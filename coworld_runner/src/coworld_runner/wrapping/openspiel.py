"""Games of OpenSpiel as rules: text that a seat sees, moves by name, and chance from the rules' own `rng`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, overload

from pydantic import BaseModel, ConfigDict, Field

from coworld_core.rules import RulesConfig

from .libraries import imported
from .wrappable import LibraryRules

__all__ = ["TOGETHER", "OpenSpiel", "OpenSpielConfig", "Sight", "load_game", "pass_chance", "play_on"]

SEED = "rng_seed"
"""The parameter of games that draw random numbers of their own."""

CHANCE, TOGETHER = -1, -2
"""What OpenSpiel calls whoever moves where it is no single player."""


class OpenSpielConfig(RulesConfig):
    """Which game of OpenSpiel is played."""

    game: str = Field(description="A game of OpenSpiel, with parameters if there are any: hanabi(colors=3).")


class Sight(BaseModel):
    """What a seat sees."""

    model_config = ConfigDict(frozen=True)

    game: str = Field(description="The game's name in OpenSpiel, with its parameters.")
    view: str = Field(description="What the seat sees, as OpenSpiel writes it.")
    history: list[int] | None = Field(
        default=None,
        description="Every move so far, chance included, by its number in OpenSpiel; null where something is hidden.",
    )


class OpenSpiel(LibraryRules):
    """A game of OpenSpiel; a subclass has its name as the default of `Config.game`, and its numbers of seats.

    Spectators see the board of games in which nothing is hidden. Of others they see whose turn it is, and all of it at
    the end.
    """

    library = "pyspiel"
    Config = OpenSpielConfig
    Action = str
    Observation = Sight

    def start(self) -> None:
        """Begin, up to the first move that is not chance."""
        self._kind, self._game = load_game(self.config.game, self.seats)
        self._name = str(self._game)
        if SEED in self._kind.parameter_specification:
            # It goes on with its random numbers from game to game, so each game has an instance of its own.
            given = {**self._game.get_parameters(), SEED: self.rng.getrandbits(31)}
            self._game = imported("pyspiel").load_game(self._kind.short_name, given)
        self._open = self._kind.information != type(self._kind.information).IMPERFECT_INFORMATION
        self._state = self._game.new_initial_state()
        self._look()

    def to_act(self) -> list[int]:
        """Whose moves are awaited: several in games of simultaneous moves."""
        return self._turn

    def legal(self, seat: int) -> Sequence[str]:
        """The moves, by the names that OpenSpiel gives them."""
        moves = self._moves.get(seat)
        if moves is None:
            # Asking for a seat takes half as long again as asking for the one that is to move.
            numbers = self._state.legal_actions(seat) if self._together else self._state.legal_actions()
            moves = self._moves[seat] = _Moves(self._state, seat, numbers)
        return moves

    def default(self, seat: int) -> str:
        """The first of the moves."""
        return self.legal(seat)[0]

    def observe(self, seat: int) -> dict[str, Any]:
        """What OpenSpiel shows to a seat."""
        return {"game": self._name, "view": self._view(seat), "history": self._state.history() if self._open else None}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Make the moves, and whatever chance adds to them."""
        if self._together:
            numbers = {seat: self._moves[seat].numbers[name] for seat, name in actions.items()}
            self._state.apply_actions([numbers.get(seat, 0) for seat in range(self.seats)])
        else:
            (seat,) = self._turn
            self._state.apply_action(self._moves[seat].numbers[actions[seat]])
        self._look()

    def scores(self) -> list[float]:
        """What OpenSpiel calls returns."""
        return self._state.returns()

    def draw(self) -> str:
        """The board, unless a player could read from it what is hidden."""
        if self._open or not self._turn:
            return str(self._state)
        turn = " and ".join(f"seat {seat}" for seat in self._turn)
        return f"To move: {turn}. What the players see stays hidden until the end."

    def text(self, seat: int) -> str:
        """What the seat sees."""
        return self._view(seat)

    def _view(self, seat: int) -> str:
        if self._kind.provides_observation_string:
            return self._state.observation_string(seat)
        return self._state.information_state_string(seat)

    def _look(self) -> None:
        state = self._state
        player = pass_chance(state, self.rng)
        self._together = player == TOGETHER
        self._moves: dict[int, _Moves] = {}
        if player >= 0:
            self._turn = [player]
        elif self._together:
            self._turn = [seat for seat in range(self.seats) if state.legal_actions(seat)]
        else:
            self._turn = []


class _Moves(Sequence[str]):
    """The moves of a seat; each is named when it is looked at, since naming all of them takes longer than a move.

    Attributes:
        numbers: OpenSpiel's numbers of the moves that have been looked at, by name.
    """

    __slots__ = ("_legal", "_seat", "_state", "numbers")

    def __init__(self, state: Any, seat: int, legal: list[int]) -> None:
        self._state = state
        self._seat = seat
        self._legal = legal
        self.numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._legal)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        number = self._legal[index]
        name: str = self._state.action_to_string(self._seat, number)
        if self.numbers.setdefault(name, number) != number:
            raise ValueError(f"two moves have the name {name!r}")
        return name


def pass_chance(state: Any, rng: random.Random) -> int:
    """Go on to the next state in which somebody has to move, or the last.

    Returns:
        Whose move it is, as OpenSpiel says it: a seat, `TOGETHER`, or another negative number at the end.
    """
    while (player := state.current_player()) == CHANCE:
        numbers, chances = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(rng.choices(numbers, chances)[0])
    return player


@lru_cache(maxsize=64)
def load_game(text: str, seats: int | None = None) -> tuple[Any, Any]:
    """What OpenSpiel says of a game, and the game.

    Args:
        text: Its name, with parameters if there are any.
        seats: How many seats; by default as many as the name says.

    Raises:
        ValueError: There is no such game, or it has never so many seats.
    """
    spiel = imported("pyspiel")
    try:
        game = spiel.load_game(text)
        kind = game.get_type()
        if seats not in (None, game.num_players()) and "players" in kind.parameter_specification:
            game = spiel.load_game(kind.short_name, {**game.get_parameters(), "players": seats})
    except (spiel.SpielError, IndexError) as error:
        raise ValueError(f"OpenSpiel cannot load {text}: {error}") from None
    if seats not in (None, game.num_players()):
        raise ValueError(f"{text} has {game.num_players()} seats, not {seats}")
    return kind, game


def play_on(game: str, history: Sequence[int], move: str, rng: random.Random) -> float:
    """Replay a history, make a move, and go on at random to the end.

    Args:
        game: The game, as `Sight` has it, of turns, in which nothing is hidden.
        history: The moves so far, as `Sight` has them.
        move: The name of the next one.
        rng: The chance of what comes then.

    Returns:
        What it has brought whoever made the move.
    """
    state = load_game(game)[1].new_initial_state()
    for number in history:
        state.apply_action(number)
    seat = state.current_player()
    state.apply_action(state.string_to_action(seat, move))
    while pass_chance(state, rng) >= 0:
        state.apply_action(rng.choice(state.legal_actions()))
    return state.returns()[seat]
