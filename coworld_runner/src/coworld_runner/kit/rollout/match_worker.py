"""Plays episodes of rules whose players are processes, many at once.

Each message to a player has what it is asked in all episodes of a chunk, so that one change of processes serves many.
"""

from __future__ import annotations

import marshal
import random
import select
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coworld_core.player_seeds import player_seed
from coworld_core.rules import ActionRefused, Branch, EpisodeConfig, Play, Rules, RulesError, action_schema, read_config
from coworld_core.time_limits import PLAYER_EXIT

from ...package.random_player import sample
from ..table.game_table import GameTable
from ..table.greeting import hello_message, seat_schemas
from ..table.seat_messages import read_action
from .bot_links import BotLink, BotProgram, PlayerHost
from .bot_messages import ACT, ACTION, AGAIN, CHOICE, END, FAILED, NEW, PASSED
from .kept_games import KeptGames, KeptKind
from .piped_game import PipedGame, SeatFailure
from .process_pipes import WorkerProgress

__all__ = ["Chunk", "MatchWorker", "Outcome", "PlayerLost", "SeatedGame"]

_TRIES: Final = 1000
"""How often the player `random` draws an action that may be refused, before it lets its time pass."""

_MAX_PRINTED: Final = 8192
"""Characters of what a player prints in an episode that are kept."""

_LONGEST: Final = 10**15
"""Nanoseconds: an answer that says that it took longer is none."""

_MOST_IDLE: Final = 4
"""Processes of players that are kept from one run to the next, beside those that it begins with."""

_LATE: Final = 0.05
"""Seconds by which an answer may be delayed on its way."""


@dataclass(frozen=True, kw_only=True)
class SeatedGame:
    """An episode to play.

    Attributes:
        number: Its number, unique in the whole run.
        config: The number of its config.
        seed: The seed of all random numbers.
        players: The number of the player in each seat.
        focus: The seats of the player that is measured.
        keep: Whether its replay is wanted in any case.
        player_secret: What the players' seeds are derived from, beside `seed`; they never get it.
        branch: A game that it goes on from; None: it begins at its beginning.
    """

    number: int
    config: int
    seed: int
    players: tuple[int, ...]
    focus: tuple[int, ...] = ()
    keep: bool = False
    player_secret: str = field(default="", repr=False)
    branch: Branch | None = None


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Episodes to play at once, and what they need that no chunk before has had.

    Attributes:
        games: The episodes.
        configs: Game configs with tokens, by number.
        players: Players, by number.
        alone: Whether this is one episode whose seats are asked one after the other, so that it can be told in whose
            turn a process ends.
        anew: Whether it is the first of another run.
    """

    games: Sequence[SeatedGame] = ()
    configs: Mapping[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    players: Mapping[int, BotProgram] = field(default_factory=dict[int, BotProgram])
    alone: bool = False
    anew: bool = False


class PlayerLost(Exception):
    """The process that loads a player has ended, and with it several episodes."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an episode has ended.

    Attributes:
        number: Its number.
        results: The game's results; None if it was not played to its end.
        failures: How players have failed.
        behaviour: What each seat did.
        printed: What players have printed, by seat.
        problem: How the rules have failed; empty if they have not.
        status: The status with which their process has ended then, or the number of a signal, negative.
        kept: Why it has a replay; empty: it has none.
        replay: The replay.
    """

    number: int
    results: Mapping[str, Any] | None = None
    failures: tuple[SeatFailure, ...] = ()
    behaviour: tuple[Any, ...] = ()
    printed: Mapping[int, str] = field(default_factory=dict[int, str])
    problem: str = ""
    status: int = 1
    kept: KeptKind = ""
    replay: bytes | None = field(default=None, repr=False)


class _Game:
    """An episode in progress."""

    def __init__(self, spec: SeatedGame, game: PipedGame | None, config: EpisodeConfig) -> None:
        self.spec = spec
        self._game = game
        self.config = config
        self.bots: list[BotLink | None] = [None] * config.seats
        self.chances: dict[int, random.Random] = {}
        self.printed: dict[int, str] = {}
        self.ending = 0
        """Players that are told how it has ended."""
        self.over = False
        self.problem = ""

    @property
    def started(self) -> bool:
        """Whether the rules could begin it."""
        return self._game is not None

    @property
    def game(self) -> PipedGame:
        """The game; there is none if the rules could not begin it."""
        assert self._game is not None
        return self._game


class MatchWorker:
    """Plays episodes of one game.

    Args:
        rules: The game.
        parent: The file descriptor that is closed when nobody wants outcomes any more.
        grace: Seconds that a game may go on after a player has failed.
        progress: Where to note what is being done.
    """

    def __init__(self, rules: type[Rules], parent: int, *, progress: WorkerProgress, grace: float = 1.0) -> None:
        self._progress = progress
        self._alone = False
        self._rules = rules
        self._grace = grace
        self._parent = parent
        self._schemas = seat_schemas(rules)
        self._action_schema = action_schema(rules)
        self._configs: dict[int, EpisodeConfig] = {}
        self._programs: dict[int, BotProgram] = {}
        self._apart: set[int] = set()
        """Players that have ended a process in which they played several episodes."""
        self._hosts: dict[tuple[int, int], PlayerHost] = {}
        self._live: dict[int, _Game] = {}
        self._numbers = 0
        self._ended: list[_Game] = []
        self._kept = KeptGames()

    def play(self, chunk: Chunk) -> list[Outcome]:
        """Play the episodes of a chunk.

        Raises:
            UsageError: A config is invalid.
            EnvironmentFault: A process cannot be started.
            BrokenPipeError: Nobody wants the outcomes any more.
            PlayerLost: It is not certain in which of several episodes a player has ended its process.
        """
        self._alone = chunk.alone
        if chunk.anew:
            self._begin_anew(chunk.players)
        for number, config in chunk.configs.items():
            self._configs[number] = read_config(self._rules, config)
        self._programs.update(chunk.players)
        self._ended = []
        for spec in chunk.games:
            self._progress.note(spec.number, WorkerProgress.RULES)
            self._begin(spec)
        self._until_all_have_ended()
        self._progress.note(0, WorkerProgress.LONGER)
        return [self._outcome(game) for game in sorted(self._ended, key=lambda game: game.spec.number)]

    def _begin_anew(self, players: Mapping[int, BotProgram]) -> None:
        """Forget what only the last run needed."""
        self._kept = KeptGames()
        self._configs, self._programs = {}, {}
        idle = [key for key in self._hosts if key[0] not in players]
        for key in idle[:-_MOST_IDLE]:
            self._hosts.pop(key).close()

    def load(self, players: Mapping[int, BotProgram]) -> dict[int, Mapping[str, Any]]:
        """What is known of players once they are loaded."""
        self._programs.update(players)
        return {number: self._host(number, 0).description for number, program in players.items() if program.name}

    def close(self) -> None:
        """Kill all processes."""
        for game in self._live.values():
            for bot in game.bots:
                if bot is not None:
                    bot.kill()
        for host in self._hosts.values():
            host.close()

    # --- an episode

    def _host(self, player: int, turn: int) -> PlayerHost:
        """The process of a player; one that plays itself has another for each seat of the same player."""
        first = self._hosts.get((player, 0))
        key = (player, turn if first is not None and first.shared is not None else 0)
        found = self._hosts.pop(key, None)
        # The last used is the last
        self._hosts[key] = found or PlayerHost(self._programs[player], apart=player in self._apart)
        return self._hosts[key]

    def _begin(self, spec: SeatedGame) -> None:
        config = self._configs[spec.config]
        self._numbers += 1
        number = self._numbers
        try:
            piped = PipedGame(self._rules, config, seed=spec.seed, grace=self._grace, branch=spec.branch)
        except RulesError as error:
            game = _Game(spec, None, config)
            game.problem = _describe_error(error)
            self._ended.append(game)
            return
        game = self._live[number] = _Game(spec, piped, config)
        turns: dict[int, int] = {}
        for slot, player in enumerate(spec.players):
            if not self._programs[player].name:
                game.chances[slot] = random.Random(player_seed(spec.seed, slot, secret=spec.player_secret))
                continue
            turn = turns[player] = turns.get(player, -1) + 1
            self._progress.note(spec.number, slot)
            host = self._host(player, turn)
            if host.status is not None:
                game.printed[slot] = host.description.get("said", "")
                kind = "player_error" if host.status else "player_left_early"
                failure = SeatFailure(slot=slot, error_type=kind, status=host.status, connected=False)
                piped.lose(failure)
                continue
            bot = game.bots[slot] = host.link()
            pace, starts = piped.table.play.pace, host.description["starts"]
            hello = hello_message(self._rules, config, slot, self._schemas, pace) if starts else None
            seed = player_seed(spec.seed, slot, secret=spec.player_secret)
            bot.ask((NEW, number, seed, hello), (number, slot, NEW))
        self._progress.note(spec.number, WorkerProgress.RULES)
        self._go_on(number, game)

    def _go_on(self, number: int, game: _Game) -> None:
        """Ask the players of a game until one has to be waited for, or the game is over."""
        piped = game.game
        try:
            while not game.over:
                if not (turn := piped.next_turn()):
                    self._finish(number, game)
                    return
                # All are asked before any of them is waited for; the last answer in a turn may have come from here
                for slot in turn:
                    self._ask(number, game, slot)
                if piped.awaited:
                    return
                piped.end_turn()
        except RulesError as error:
            self._fail(number, game, error)

    def _end_turn(self, number: int, game: _Game) -> None:
        """Go on if nobody is awaited any more."""
        if not game.game.awaited:
            game.game.end_turn()
            self._go_on(number, game)

    def _ask(self, number: int, game: _Game, slot: int) -> None:
        """Ask a seat for its action, if it has a player that can answer in this turn."""
        if slot in game.chances:
            self._draw(game, slot)
        elif game.game.may_ask(slot):
            bot, table = game.bots[slot], game.game.table
            assert bot is not None
            play = table.play
            request = (ACT, number, play.observation(slot), _choices(play, slot))
            bot.ask(request if play.talk is None else (*request, play.talk.take(slot)), (number, slot, ACT))

    def _draw(self, game: _Game, slot: int) -> None:
        """Play for `random`, as its program does."""
        table, rng = game.game.table, game.chances[slot]
        at, options = table.asked(slot), table.play.options(slot)
        if options is not None:
            table.choose(slot, rng.choice(options), at)
            return
        for _ in range(_TRIES):
            if not table.act(slot, sample(self._action_schema, rng), at):
                return

    def _take(self, bot: BotLink, answer: Any) -> None:
        """Take in an answer of a player.

        Raises:
            ValueError: It is not one.
        """
        number, slot, asked = bot.asked.popleft()
        told, kind, value, took, *more = answer
        said, words = more[:1], more[1:]
        if told != number or not isinstance(took, int) or not 0 <= took < _LONGEST:
            raise ValueError(answer)
        game = self._live.get(number)
        if game is None:
            return
        if said:
            game.printed[slot] = (game.printed.get(slot, "") + str(said[0]))[-_MAX_PRINTED:]
        status = 0
        if kind == FAILED:
            status, problem = value
            if not 0 <= status <= 255:
                raise ValueError(answer)
            if problem:
                starts = bot.host.description["starts"]
                tick = f"in tick {game.game.table.play.tick}"
                where = {NEW: "in start" if starts else "before its game", END: "in over"}.get(asked, tick)
                told = f"{game.printed.get(slot, '')}The player failed {where}: {problem}\n"
                game.printed[slot] = told[-_MAX_PRINTED:]
        if asked == END:
            self._note_end(number, game, slot, status)
        elif game.over:
            return
        elif kind == FAILED:
            self._lose(number, game, slot, int(status), connected=asked != NEW or bot.host.description["starts"])
        elif asked != NEW:
            self._answered(number, game, slot, kind, value, took / 1e9, words)

    def _answered(
        self, number: int, game: _Game, slot: int, kind: int, value: Any, used: float, spoken: Sequence[Any]
    ) -> None:
        piped, bot = game.game, game.bots[slot]
        assert bot is not None
        table = piped.table
        try:
            if spoken and not piped.recorded:
                table.say(slot, spoken[0])
            at = piped.answered(slot, used)
            if at is None:
                if slot in piped.awaited:
                    piped.awaited.discard(slot)
                    self._ask(number, game, slot)
            elif kind == CHOICE:
                options = table.play.options(slot)
                if options is None or not 0 <= value < len(options):
                    raise ValueError(value)
                table.choose(slot, options[value], at)
                piped.awaited.discard(slot)
            elif kind == ACTION:
                if reason := self._tried(table, slot, value, at):
                    piped.asks_again(slot, at)
                    bot.ask((AGAIN, number, reason, _choices(table.play, slot)), (number, slot, AGAIN))
                    return
                piped.awaited.discard(slot)
            elif kind == PASSED:
                piped.awaited.discard(slot)
            else:
                raise ValueError(kind)
            self._end_turn(number, game)
        except RulesError as error:
            self._fail(number, game, error)

    def _tried(self, table: GameTable, slot: int, text: str, at: float) -> str:
        """Let a seat act by JSON text; returns why that is refused.

        Raises:
            ValueError: It is not JSON.
        """
        try:
            value = read_action(text)
        except ActionRefused as refused:
            return table.refuse(slot, refused.message)
        return table.act(slot, value, at)

    def _lose(self, number: int, game: _Game, slot: int, status: int, *, connected: bool = True) -> None:
        """A player's program has ended."""
        bot = game.bots[slot]
        game.bots[slot] = None
        if bot is not None and not bot.shared:
            bot.close()
        piped = game.game
        kind = "player_error" if status or not connected else "player_left_early"
        awaited = slot in piped.awaited
        piped.lose(SeatFailure(slot=slot, error_type=kind, status=status, connected=connected))
        if piped.stopped:
            self._finish(number, game)
        elif awaited:
            try:
                self._end_turn(number, game)
            except RulesError as error:
                self._fail(number, game, error)

    def _fail(self, number: int, game: _Game, error: RulesError) -> None:
        game.problem = _describe_error(error)
        self._finish(number, game)

    def _finish(self, number: int, game: _Game) -> None:
        """The game is over: tell the players that want to know."""
        game.over = True
        results = None if game.problem else game.game.results
        over = None
        if results is not None:
            over = {"type": "over", "scores": results["scores"], "results": dict(results), "reason": "over"}
        for slot, bot in enumerate(game.bots):
            if bot is None:
                continue
            waits = over is not None and (bot.host.description["ends"] or game.game.is_thinking(slot))
            if waits or bot.shared:
                bot.ask((END, number, over if bot.host.description["ends"] else None), (number, slot, END))
            game.ending += waits
            if not waits and not bot.shared:
                (bot.kill if bot.asked else bot.close)()
                game.bots[slot] = None
            elif not waits:
                game.bots[slot] = None
        if not game.ending:
            self._close(number, game)

    def _note_end(self, number: int, game: _Game, slot: int, status: int) -> None:
        """A player was told that the game is over."""
        bot = game.bots[slot]
        if bot is None:
            return
        game.bots[slot] = None
        if not bot.shared:
            bot.close()
        if status:
            game.game.lose(SeatFailure(slot=slot, error_type="player_error", status=int(status), after=True))
        self._one_less(number, game)

    def _one_less(self, number: int, game: _Game) -> None:
        game.ending -= 1
        if not game.ending:
            self._close(number, game)

    def _close(self, number: int, game: _Game) -> None:
        del self._live[number]
        self._ended.append(game)

    def _outcome(self, game: _Game) -> Outcome:
        spec = game.spec
        if not game.started:
            return Outcome(number=spec.number, problem=game.problem)
        piped = game.game
        results = None if game.problem else piped.results
        kept = self._kept.choose(
            None if results is None else results["scores"],
            asked=spec.keep,
            failed=bool(piped.failures) or piped.counts.faltered,
            focus=spec.focus,
        )
        return Outcome(
            number=spec.number,
            results=results,
            failures=tuple(piped.failures),
            behaviour=piped.counts.behaviour,
            printed=game.printed,
            problem=game.problem,
            kept=kept,
            replay=piped.replay() if kept else None,
        )

    # --- waiting

    def _links(self) -> list[BotLink]:
        links: dict[int, BotLink] = {}
        for host in self._hosts.values():
            if host.shared is not None and not host.shared.idle:
                links[id(host.shared)] = host.shared
        for game in self._live.values():
            for bot in game.bots:
                if bot is not None and not bot.idle:
                    links[id(bot)] = bot
        return list(links.values())

    def _until_all_have_ended(self) -> None:
        while self._live:
            links = self._links()
            self._send(links)
            until = min((self._time_left(link) for link in links), default=0.01)
            ready, _, _ = select.select([*links, self._parent], [], [], min(max(until, 0.001), 1.0))
            if self._parent in ready:
                # Nothing arrives while a chunk is played, so it was closed
                raise BrokenPipeError
            for link in links:
                if link in ready:
                    self._hear(link)
                elif self._time_left(link) < 0:
                    self._stop_waiting(link)

    def _send(self, links: Sequence[BotLink]) -> None:
        """Send what is to be asked, and note first who is waited for then."""
        if not self._alone:
            self._progress.note(0, 0)
            for link in links:
                link.send()
            return
        awaited = next((link for link in links if link.asked and not self._is_late(link)), None)
        asked = awaited or next((link for link in links if link.unsent and not link.asked), None)
        if asked is not None:
            number, slot, _ = (asked.unsent or asked.asked)[-1]
            game = self._live.get(number)
            self._progress.note(0 if game is None else game.spec.number, slot)
            asked.send()

    def _is_late(self, link: BotLink) -> bool:
        """Whether the game goes on without the answer that a link owes."""
        about = self._about(link)
        if about is None:
            return False
        _, game, slot, _ = about
        return game.game.is_thinking(slot) and slot not in game.game.awaited

    def _call_rules(self, number: int) -> None:
        """Note that the rules are called in a game that is in progress."""
        game = self._live.get(number)
        if game is not None:
            self._progress.note(game.spec.number, WorkerProgress.RULES)

    def _hear(self, link: BotLink) -> None:
        try:
            answers = link.receive()
            if answers is None:
                self._gone(link)
                return
            for answer in answers:
                self._call_rules(link.asked[0][0])
                self._take(link, answer)
        except (ValueError, TypeError, IndexError, KeyError, RecursionError):
            # Whatever plays there does not do so by our program
            self._gone(link)

    def _about(self, link: BotLink) -> tuple[int, _Game, int, int] | None:
        """The last of what a link is asked, which says how long it may take; None if it does not matter any more."""
        for number, slot, asked in (link.asked[0],) if link.shared else reversed(link.asked):
            game = self._live.get(number)
            return None if game is None else (number, game, slot, asked)
        return None

    def _time_left(self, link: BotLink) -> float:
        """Seconds that a player may still take for what it is asked first."""
        about = self._about(link) if link.asked else None
        if about is None:
            return 1.0
        _, game, slot, asked = about
        if asked == END or game.over:
            return PLAYER_EXIT - link.passed
        left = game.game.seconds_left(slot)
        return 1.0 if left is None else link.left(left + _LATE)

    def _stop_waiting(self, link: BotLink) -> None:
        about = self._about(link)
        if about is None:
            return
        number, game, slot, asked = about
        self._call_rules(number)
        if link.shared:
            self._gone(link)
        elif asked == END or game.over:
            link.kill()
            game.bots[slot] = None
            game.game.lose(SeatFailure(slot=slot, error_type="player_timeout", status=None, after=True))
            self._one_less(number, game)
        else:
            # It goes on thinking while its time passes
            game.game.awaited.discard(slot)
            try:
                self._end_turn(number, game)
            except RulesError as error:
                self._fail(number, game, error)

    def _gone(self, link: BotLink) -> None:
        """The process behind a link has ended, or has closed its connection, and plays no more."""
        link.kill()
        if not link.shared:
            status = link.host.exit_status(link)
            if status is None:
                if not self._alone:
                    raise PlayerLost
                status = link.host.exit_code
            for number, game in list(self._live.items()):
                for slot, bot in enumerate(game.bots):
                    if bot is link:
                        self._call_rules(number)
                    if bot is link and game.over:
                        self._note_end(number, game, slot, status)
                    elif bot is link:
                        self._lose(number, game, slot, status)
            return
        # It is not certain in which episode it was, so all of them begin anew, each with a process of its own
        player = next(key[0] for key, host in self._hosts.items() if host is link.host)
        self._apart.add(player)
        for key in [key for key in self._hosts if key[0] == player]:
            self._hosts.pop(key).close()
        again = [(number, game) for number, game in self._live.items() if player in game.spec.players]
        for number, game in again:
            for bot in game.bots:
                if bot is not None and not bot.shared:
                    bot.kill()
                elif (
                    bot is not None
                    and bot.host.shared is not None
                    and bot.host.description
                    and bot.host is not link.host
                ):
                    bot.ask((END, number, None), (number, 0, END))
            del self._live[number]
        for _, game in again:
            self._begin(game.spec)


def _choices(play: Play, slot: int) -> bytes | None:
    legal = play.choices(slot)
    return None if legal is None else marshal.dumps(legal)


def _describe_error(error: RulesError) -> str:
    return "\n".join((*error.lines, f"the rules failed: {error.message}"))
