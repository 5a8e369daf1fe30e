"""Games of TextArena as rules: seats read and answer text, and chance draws from the rules' own `rng`."""

from __future__ import annotations

import contextlib
import io
import random
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from coworld_core.rules import RulesConfig

from .libraries import imported, read_call
from .wrappable import LibraryRules, Wrappable, WrappedGame, flaw, not_wrappable, rules_of

__all__ = ["TextArena", "TextArenaConfig", "TextPage", "find", "listed", "names"]

LONGEST: Final = 2000
"""Most characters of an answer."""

LAST: Final = 8
"""Number of latest messages that spectators see."""

TABLES: Final = (2, 1, 3, 4, 6)
"""Numbers of seats to try a game with; it gets the first with which it starts."""


class TextArenaConfig(RulesConfig):
    """Which game of TextArena is played."""

    game: str = Field(description="A game of TextArena, with arguments if there are any: Nim-v0(piles=[3, 4, 5]).")


class TextPage(BaseModel):
    """What a seat reads."""

    model_config = ConfigDict(frozen=True)

    game: str = Field(description="The game's name in TextArena, with its arguments.")
    view: str = Field(description="The rules of the game, and what has been said and shown to the seat.")


class TextArenaResults(BaseModel):
    """How a game of TextArena ended."""

    reason: str | None = Field(default=None, description="Why it ended, as TextArena says it.")


class TextArena(LibraryRules):
    """A game of TextArena. A subclass sets the game's name as the default of `Config.game`, and its number of seats.

    Spectators see the messages that all seats have received.
    """

    library = "textarena"
    Config = TextArenaConfig
    Action = Annotated[str, Field(max_length=LONGEST)]
    Observation = TextPage
    Results = TextArenaResults

    @classmethod
    def look_up(cls, game: str) -> None:
        """Make the environment once, so that its modules are imported and `_chance` finds them."""
        _environment(game)

    def start(self) -> None:
        """Reset the environment."""
        with self._chance():
            self._env = _environment(self.config.game)
        self._views = [""] * self.seats
        self._read = [0] * self.seats
        self._public: list[str] = []
        self._board = ""
        self._scores = [0.0] * self.seats
        self._reason: str | None = None
        with self._chance():
            self._env.reset(num_players=self.seats)
        self._look()

    def to_act(self) -> list[int]:
        """Return the seat whose turn it is."""
        return self._turn

    def default(self, seat: int) -> str:
        """Return an empty answer, which most games treat as a wrong move."""
        return ""

    def observe(self, seat: int) -> dict[str, Any]:
        """Return what a seat could read at its latest turn."""
        return {"game": self.config.game, "view": self._views[seat]}

    def step(self, actions: Mapping[int, Any]) -> None:
        """Give the seat's answer to the game."""
        (said,) = actions.values()
        with self._chance():
            over, _ = self._env.step(said)
        if not over:
            self._look()
            return
        closed: Any = self._env.close()
        rewards, told = closed
        given: list[Any] = [(rewards or {}).get(seat) or 0 for seat in range(self.seats)]
        # A few games have the reason in place of the reward.
        self._scores = [0.0 if isinstance(reward, str) else float(reward) for reward in given]
        self._reason = next((str(told[seat]["reason"]) for seat in sorted(told) if told[seat].get("reason")), None)
        self._turn: list[int] = []
        self._listen()

    def scores(self) -> list[float]:
        """Return TextArena's rewards."""
        return list(self._scores)

    def results(self) -> dict[str, Any]:
        """Return why the game is over."""
        return {"reason": self._reason}

    def draw(self) -> str:
        """Return the board, if all seats see one, and the latest messages to all seats."""
        return "\n".join([*([self._board] if self._board else []), *self._public[-LAST:]])

    def text(self, seat: int) -> str:
        """Return what the seat reads."""
        return self._views[seat]

    def _look(self) -> None:
        self._listen()
        with self._chance():
            seat, view = self._env.get_observation()
        self._views[seat] = view if isinstance(view, str) else "\n".join(str(part[1]) for part in view)
        self._read[seat] = 0
        self._turn = [int(seat)]

    def _listen(self) -> None:
        """Note the new messages that all seats have received."""
        told = self._env.state.observations
        new = [told[seat][self._read[seat] :] for seat in range(self.seats)]
        self._read = [len(told[seat]) for seat in range(self.seats)]
        for message in new[0]:
            if all(message in others for others in new[1:]):
                speaker, words, kind = message
                if kind.name == "GAME_BOARD":
                    self._board = words
                elif kind.name != "PROMPT" or self.seats > 1:
                    self._public.append(f"{'Game' if speaker < 0 else f'Seat {speaker}'}: {words}")

    @contextmanager
    def _chance(self) -> Generator[None]:
        """Have TextArena, which draws from the module `random`, draw from the rules' own generator instead."""
        found = [
            module
            for name, module in list(sys.modules.items())
            if name.startswith("textarena") and getattr(module, "random", None) is random
        ]
        try:
            chance = _Chance(self.rng)
            for module in found:
                module.random = chance  # pyright: ignore[reportAttributeAccessIssue]
            yield
        finally:
            for module in found:
                module.random = random  # pyright: ignore[reportAttributeAccessIssue]


class _Chance:
    """Replaces the module `random` for games: everything in it draws from one generator.

    Args:
        rng: The generator.
    """

    def __init__(self, rng: random.Random) -> None:
        class Random(random.Random):
            """A game's own generator; without a seed it takes one from `rng`, so that games can be repeated."""

            def __init__(self, seed: Any = None) -> None:
                super().__init__(rng.getrandbits(64) if seed is None else seed)

        self.Random = Random
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        """Return the generator's method in place of the module's function of the same name."""
        return getattr(self._rng, name)


def _environment(game: str) -> Any:
    """Make a new environment of a game.

    Raises:
        ValueError: TextArena has no such game.
    """
    name, parameters = read_call(game)
    if name not in _specs():
        raise ValueError(f"TextArena has no game {name}")
    return imported("textarena").make(name, **parameters)


# --- list of games -------------------------------------------------------------------------------------------------


def names() -> list[str]:
    """Return the names of all games, such as `TicTacToe-v0`, without their variants with other wrappers."""
    return list(_specs())


def listed() -> list[Wrappable]:
    """Return all games, judged by their source code; a game is played only when it is wrapped."""
    return [
        Wrappable(source=f"textarena:{name}", title=_title(name), refused=_of_source(entry.partition(":")[0]))
        for name, entry in sorted(_specs().items())
    ]


def find(game: str) -> WrappedGame:
    """Return one game, given its name with arguments if there are any.

    Raises:
        UsageError: Code `not_wrappable` with the reason.
    """
    reason, seats = _refused(game)
    if reason:
        raise not_wrappable(f"textarena:{game}", reason)
    return WrappedGame(
        library="textarena",
        game=game,
        title=_title(game),
        default_seats=seats,
        seats=seats,
        most_seats=seats,
        live_scores=False,
        second="listener",
    )


def _title(game: str) -> str:
    return game.partition("(")[0].replace("-v0", "").replace("-", " ")


@cache
def _specs() -> dict[str, str]:
    imported("textarena")
    found = sys.modules["textarena.envs.registration"].ENV_REGISTRY
    return {
        name: spec.entry_point
        for name, spec in found.items()
        if "-raw" not in name and "-train" not in name and isinstance(spec.entry_point, str)
    }


@cache
def _refused(game: str) -> tuple[str | None, int]:
    """Return why a game cannot be wrapped (None if it can), from its source and by playing it, and its seats."""
    try:
        name, _ = read_call(game)
        if reason := _of_source(_specs()[name].partition(":")[0]):
            return reason, 0
    except ValueError as error:
        return str(error), 0
    problem = ""
    for seats in TABLES:
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                _environment(game).reset(num_players=seats, seed=1)
            except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is the reason
                problem = (
                    problem or f"TextArena cannot begin it: {type(error).__name__}: {str(error).splitlines()[0][:100]}"
                )
                continue
        rules = rules_of(TextArena, game, seats=seats)
        return flaw(rules, ticks=6, sample=lambda rng: f"[{rng.randrange(9)}]"), seats
    return problem, 0


@cache
def _of_source(module: str) -> str | None:
    """Return why a game cannot be wrapped, as far as its source code shows; None if nothing speaks against it."""
    # Find it by its path: importing the game's package would run the very code to be checked.
    path = Path(imported("textarena").__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
    if not path.is_file():
        return "its source is missing from the library"
    source = path.read_text("utf-8")
    try:
        compile(source, str(path), "exec")
    except SyntaxError:
        return f"its source is not for Python {sys.version_info.major}.{sys.version_info.minor}"
    if "OpenRouter" in source:
        return "it asks a language model over the network, with a key"
    if "nltk" in source or "EnglishDictionary" in source or "word_lists" in source:
        return "it downloads word lists when it is played"
    return None
