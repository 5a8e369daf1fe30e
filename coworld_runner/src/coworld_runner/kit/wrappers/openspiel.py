"""Games of OpenSpiel as rules: seats see text, moves have names, and chance draws from the rules' own `rng`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from coworld_core.rules import RulesConfig

from .libraries import imported
from .wrappable import LibraryRules

__all__ = ["TOGETHER", "OpenSpiel", "OpenSpielConfig", "Sight", "load_game", "pass_chance", "play_on"]

SEED = "rng_seed"
"""Parameter of games that draw their own random numbers."""

CHANCE, TOGETHER = -1, -2
"""OpenSpiel's player numbers for chance, and for all players at once."""


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
    """A game of OpenSpiel. A subclass sets the game's name as the default of `Config.game`, and its numbers of seats.

    Spectators see the board of games in which nothing is hidden. Of other games they see whose turn it is, and the
    whole state at the end.
    """

    library = "pyspiel"
    Config = OpenSpielConfig
    Action = str
    Observation = Sight

    def start(self) -> None:
        """Begin the game, and play it up to the first move that is not chance."""
        self._known = known = _facts(self.config.game, self.seats)
        game = known.game
        if known.draws:
            # Its random numbers continue from game to game, so each game gets its own instance.
            given = {**game.get_parameters(), SEED: self.rng.getrandbits(31)}
            game = imported("pyspiel").load_game(known.short_name, given)
        self._state = game.new_initial_state()
        self._look()

    def to_act(self) -> list[int]:
        """Return the seats that have to move: several in games with simultaneous moves."""
        return self._turn

    def legal(self, seat: int) -> Sequence[int]:
        """Return OpenSpiel's numbers of the legal moves."""
        # Naming the seat takes half as long again as omitting it.
        return self._state.legal_actions(seat) if self._together else self._state.legal_actions()

    def name_action(self, seat: int, action: int) -> str:
        """Return OpenSpiel's name of a move: making it takes longer than the move."""
        return self._state.action_to_string(seat, action)

    def default(self, seat: int) -> int:
        """Return the first legal move."""
        return self.legal(seat)[0]

    def observe(self, seat: int) -> dict[str, Any]:
        """Return what OpenSpiel shows to a seat."""
        known = self._known
        return {"game": known.name, "view": self._view(seat), "history": self._state.history() if known.open else None}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Make the moves, and the chance moves that follow."""
        state = self._state
        if self._together:
            state.apply_actions([actions.get(seat, 0) for seat in range(self.seats)])
        else:
            state.apply_action(actions[self._turn[0]])
        self._look()

    def scores(self) -> list[float]:
        """Return what OpenSpiel calls returns."""
        return self._state.returns()

    def draw(self) -> str:
        """Return the board, unless it would show players what is hidden from them."""
        if self._known.open or not self._turn:
            return str(self._state)
        turn = " and ".join(f"seat {seat}" for seat in self._turn)
        return f"To move: {turn}. What the players see stays hidden until the end."

    def text(self, seat: int) -> str:
        """Return what the seat sees."""
        return self._view(seat)

    def _view(self, seat: int) -> str:
        if self._known.observes:
            return self._state.observation_string(seat)
        return self._state.information_state_string(seat)

    def _look(self) -> None:
        player = self._state.current_player()
        if player == CHANCE:
            player = pass_chance(self._state, self.rng)
        self._together = player == TOGETHER
        if player >= 0:
            self._turn = [player]
        elif self._together:
            self._turn = [seat for seat in range(self.seats) if self._state.legal_actions(seat)]
        else:
            self._turn = []


def pass_chance(state: Any, rng: random.Random) -> int:
    """Make chance moves until a player has to move or the game is over.

    Returns:
        Whose move it is, in OpenSpiel's terms: a seat, `TOGETHER`, or another negative number at the end.
    """
    while (player := state.current_player()) == CHANCE:
        numbers, chances = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(rng.choices(numbers, chances)[0])
    return player


@lru_cache(maxsize=64)
def load_game(text: str, seats: int | None = None) -> tuple[Any, Any]:
    """Return OpenSpiel's description of a game, and the game.

    Args:
        text: Its name, with parameters if there are any.
        seats: Number of seats; by default the number that the name and its parameters imply.

    Raises:
        ValueError: There is no such game, or it cannot have this number of seats.
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


class _Facts(NamedTuple):
    """What is needed of a game again and again; asking OpenSpiel takes as long as some moves."""

    game: Any
    name: str
    short_name: str
    open: bool
    """Whether nothing is hidden."""
    draws: bool
    """Whether it draws random numbers of its own."""
    observes: bool
    """Whether it has observations besides information states."""


@lru_cache(maxsize=64)
def _facts(text: str, seats: int) -> _Facts:
    kind, game = load_game(text, seats)
    return _Facts(
        game=game,
        name=str(game),
        short_name=kind.short_name,
        open=kind.information != type(kind.information).IMPERFECT_INFORMATION,
        draws=SEED in kind.parameter_specification,
        observes=kind.provides_observation_string,
    )


def play_on(game: str, history: Sequence[int], move: str, rng: random.Random) -> float:
    """Replay a history, make a move, and play at random to the end.

    Args:
        game: The game as in `Sight`; one with turns, in which nothing is hidden.
        history: The moves so far as in `Sight`.
        move: The name of the next move.
        rng: Chooses the random moves after it.

    Returns:
        The final score of the player that made the move.
    """
    state = load_game(game)[1].new_initial_state()
    for number in history:
        state.apply_action(number)
    seat = state.current_player()
    state.apply_action(state.string_to_action(seat, move))
    while pass_chance(state, rng) >= 0:
        state.apply_action(rng.choice(state.legal_actions()))
    return state.returns()[seat]
