"""One seat of a game in words, as language models play it: the one thing that their environments are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, cast

from coworld_core.errors import UsageError
from coworld_core.roles.bundle import BundledSeat, BundleMetadata
from coworld_core.roles.finished_episode import FinishedEpisode
from coworld_core.rules import ActionRefused, Play, Rules, RulesConfig, action_schema, load_rules, rules_config
from coworld_core.rules.model_words import NOTHING, UNCLEAR, instructions, question, spoken, understood
from coworld_core.rules.rules_schemas import rules_text

from ...package.random_player import RANDOM
from ..table.game_table import replay_of
from .episode_rollout import SeatPolicies, new_seed, several
from .seat_game import SeatGame, others_table

__all__ = ["SeatArguments", "SeatInWords"]

TRIES: Final = 3
"""How often a model may answer for one action."""


class SeatArguments(TypedDict, total=False):
    """Which seat a model has, and who else plays: the arguments of `SeatInWords`."""

    seat: int
    """Which seat."""
    opponents: SeatPolicies
    """The players of the other seats, as for `rollout`: one for all, or one for each."""
    config: RulesConfig | Mapping[str, Any] | None
    """The rules' config, or its fields as JSON."""
    seats: int | None
    """How many seats; by default one for each opponent that is named, if the game has that many."""
    tries: int
    """How many answers are heard for one action."""


class SeatInWords:
    """One seat of a game, for a language model: it is asked a question, and its answers are actions.

    ::

        with SeatInWords(Nim, opponents="players/counter.py") as seat:
            seat.begin(seed=1)
            while not seat.over:
                seat.answer(ask_model(seat.instructions, seat.question))
        print(seat.scores, seat.refused)

    Questions and answers are those of the player `llm:MODEL`. An answer that is refused changes nothing, and the next
    question says why it was; after `tries` such answers the seat misses its turn. Games are played one after another.

    Args:
        rules: The game, or its name as for `load_rules`.
        seat: Which seat.
        opponents: The players of the other seats, as for `rollout`: one for all, or one for each.
        config: The rules' config, or its fields as JSON; defaults if omitted.
        seats: How many seats; by default one for each opponent that is named, if the game has that many.
        tries: How many answers are heard for one action.

    Attributes:
        rules: The game.
        seat: Which seat.
        instructions: The system prompt: the description of the game, and what is wanted.
        action_schema: The JSON Schema of actions.
        refused: How many answers of this game were refused.

    Raises:
        UsageError: There is no such game, seat or opponent, or the config is invalid.
    """

    def __init__(
        self,
        rules: type[Rules] | str,
        *,
        seat: int = 0,
        opponents: SeatPolicies = RANDOM,
        config: RulesConfig | Mapping[str, Any] | None = None,
        seats: int | None = None,
        tries: int = TRIES,
    ) -> None:
        self.rules = load_rules(rules) if isinstance(rules, str) else rules
        named = len(cast("Sequence[Any]", opponents)) + 1 if several(opponents) else 0
        count = seats if seats is not None else max(named, self.rules.seats)
        if not 0 <= seat < count:
            raise UsageError(f"There is no seat {seat}; there are {count}.", code="wrong_seats")
        self.seat = seat
        self.instructions = instructions(rules_text(self.rules))
        self.action_schema = action_schema(self.rules)
        self.refused = 0
        self._talk = None if self.rules.talk is None else self.rules.talk.describe()
        self._tries = tries
        self._tried = 0
        self._why = ""
        own = rules_config(self.rules, config)
        self._table = others_table(self.rules, opponents, seat=seat, config=own, seats=count)
        self._game = SeatGame(self.rules, config=own, seats=count, seat=seat, table=self._table, keep=True)

    def __enter__(self) -> SeatInWords:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the opponents."""
        self._table.__exit__(None, None, None)

    def begin(self, seed: int | None = None) -> None:
        """Begin the next game, and play until the seat is asked; without a seed, one is drawn.

        Raises:
            UsageError: The seat is never asked.
            RulesError: The rules fail, as in all that follows.
            PolicyError: An opponent raised an exception; likewise.
        """
        self.refused = self._tried = 0
        self._why = ""
        self._game.begin(new_seed() if seed is None else seed)

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do in this game; so it is before the first."""
        return self._game.ended

    @property
    def seed(self) -> int:
        """The seed of this game, with which `rollout` plays it again."""
        return self._game.seed

    @property
    def scores(self) -> list[float]:
        """The score of each seat, as it was when it last had a meaning."""
        return list(self._game.last)

    @property
    def results(self) -> dict[str, Any] | None:
        """The results; None before the game is over."""
        return self._game.play.results() if self._game.over else None

    @property
    def episode(self) -> FinishedEpisode:
        """The game that is over as graders take it: its results, its replay and the names of its seats.

        Raises:
            UsageError: It is not over (`not_over`).
        """
        results, config = self.results, self._table.config
        if results is None:
            raise UsageError("The game is not over.", code="not_over")
        history, seed = self._game.history, self.seed
        names = (BundledSeat(slot=slot, policy_name=name) for slot, name in enumerate(config.names))
        metadata = BundleMetadata(players=tuple(names))
        parts: dict[tuple[str, str | None], Callable[[], bytes]] = {
            ("results", None): lambda: json.dumps(results).encode(),
            ("replay", None): lambda: replay_of(self.rules, config, history, seed=seed, reason="over", results=results),
            ("metadata", None): metadata.to_document,
        }
        return FinishedEpisode(id=f"{self.rules.__name__}-{seed}", parts=parts)

    @property
    def asked(self) -> dict[str, Any]:
        """What the seat is told now: `tick`, `observation`, `text`, `legal`, and what it has heard, as by a server.

        `refused` says why its last answer was refused, if it was.
        """
        play, seat = self._game.play, self.seat
        told: dict[str, Any] = {"tick": play.tick, "observation": play.observation(seat), "text": play.text(seat)}
        told["legal"] = play.choices(seat) if seat in play.to_act else []
        if play.talk is not None:
            told["heard"] = play.talk.take(seat)
        return {**told, "refused": self._why} if self._why else told

    @property
    def question(self) -> str:
        """The question for the next action."""
        self._begun()
        return question(self.asked, self.action_schema, self._talk)

    def answer(self, text: str) -> float:
        """Act by a model's answer; returns what the seat has gained, which is nothing if it is refused.

        Gains are the rewards of the rules; if they give none, the change of the score.
        """
        rest, words = spoken(text, self._talk)
        action = understood(rest, self._begun().choices(self.seat), self.action_schema)
        return self._refuse(UNCLEAR) if action is NOTHING else self.act(action, words)

    def act(self, action: Any, words: Sequence[tuple[str, str | int]] = ()) -> float:
        """Act by an action as JSON, and say something; returns what the seat has gained, as `answer` does."""
        play = self._begun()
        try:
            read = play.read(self.seat, action)
        except ActionRefused as error:
            return self._refuse(error.message)
        if play.talk is not None:
            play.talk.say_all(self.seat, words, tick=play.tick)
        self._why = ""
        return self._go_on(read)

    def leave(self) -> None:
        """Miss all turns that are left in this game."""
        while not self.over:
            self._go_on(None)

    def _begun(self) -> Play:
        if self.over:
            raise UsageError("There is no game in progress: begin one.", code="no_episode")
        return self._game.play

    def _refuse(self, reason: str) -> float:
        self.refused += 1
        self._tried += 1
        self._why = reason
        if self._tried < self._tries:
            return 0.0
        self._why = f"{reason}. It was the last of {self._tries}, so you have missed that turn."
        return self._go_on(None)

    def _go_on(self, action: Any) -> float:
        self._tried = 0
        gained = self._game.advance({self.seat: action})
        return gained[0] if gained else 0.0
