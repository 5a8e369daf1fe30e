"""Games in which some seats are ours and players have the others, played on until we are asked again."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any, Final, cast

from coworld_core.errors import UsageError
from coworld_core.rules import Play, Rules, RulesConfig
from coworld_core.rules.seat_rewards import gives_rewards

from ...package.random_player import RANDOM
from ..table.game_table import Done
from .episode_rollout import PolicyTable, SeatedPlayers, SeatPolicies, several

__all__ = ["SeatGame", "others_table"]

MOST_BEGUN: Final = 1000
"""Games in a row that may be over before our seat is to act."""


def others_table(
    rules: type[Rules],
    opponents: SeatPolicies,
    *,
    seat: int,
    config: RulesConfig | Mapping[str, Any] | None,
    seats: int,
) -> PolicyTable:
    """The players of all seats but ours, ready to play; ours has one that is never asked.

    Raises:
        UsageError: As for `rollout`.
    """
    others = seats - 1
    named = cast("list[Any]", list(cast("Any", opponents)) if several(opponents) else [opponents] * max(others, 1))
    if len(named) == 1:
        named *= others
    if len(named) != others:
        raise UsageError(
            f"There are {others} other seats, and {len(named)} opponents.",
            code="wrong_seats",
            hint="Name one for all, or one for each.",
        )
    named.insert(seat, RANDOM)
    return PolicyTable(rules, named, config=config, seats=seats)


class SeatGame:
    """One game after another, in the place of one game.

    Args:
        rules: The game.
        config: Its config.
        seats: Number of seats.
        seat: Which is ours; None: all of them.
        table: The players of the other seats; None if there are none.
        max_ticks: Ticks after which a game ends that is not over.
        keep: Whether what was done is kept.

    Attributes:
        table: The players of the other seats.
        play: The game.
        seats: The seats that are ours.
        seed: Its seed.
        last: The scores when they were last meaningful.
        over: Whether it was played to its end.
        ended: Whether it does not go on, for whatever reason.
        history: What was done in each tick, if that is kept.
    """

    def __init__(
        self,
        rules: type[Rules],
        *,
        config: RulesConfig,
        seats: int,
        seat: int | None,
        table: PolicyTable | None,
        max_ticks: int | None = None,
        keep: bool = False,
    ) -> None:
        self.table = table
        self.last: list[float] = []
        self.seed = 0
        self.over = False
        self.ended = True
        self.history: list[Done] = []
        self.play: Play
        self.seats = range(seats) if seat is None else (seat,)
        self._rules, self._config, self._count, self._own = rules, config, seats, seat
        self._seated: SeatedPlayers
        self._most = math.inf if max_ticks is None else max_ticks
        self._keep = keep
        self._live = rules.live_scores
        self._rewarded = gives_rewards(rules)
        self._gained = [0.0] * seats
        self._seeds = random.Random()

    def begin(self, seed: int | None = None) -> None:
        """Begin the next game; its seed follows from the last unless one is given.

        Raises:
            UsageError: Our seat is never asked.
        """
        if seed is not None:
            self._seeds.seed(seed)
        self.over = self.ended = False
        for _ in range(MOST_BEGUN):
            self.seed = self._seeds.randrange(2**32) if seed is None else seed
            seed = None
            play = self.play = Play(self._rules, config=self._config, seats=self._count, seed=self.seed)
            self.last = (play.scores_now() if self._live else None) or [0.0] * self._count
            self._gained = [0.0] * self._count
            self.history = []
            if self.table is not None:
                self._seated = self.table.sit_down(self.seed)
                self._until_asked()
            if not play.over:
                return
        raise UsageError(
            f"{MOST_BEGUN} games of {self._rules.__name__} were over before seat {self._own or 0} was to act.",
            code="no_turn",
        )

    def advance(self, ours: Mapping[int, Any]) -> list[float] | None:
        """Play a tick, and those of the others until we are asked again.

        Args:
            ours: Our actions by seat, for `Play.step`.

        Returns:
            What each of our seats has gained; None: nothing.
        """
        play = self.play
        self._step({seat: ours[seat] if seat in ours else self._other(seat) for seat in play.to_act})
        if self._own is not None:
            self._until_asked()
        if not play.to_act:
            self.over = self.ended = True
            if self.table is not None:
                self.table.over(self._seated, play)
        elif play.tick >= self._most:
            self.ended = True
        before = now = self.last
        if self._live or self.over:
            now = self.last = play.scores_now() or before
        if self._rewarded:
            gained, self._gained = self._gained, [0.0] * len(self._gained)
            return [gained[seat] for seat in self.seats]
        if now is before:
            return None
        return [now[seat] - before[seat] for seat in self.seats]

    def _until_asked(self) -> None:
        play, own, most = self.play, self._own, self._most
        while (turn := play.to_act) and own not in turn and play.tick < most:
            self._step({seat: self._other(seat) for seat in turn})

    def _step(self, actions: Mapping[int, Any]) -> None:
        play = self.play
        done = play.step(actions, named=False)
        if self._keep:
            self.history.append((done, () if play.talk is None else play.talk.messages))
        if self._rewarded and (rewards := play.rewards()) is not None:
            self._gained = [sum + (reward or 0.0) for sum, reward in zip(self._gained, rewards, strict=True)]

    def _other(self, seat: int) -> Any:
        assert self.table is not None
        return self.table.move(self._seated, self.play, seat)
