"""A player for any rules: practises against itself first, then takes the actions that scored best."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coworld_core.rules import Play, Rules, RulesConfig, action_schema, rules_config
from coworld_core.rules.plain_values import to_json

from ...package.random_player import sample

__all__ = ["Practised"]

DRAWN: Final = 32
"""Actions that are tried if the game does not list them."""

FEW: Final = 5
"""Games after which an average score counts as known."""


class Practised:
    """Takes the action that scored best in random games: after the same observation if that is known, else anywhere.

    Practice takes place before the first answer. If `legal` does not list the actions, some are drawn once, and only
    these are tried and played.

    Args:
        rules: The game.
        config: Its config, or the config's fields; by default all fields have their defaults.
        seats: Number of seats; by default the fewest.
        moves: Most moves to practise.
        seconds: Longest time to practise.
        seed: The seed of practice.
    """

    def __init__(
        self,
        rules: type[Rules],
        *,
        config: RulesConfig | Mapping[str, Any] | None = None,
        seats: int | None = None,
        moves: int = 20_000,
        seconds: float = 2.0,
        seed: int = 1,
    ) -> None:
        self._rules = rules
        self._config = rules_config(rules, config)
        self._seats = seats
        self._moves = moves
        self._seconds = seconds
        self._seed = seed
        self._here: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._anywhere: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._drawn: list[Any] = []
        self._ready = False

    def act(self, observation: Any, legal: Sequence[Any] | None, rng: random.Random) -> Any:
        """Return the action that scored best in practice; ties are broken at random."""
        if not self._ready:
            self._practise()
        legal = self._drawn if legal is None else legal
        seen = to_json(observation)
        values = [self._value(seen, to_json(action)) for action in legal]
        best = max(values)
        return rng.choice([action for action, value in zip(legal, values, strict=True) if value == best])

    def _value(self, seen: str, action: str) -> float:
        for total, count in (self._here.get((seen, action), (0, 0)), self._anywhere.get(action, (0, 0))):
            if count >= FEW:
                return total / count
        return 0.0

    def _practise(self) -> None:
        rng, until, left = random.Random(self._seed), time.monotonic() + self._seconds, self._moves
        schema = action_schema(self._rules)
        self._drawn = [sample(schema, rng) for _ in range(DRAWN)]
        while left > 0 and time.monotonic() < until:
            play = Play(self._rules, config=self._config, seats=self._seats, seed=rng.getrandbits(31))
            done: list[tuple[int, str, str]] = []
            while not play.over and left > 0 and time.monotonic() < until:
                actions: dict[int, Any] = {}
                for seat in play.to_act:
                    options = play.options(seat)
                    if options is None:
                        actions[seat] = play.read(seat, rng.choice(self._drawn))
                    else:
                        actions[seat] = rng.choice(options or [None])
                    done.append((seat, play.observe(seat), to_json(play.named(seat, actions[seat]))))
                play.step(actions, named=False)
                left -= 1
            if play.over:
                scores = play.results()["scores"]
                for seat, seen, action in done:
                    for known in (self._here[seen, action], self._anywhere[action]):
                        known[0] += scores[seat]
                        known[1] += 1
        self._ready = True
