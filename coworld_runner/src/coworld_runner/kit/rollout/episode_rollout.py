"""One episode of rules, played in this process."""

from __future__ import annotations

import inspect
import json
import operator
import os
import random
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

from coworld_core.errors import CoworldError, UsageError
from coworld_core.player_seeds import player_seed
from coworld_core.rules import (
    Act,
    ActionRefused,
    EpisodeConfig,
    Play,
    Rules,
    RulesConfig,
    RulesError,
    action_schema,
    rules_config,
)
from coworld_core.rules.game import fixed_pace
from coworld_core.rules.plain_values import is_same_json
from coworld_core.rules.player_loader import is_session, open_player, seated
from coworld_core.rules.rules_errors import own_lines
from coworld_core.rules.seat_rewards import gives_rewards, reward_sum
from coworld_core.rules.seat_talk import SeatTalk, takes_talk
from coworld_core.scopes import arguments_of, bare_names

from ...package.random_player import RANDOM, sample
from ..table.game_table import GameTable
from ..table.greeting import hello_message, seat_schemas

__all__ = [
    "PolicyError",
    "PolicyTable",
    "Rollout",
    "SeatPolicies",
    "SeatPolicy",
    "SeatedPlayers",
    "new_seed",
    "rollout",
    "several",
]

SeatPolicy = Act | type | str | os.PathLike[str]
"""A function `act(observation, legal, rng)`, which may be asynchronous; a class with such a method, instantiated for
each episode and seat; a file or module that contains one, as `load_player` finds it, loaded for each seat; or
`random`."""

SeatPolicies = SeatPolicy | Sequence[SeatPolicy]
"""One policy for all seats, or one for each."""

_Choose = Callable[[Play, int], Any]


class PolicyError(CoworldError):
    """A policy raised an exception.

    Attributes:
        tick: The number of ticks played.
        seat: The policy's seat.
        lines: The lines of its traceback, innermost last, without ours.
        replay: The replay up to that point, if one was kept.
    """

    kind = "answer"
    default_code = "policy_failed"

    def __init__(self, cause: Exception, *, tick: int, seat: int) -> None:
        said = str(cause)
        problem = type(cause).__name__ + (f": {said}" if said else "")
        super().__init__(
            bare_names(f"The policy of seat {seat} failed in tick {tick}: {problem}"),
            context={"tick": tick, "seat": seat},
        )
        self.tick = tick
        self.seat = seat
        self.lines = own_lines(cause, without=__name__.rpartition(".")[0])
        self.replay: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A finished episode.

    Attributes:
        scores: The score of each seat; more is better.
        ticks: The number of ticks played.
        results: The game's results: `scores`, `ticks`, and what the rules add.
        seed: The seed of all random numbers.
        refused: The number of refused actions of each seat; each counted as no action in time.
        rewards: The sum of the rewards of each seat, None for a seat without any; None if the rules give no rewards.
        replay: The replay, if one was requested; `read_replay` reads it.
    """

    scores: tuple[float, ...]
    ticks: int
    results: Mapping[str, Any] = field(repr=False)
    seed: int
    refused: tuple[int, ...]
    rewards: tuple[float | None, ...] | None = None
    replay: bytes | None = field(default=None, repr=False)


def rollout(
    rules: type[Rules],
    policies: SeatPolicies = RANDOM,
    *,
    config: RulesConfig | Mapping[str, Any] | None = None,
    seats: int | None = None,
    seed: int | None = None,
    record: bool = False,
) -> Rollout:
    """Play one episode to its end, in this process and without a clock.

    A policy sees what its seat would see at a websocket, and its return value is checked in the same way: a refused
    action is counted in `refused` and counts as no action in time. `None` lets time pass on purpose. A policy with a
    fourth argument, `talk`, hears other seats and speaks to them when it acts (`SeatTalk`), as far as the rules let it.

    ::

        rollout(Nim, ["bot.py", lambda observation, legal, rng: legal[-1]], seed=7).scores

    Args:
        rules: The game.
        policies: The players, one for all seats or one for each.
        config: The rules' config, or its fields as JSON; defaults if omitted.
        seats: How many seats; by default the number of policies, or the smallest number that the game allows.
        seed: The seed of all random numbers, those of the policies included; None: a random one, which the result has.
        record: Whether to keep a replay.

    Raises:
        UsageError: There is no such policy, their number is wrong, or the config is invalid.
        RulesError: The rules failed; its `replay` has the game up to that point, if one was to be kept.
        PolicyError: A policy raised an exception; likewise.
    """
    with PolicyTable(rules, policies, config=config, seats=seats) as table:
        return table.play(new_seed() if seed is None else seed, record=record)


def new_seed() -> int:
    """A random seed, of as many bits as those that environments draw."""
    return secrets.randbits(32)


def several(policies: SeatPolicies) -> bool:
    """Return whether this is a sequence of policies rather than a single one."""
    return isinstance(policies, Sequence) and not isinstance(policies, str | os.PathLike)


@dataclass
class SeatedPlayers:
    """The players of one of several episodes that one table plays at a time."""

    seed: int
    chances: dict[int, random.Random] = field(default_factory=dict[int, random.Random])
    players: dict[int, tuple[Any, _Choose]] = field(default_factory=dict[int, tuple[Any, _Choose]])


class PolicyTable:
    """Rules and the players of each seat, ready for any number of episodes.

    Args:
        rules: The game.
        policies: As for `rollout`.
        config: As for `rollout`.
        seats: As for `rollout`.

    Attributes:
        config: The config of an episode.

    Raises:
        UsageError: As for `rollout`.
    """

    def __init__(
        self,
        rules: type[Rules],
        policies: SeatPolicies,
        *,
        config: RulesConfig | Mapping[str, Any] | None,
        seats: int | None,
    ) -> None:
        named = cast("list[SeatPolicy]", list(cast("Any", policies)) if several(policies) else [policies])
        least, most = rules.seats, rules.most_seats or rules.seats
        count = seats if seats is not None else len(named) if len(named) > 1 else least
        if not least <= count <= most or len(named) not in (1, count):
            has = f"{least}" if least == most else f"{least} to {most}"
            raise UsageError(
                f"{rules.__name__} has {has} seats; got {len(named)} policies for {count}.",
                code="wrong_seats",
                hint="Give one policy for all seats, or one for each.",
            )
        self._rules = rules
        self.config = EpisodeConfig(
            rules=rules_config(rules, config),
            tokens=("",) * count,
            names=tuple(f"Seat {seat}" for seat in range(count)),
            seed=None,
            pace=fixed_pace(rules),
            connect_timeout=0.0,
        )
        self._seats = count
        self._refused = [0] * count
        self._rewarded = gives_rewards(rules)
        self._rewards: list[float | None] | None = None
        self._seed = 0
        self._chances: dict[int, random.Random] = {}
        self._players: dict[int, tuple[Any, _Choose]] = {}
        self._portal: Any = None
        with ExitStack() as opening:
            self._choose = [self._chooser(named[seat % len(named)], opening) for seat in range(count)]
            self._stack = opening.pop_all()

    def __enter__(self) -> PolicyTable:
        self._stack.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def play(self, seed: int, *, record: bool = False) -> Rollout:
        """Play one episode."""
        self._refused = [0] * self._seats
        self._rewards = list[float | None]([None]) * self._seats if self._rewarded else None
        self._seed = seed = operator.index(seed)
        self._chances.clear()
        self._players.clear()
        table: GameTable | None = None
        try:
            table = GameTable(self._rules, self.config, seed=seed, keep="replay" if record else "nothing")
            self._through(table)
            results = self._over(table.play)
        except (RulesError, PolicyError) as error:
            if record and table is not None:
                error.replay = table.replay(reason="failed")
            raise
        return Rollout(
            scores=tuple(results["scores"]),
            ticks=table.play.tick,
            results=results,
            seed=seed,
            refused=tuple(self._refused),
            rewards=None if self._rewards is None else tuple(self._rewards),
            replay=table.replay(reason="over", results=results) if record else None,
        )

    def sit_down(self, seed: int) -> SeatedPlayers:
        """Return the players of another episode, to be played by `move`, beside others."""
        return SeatedPlayers(seed)

    def move(self, seated: SeatedPlayers, play: Play, seat: int) -> Any:
        """Return the action of a seat, for `Play.step`; None if it was refused or there is none."""
        self._take(seated)
        return self._choose[seat](play, seat)

    def over(self, seated: SeatedPlayers, play: Play) -> None:
        """Tell the players of an episode that it is over."""
        if seated.players:
            self._take(seated)
            self._over(play)

    def _take(self, seated: SeatedPlayers) -> None:
        self._seed, self._chances, self._players = seated.seed, seated.chances, seated.players

    def _over(self, play: Play) -> dict[str, Any]:
        results = play.results()
        over = {"type": "over", "scores": results["scores"], "results": results, "reason": "over"}
        for seat, (told, _) in self._players.items():
            self._tell(told, over, play=play, seat=seat)
        return results

    def _through(self, table: GameTable) -> None:
        choose, play = self._choose, table.play
        while turn := play.to_act:
            actions: dict[int, Any] = {}
            for seat in turn:
                actions[seat] = choose[seat](play, seat)
            table.step(actions)
            if self._rewards is not None:
                self._rewards = list(map(reward_sum, self._rewards, play.rewards() or ()))

    def _chance(self, seat: int) -> random.Random:
        """A seat's own random generator, so that seats do not influence each other. Seeding costs as much as a move."""
        if seat not in self._chances:
            self._chances[seat] = random.Random(player_seed(self._seed, seat))
        return self._chances[seat]

    # The players of the seats

    def _chooser(self, policy: SeatPolicy, opening: ExitStack) -> _Choose:
        if policy == RANDOM:
            return self._random()
        player: Any = policy
        place: str | None = None
        if isinstance(policy, str | os.PathLike):
            # As when each seat has a process, seats share nothing, even if they have the same file.
            player = opening.enter_context(open_player(os.fspath(policy)))
            place = getattr(sys.modules.get(player.__module__), "__file__", None)
        if is_session(player):
            raise UsageError(
                f"{player.__name__}(seat) plays at a socket, and a rollout has none.",
                code="session_in_rollout",
                hint="Write it as act(observation, legal, rng), or run an episode.",
            )
        if inspect.isclass(player) or hasattr(player, "start") or hasattr(player, "over"):
            return self._object(player, place)
        return self._asking(getattr(player, "act", player), place)

    def _object(self, player: Any, place: str | None) -> _Choose:
        """One object for each of its seats, for one episode."""

        def choose(play: Play, seat: int) -> Any:
            if seat not in self._players:
                one = self._tell(_with_arguments(place, seated), player, play=play, seat=seat)
                start, over = (_with_arguments(place, getattr(one, form, None)) for form in ("start", "over"))
                self._players[seat] = over, self._asking(one.act, place)
                if start is not None:
                    hello = hello_message(self._rules, self.config, seat, self._schemas, play.pace)
                    self._tell(start, json.loads(hello), play=play, seat=seat)
            return self._players[seat][1](play, seat)

        return choose

    @cached_property
    def _schemas(self) -> dict[str, Any]:
        return seat_schemas(self._rules)

    def _tell(self, callback: Any, about: Any, *, play: Play, seat: int) -> Any:
        if callback is None:
            return None
        try:
            waits = inspect.iscoroutinefunction(callback)
            return self._awaited(callback, about) if waits else callback(about)
        except Exception as error:
            raise PolicyError(error, tick=play.tick, seat=seat) from error

    def _asking(self, act: Any, place: str | None) -> _Choose:
        # A callable object may have an asynchronous `__call__`.
        asked = act if inspect.isroutine(act) else getattr(act, "__call__", act)  # noqa: B004
        waits = inspect.iscoroutinefunction(asked)
        talks = takes_talk(asked)
        act = act if place is None else _with_arguments(place, asked)

        def choose(play: Play, seat: int) -> Any:
            options, legal = play.options(seat), play.choices(seat)
            seen, rng = play.observation(seat), self._chance(seat)
            try:
                if talks:
                    answer: Any = self._talked(act, play, seat, seen, legal, rng, waits=waits)
                else:
                    answer = self._awaited(act, seen, legal, rng) if waits else act(seen, legal, rng)
            except RulesError:
                raise
            except Exception as error:
                raise PolicyError(error, tick=play.tick, seat=seat) from error
            if answer is None:
                return None
            if legal is not None and options is not None:
                for index, one in enumerate(legal):
                    # One of the handed-out options, unless it was changed meanwhile.
                    if one is answer and (type(one) in _UNCHANGED or _unchanged(play, seat, options[index], one)):
                        return options[index]
            try:
                return play.read(seat, answer)
            except ActionRefused:
                self._refused[seat] += 1
                return None

        return choose

    def _talked(self, act: Any, play: Play, seat: int, *asked: Any, waits: bool) -> Any:
        """Ask a policy that talks, and let its seat say what it said."""
        talk = SeatTalk(() if play.talk is None else play.talk.take(seat))
        answer = self._awaited(act, *asked, talk) if waits else act(*asked, talk)
        if play.talk is not None:
            play.talk.say_all(seat, talk.words, tick=play.tick)
        return answer

    def _random(self) -> _Choose:
        schema: dict[str, Any] | None = None

        def choose(play: Play, seat: int) -> Any:
            nonlocal schema
            # All random players share one stream.
            rng = self._chances.get(-1) or self._chance(-1)
            options = play.options(seat)
            if options is not None:
                return options[int(rng.random() * len(options))]
            schema = schema or action_schema(self._rules)
            try:
                return play.read(seat, sample(schema, rng))
            except ActionRefused:
                self._refused[seat] += 1
                return None

        return choose

    def _awaited(self, act: Act, *arguments: Any) -> Any:
        if self._portal is None:
            from anyio.from_thread import start_blocking_portal

            # A notebook already runs an event loop, which cannot be blocked to wait for another one.
            self._portal = self._stack.enter_context(start_blocking_portal())
        return self._portal.call(act, *arguments)


def _with_arguments(place: str | None, function: Any) -> Any:
    """The function of a player's file, called with `sys.argv` as if that were the program; itself without a file."""
    if place is None or function is None:
        return function
    if inspect.iscoroutinefunction(function):

        async def awaited(*given: Any) -> Any:
            with arguments_of(place):
                return await function(*given)

        return awaited

    def called(*given: Any) -> Any:
        with arguments_of(place):
            return function(*given)

    return called


def _unchanged(play: Play, seat: int, option: Any, handed_out: Any) -> bool:
    return is_same_json(play.named(seat, option), handed_out)


_UNCHANGED: Final = frozenset({str, int, float, bool})
