"""One episode of a game: calls the rules, checks what they return, and lets only legal actions through."""

from __future__ import annotations

import inspect
import json
import math
import operator
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, cast

from pydantic import ValidationError

from ..errors import first_mistake
from .game import Rules, RulesConfig, drawing_as_text, draws_all, draws_seats, fixed_pace, is_picture
from .pace import Pace, Ticks, Turns
from .plain_values import action_text, adapter, to_json, to_plain
from .rules_errors import ActionRefused, RulesError
from .seat_rewards import gives_rewards, read_rewards
from .seat_talk import SeatChat, SeatMessage
from .spectator_views import Open

__all__ = ["MAX_LEGAL_TOLD", "Frame", "Play"]

MAX_LEGAL_TOLD: Final = 10_000
"""Maximum number of legal actions of one seat; beyond that, the type of the action describes them better."""


_FIELDS: Final = ("to_act", "scores", "eliminated")
"""What `Rules.public` may name that is no attribute of the state."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The spectators' view of one moment; `Rules.spectators` says when they may see it.

    Attributes:
        tick: Number of ticks played.
        to_act: The seats whose action is awaited; none once the game is over.
        drawing: The board, as returned by `Rules.draw` for spectators.
        scores: The score of each seat, if the rules have `live_scores`.
        eliminated: The seats that are out of the game.
        rewards: What each seat has gained in the last tick, None for a seat without a reward; None if the rules give no
            rewards, and before the first tick.
        messages: What seats said to each other in the last tick, whoever hears it.
        pace: How the game advances from here, if that depends on the phase.
        public: What everybody may know whatever else they see (`Rules.public`), by name, as JSON values.
    """

    tick: int
    to_act: tuple[int, ...]
    drawing: str
    scores: tuple[float, ...] | None = None
    eliminated: tuple[int, ...] = ()
    rewards: tuple[float | None, ...] | None = None
    messages: tuple[SeatMessage, ...] = ()
    pace: Pace | None = None
    public: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def known(self) -> dict[str, Any]:
        """What everybody may know, as fields of a message: those that it has anyway, and the rest as `known`."""
        fields = {name: value for name, value in self.public.items() if name in _FIELDS}
        rest = {name: value for name, value in self.public.items() if name not in _FIELDS}
        return {**fields, "known": rest} if rest else fields

    def standing(self, seat: int | None = None) -> dict[str, Any]:
        """The scores and the seats that are out, as far as there are any, as fields of a message or of a replay.

        Args:
            seat: The only seat that it may tell of; the scores of the others are then None.
        """
        told: dict[str, Any] = {}
        if self.scores is not None:
            told["scores"] = [score if seat in (None, one) else None for one, score in enumerate(self.scores)]
        if out := [one for one in self.eliminated if seat in (None, one)]:
            told["eliminated"] = out
        return told


class Play:
    """One episode, from its start until no seat has to act.

    `observe` and `legal` return JSON text for the wire; `observation` and `choices` return the same as values for play
    in the same process, at a fraction of the cost. Nothing is computed before it is requested.

    Args:
        rules: The game.
        config: Its config; by default one with default values only.
        seats: Number of seats; by default the game's minimum.
        seed: The seed of all randomness.
        names: The names of the seats, for drawings and texts; by default `Seat 0`, `Seat 1` ….
        pace: How the game advances, if it is not as the class says; of no effect if that depends on the phase.
        new_chance: Ticks from which the rules' random numbers follow from another seed, and that seed.

    Attributes:
        pace: How the game advances at present.
        phased: Whether that depends on the phase, so that it may change with each tick.
        talk: What seats say to each other; None if the game has no `talk`.

    Raises:
        RulesError: If the rules raise an exception or return something invalid. Any method may raise it.
        ValueError: If the game does not support this number of seats.
    """

    def __init__(
        self,
        rules: type[Rules],
        *,
        config: RulesConfig | None = None,
        seats: int | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
        pace: Pace | None = None,
        new_chance: Mapping[int, int] | None = None,
    ) -> None:
        count = rules.seats if seats is None else seats
        most = rules.most_seats or rules.seats
        if not rules.seats <= count <= most:
            raise ValueError(f"{rules.__name__} has {rules.seats} to {most} seats, not {count}")
        self.seats = count
        self.tick = 0
        self.to_act: tuple[int, ...] = ()
        self._class = rules
        self._most_ticks = rules.max_ticks
        self._range = rules.score_range
        self._held: dict[int, Any] = {}
        fixed = fixed_pace(rules)
        self.phased = fixed is None
        self._take_pace(pace or fixed or Turns())
        self._names = rules.name_action is not Rules.name_action
        self._options: dict[int, Sequence[Any] | None] = {}
        self._legal: dict[int, dict[str, Any] | None] = {}
        self._frame: Frame | None = None
        self._gives_rewards = gives_rewards(rules)
        self._rewards: tuple[int, tuple[float | None, ...]] | None = None
        self._draws_seats = draws_seats(rules)
        self.talk: SeatChat | None = None
        if rules.talk is not None:
            self.talk = SeatChat(rules.talk, count, team=self.team, out=self.eliminated)
        self._drawings: dict[int, str] = {}
        self._pictured = False
        self._turns = _common_turns(count).copy()
        self._seat_names = None if names is None else tuple(names)
        self._seed = operator.index(seed)
        self._new_chance = new_chance
        try:
            # Rules with a constructor of their own expect more than a seed
            rng = self._seed if rules.__init__ is Rules.__init__ else random.Random(self._seed)
            self._rules = rules(rules.Config() if config is None else config, seats=count, rng=rng)
        except Exception as error:
            raise RulesError.raised(error, where="__init__", tick=0) from error
        if (answer := self._ask("start")) is not None:
            self._check_done("start", answer)
        self._draw_anew()
        self._look()

    @property
    def rules(self) -> Rules:
        """The instance of the rules, which is the state; callers must not change it."""
        return self._rules

    @property
    def over(self) -> bool:
        """Whether the game is over, that is, no seat is to act."""
        return not self.to_act

    @property
    def chance_used(self) -> bool:
        """Whether the rules have used their random numbers."""
        return "rng" in vars(self._rules) and self._rules.rng.getstate() != random.Random(self._seed).getstate()

    # Views

    def frame(self) -> Frame:
        """The spectators' view of the present moment."""
        if self._frame is None:
            self._frame = Frame(
                tick=self.tick,
                to_act=self.to_act,
                drawing=self._drawn(None),
                scores=tuple(self._scores()) if self._class.live_scores else None,
                eliminated=self.eliminated(),
                rewards=self.rewards(),
                messages=() if self.talk is None else self.talk.messages,
                pace=self.pace if self.phased else None,
                public=self._public(),
            )
        return self._frame

    def _public(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for name in self._class.public:
            try:
                told[name] = to_plain(public_value(self._rules, name))
            except Exception as error:
                raise RulesError.raised(error, where="public", tick=self.tick) from error
        return told

    def standing(self, seat: int) -> dict[str, Any]:
        """Scores, who is to act, who is out and what is public, as fields of a message to a seat.

        In a game that spectators may not see yet, it is told of itself alone, and what is public.
        """
        frame = self.frame()
        if isinstance(self._class.spectators, Open):
            return {"to_act": frame.to_act, **frame.standing(), **frame.known()}
        return {**frame.standing(seat), **frame.known()}

    def revealed(self) -> str:
        """The board with all that is secret, for replays: `draw("all")`, or as the public sees it if there is none."""
        return self._drawn("all") if draws_all(self._class) else self.frame().drawing

    def drawing(self, seat: int) -> str:
        """The board as a seat sees it; empty if there is none.

        A game that does not draw its seats shows them what spectators see, if those may see the present state.
        """
        if not self._draws_seats:
            return self.frame().drawing if isinstance(self._class.spectators, Open) else ""
        if seat not in self._drawings:
            self._drawings[seat] = self._drawn(seat)
        return self._drawings[seat]

    @property
    def drawings(self) -> dict[int, str]:
        """The drawings that have been made for seats in this tick."""
        return dict(self._drawings)

    def _drawn(self, eye: int | Literal["all"] | None) -> str:
        drawing = self._ask_named("draw", *((eye,) if self._draws_seats else ()))
        if not isinstance(drawing, str):
            seat = None if eye == "all" else eye
            raise self._wrong("draw", f"a drawing is text, not {type(drawing).__name__}", seat)
        self._pictured = self._pictured or is_picture(drawing)
        return drawing

    def eliminated(self) -> tuple[int, ...]:
        """The seats that are out of the game, in ascending order."""
        return () if self._class.eliminated is Rules.eliminated else self._turn(self._ask("eliminated"), "eliminated")

    def rewards(self) -> tuple[float | None, ...] | None:
        """What each seat has gained in the last tick, as in `Frame.rewards`."""
        if not self._gives_rewards or not self.tick:
            return None
        if self._rewards is None or self._rewards[0] != self.tick:
            given = self._ask("rewards")
            try:
                self._rewards = self.tick, read_rewards(given, self.seats)
            except (TypeError, ValueError) as error:
                raise self._wrong("rewards", str(error)) from None
        return self._rewards[1]

    def team(self, seat: int) -> tuple[int, ...]:
        """The seats on the side of a seat, in ascending order."""
        return self._turn(self._ask("team", seat), "team")

    def observe(self, seat: int) -> str:
        """What a seat sees, as JSON text."""
        return self._json("observe", self._ask("observe", seat), seat)

    def observation(self, seat: int) -> Any:
        """What a seat sees, as a new value equal to the parsed JSON text."""
        try:
            value = self._rules.observe(seat)
        except Exception as error:
            raise RulesError.raised(error, where="observe", tick=self.tick, seat=seat) from error
        try:
            return to_plain(value)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._wrong("observe", f"not a JSON value: {error}", seat) from error

    def text(self, seat: int) -> str | None:
        """What a seat sees as text, if the rules provide it."""
        if self._class.text is Rules.text:
            # Pictures of seats are for pages only, and would be drawn here for nothing.
            return None if self._pictured and self._draws_seats else drawing_as_text(self.drawing(seat))
        text = self._ask_named("text", seat)
        if text is not None and not isinstance(text, str):
            raise self._wrong("text", f"a text is a str or None, not {type(text).__name__}", seat)
        return text

    # Legal actions

    def legal(self, seat: int) -> list[str] | None:
        """The legal actions of a seat as JSON texts, in the order of the rules; None if the type alone defines them.

        The list is empty for a seat that is not to act.
        """
        if seat not in self.to_act:
            return []
        known = self._known(seat)
        return None if known is None else list(known)

    def options(self, seat: int) -> Sequence[Any] | None:
        """The legal actions as the rules return them, to pass to `step`; callers must not change them.

        A custom sequence is passed on as it is, so a lazy one creates only the items that are accessed.
        """
        if seat in self._options:
            return self._options[seat]
        if seat not in self.to_act:
            return []
        try:
            actions: Any = self._rules.legal(seat)
        except Exception as error:
            raise RulesError.raised(error, where="legal", tick=self.tick, seat=seat) from error
        kind: Any = type(actions)  # pyright: ignore[reportUnknownVariableType]
        listed: Sequence[Any] | None = actions if kind is list else self._listed(actions, seat)
        if listed is not None and not 0 < (count := len(listed)) <= MAX_LEGAL_TOLD:
            problem = f"{count} legal actions; return None and let the type describe them"
            raise self._wrong("legal", problem if count else "a seat that is to act has no legal action", seat)
        self._options[seat] = listed
        return listed

    def _listed(self, actions: Any, seat: int) -> Sequence[Any] | None:
        """Legal actions as a sequence."""
        if actions is None and self._names:
            raise self._wrong("legal", "rules with `name_action` must return the legal actions, not None", seat)
        if actions is None or isinstance(actions, Sequence):
            return cast("Sequence[Any] | None", actions)
        if isinstance(actions, Iterable):
            return list(cast("Iterable[Any]", actions))
        raise self._wrong("legal", f"it must return the legal actions or None, not {actions!r}", seat)

    def choices(self, seat: int) -> list[Any] | None:
        """The legal actions as new values equal to the parsed JSON texts of `legal`."""
        options = self.options(seat)
        if options is None:
            return None
        try:
            if self._names:
                return [self.named(seat, action) for action in options]
            return to_plain(options if type(options) is list else list(options))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._wrong("legal", f"not a JSON value: {error}", seat) from error

    def named_options(self, seat: int) -> Sequence[Any] | None:
        """The legal actions as players know them, in the order of `options`; callers must not change them."""
        return self.choices(seat) if self._names else self.options(seat)

    def named(self, seat: int, action: Any) -> Any:
        """An action of `options`, of `read` or of the rules' `default` as a new value in its JSON form."""
        return to_plain(self._ask("name_action", seat, action) if self._names else action)

    def read(self, seat: int, value: object) -> Any:
        """Check an action; `value` is what `json.loads` or a policy returned.

        Raises:
            ActionRefused: If the seat is not to act, or the action is malformed or not legal now.
            RulesError: If the validation of the action's type fails.
        """
        if seat not in self.to_act:
            raise ActionRefused("it is not your turn", code="not_your_turn")
        known = self._known(seat)
        text = action_text(value)
        if known is not None and text in known:
            return known[text]
        try:
            action = adapter(self._class.Action).validate_json(text, strict=True)
        except ValidationError as error:
            place, problem = first_mistake(error)
            reason = f"no action: {place + ': ' if place else ''}{problem}"
            raise ActionRefused(f"{reason}{_example(text, known)}", code="action_malformed") from None
        except Exception as error:
            # The author's own validator, which should raise ValueError for a wrong value.
            raise RulesError.raised(error, where="Action", tick=self.tick, seat=seat) from error
        if known is None:
            return action
        # The same action can be written with or without its defaults.
        if (full := to_json(action)) not in known:
            raise ActionRefused(f"not legal now{_example(text, known)}", code="action_illegal")
        return known[full]

    # Advancing

    def step(self, actions: Mapping[int, Any], *, named: bool = True) -> dict[int, Any]:
        """Advance by one tick.

        Args:
            actions: Actions returned by `read` or taken from `options`, by seat. A seat that is to act but is missing,
                or has None, has missed its turn: if `Ticks.hold` is set, it repeats its last action, provided that it
                is still legal; otherwise it gets its default. Other seats are ignored.
            named: Whether the returned actions have the names that the rules give them (`Rules.name_action`), as in a
                replay, and not the form in which the rules know them.

        Returns:
            The action of each seat that was to act, in ascending order.
        """
        done: dict[int, Any] = {}
        for seat in self.to_act:
            action = actions.get(seat)
            done[seat] = self._missed(seat) if action is None else action
        told = done
        if self._holds or (named and self._names):
            if self._names:
                # Before the tick, because a name may depend on the state
                told = {seat: None if action is None else self.named(seat, action) for seat, action in done.items()}
            if self._holds:
                self._held.update((seat, action) for seat, action in told.items() if action is not None)
        try:
            answer = self._rules.step(done)
        except Exception as error:
            raise RulesError.raised(error, where="step", tick=self.tick) from error
        if answer is not None:
            self._check_done("step", answer)
        self.tick += 1
        if self._new_chance:
            self._draw_anew()
        if self.talk is not None:
            self.talk.deliver()
        self._look()
        return told if named else done

    def _draw_anew(self) -> None:
        """Begin with other random numbers if this is the tick for it."""
        if self._new_chance and self.tick in self._new_chance:
            # In place, since rules may have handed it on; those with a constructor of their own may have none
            chance: object = getattr(self._rules, "rng", None)
            if isinstance(chance, random.Random):
                chance.seed(self._new_chance[self.tick])

    def _missed(self, seat: int) -> Any | None:
        last = self._held.get(seat)
        if last is not None:
            known = self._known(seat)
            last = last if known is None else known.get(to_json(last))
        return self._ask("default", seat) if last is None else last

    def scores_now(self) -> list[float] | None:
        """The score of each seat if it is meaningful: at the end, or at any time with `Rules.live_scores`."""
        return self._scores() if self.over or self._class.live_scores else None

    def _scores(self) -> list[float]:
        raw = self._ask("scores")
        try:
            given = list(raw)
            # `float` would read a number from a text.
            scores = [math.nan if isinstance(score, str | bytes) else float(score) for score in given]
        except (TypeError, ValueError):
            raise self._wrong("scores", f"scores must be numbers, one per seat, not {raw!r}") from None
        if len(scores) != self.seats or not all(math.isfinite(score) for score in scores):
            raise self._wrong("scores", f"scores must be {self.seats} finite numbers, one per seat, not {given}")
        if self._range is not None:
            low, high = self._range
            if (low is not None and min(scores) < low) or (high is not None and max(scores) > high):
                problem = f"the scores {scores} are outside of score_range, which is {self._range}"
                raise self._wrong("scores", problem, code="rules_score_outside")
        return scores

    def results(self) -> dict[str, Any]:
        """The results of a game that is over: `scores`, `ticks`, and the fields that the rules add."""
        scores = self._scores()
        more = self._ask("results")
        if more is None:
            return {"scores": scores, "ticks": self.tick}
        added: Any = json.loads(self._json("results", more))
        if not isinstance(added, dict) or {"scores", "ticks"} & cast("dict[str, Any]", added).keys():
            raise self._wrong("results", "results must be an object without scores and ticks, which are added to it")
        return {"scores": scores, "ticks": self.tick, **added}

    # Calling the rules and checking what they return

    def _ask(self, name: str, *about: Any) -> Any:
        """Call a method of the rules; its first argument, if there is one, is a seat, or "all" for a drawing."""
        method = getattr(self._rules, name)
        try:
            return method(*about)
        except Exception as error:
            seat = about[0] if about and about[0] != "all" else None
            raise RulesError.raised(error, where=name, tick=self.tick, seat=seat) from error

    def _ask_named(self, name: str, *about: Any) -> Any:
        """Call a method of the rules that may know the names of the seats, which the state must not."""
        state = vars(self._rules)
        if self._seat_names is None or "names" in state:
            return self._ask(name, *about)
        state["names"] = self._seat_names
        try:
            return self._ask(name, *about)
        finally:
            state.pop("names", None)

    def _check_done(self, name: str, answer: object) -> None:
        """Refuse a method whose body has not run: calling it only makes something that would run it."""
        if inspect.iscoroutine(answer) or inspect.isasyncgen(answer) or inspect.isgenerator(answer):
            kind = "is a generator, with `yield` in it" if inspect.isgenerator(answer) else "is `async def`"
            if not inspect.isasyncgen(answer):
                answer.close()
            raise self._wrong(name, f"{name} {kind}, so nothing of it has run; it must be an ordinary function")

    def _wrong(self, where: str, problem: str, seat: int | None = None, *, code: str | None = None) -> RulesError:
        at = getattr(self._class, where, None)
        return RulesError(problem, where=where, tick=self.tick, seat=seat, code=code, at=at)

    def _look(self) -> None:
        if self._options:
            self._options = {}
            if self._legal:
                self._legal = {}
        self._frame = None
        if self._drawings:
            self._drawings = {}
        try:
            named: Any = self._rules.to_act()
        except Exception as error:
            raise RulesError.raised(error, where="to_act", tick=self.tick) from error
        turn: tuple[int, ...] | None = None
        if type(named) in _PLAIN_SEQUENCES:  # pyright: ignore[reportUnknownArgumentType]
            # The same few combinations recur, so each is checked once.
            try:
                turn = self._turns.get(named[0] if len(named) == 1 else tuple(named))
            except TypeError:
                turn = None
        if turn is None:
            turn = self._turns[tuple(named)] = self._turn(named, "to_act")
        self.to_act = turn
        if self.phased and turn:
            pace = self._ask("pace")
            if not isinstance(pace, Turns | Ticks):
                raise self._wrong("pace", f"it must return Turns(…) or Ticks(…), not {pace!r}")
            self._take_pace(pace)
        if self.tick >= self._most_ticks and turn:
            problem = f"the game is not over after {self.tick} ticks (max_ticks)"
            raise RulesError(problem, where="to_act", tick=self.tick, code="rules_endless")

    def _take_pace(self, pace: Pace) -> None:
        self.pace = pace
        self._holds = isinstance(pace, Ticks) and pace.hold
        if not self._holds:
            self._held = {}

    def _turn(self, named: Any, where: str) -> tuple[int, ...]:
        """Check the seats that a method of the rules returned."""
        several = isinstance(named, Sequence | set | frozenset) and not isinstance(named, str)
        try:
            seats = to_plain(list(cast("Iterable[Any]", named)) if several else named)
        except (ValueError, TypeError, RecursionError):
            seats = None
        if not isinstance(seats, list):
            raise self._wrong(where, f"it must return seats, not {named!r}")
        known: set[int] = set()
        for seat in cast("list[Any]", seats):
            if not isinstance(seat, int) or not 0 <= seat < self.seats:
                raise self._wrong(where, f"there is no seat {seat!r}; there are {self.seats}")
            if seat in known and where == "to_act":
                raise self._wrong(where, f"seat {seat} is named twice")
            known.add(seat)
        return tuple(sorted(known))

    def _known(self, seat: int) -> dict[str, Any] | None:
        if seat not in self._legal:
            options = self.options(seat)
            known = None if options is None else {self._text_of(seat, action): action for action in options}
            if self._names and len(known or ()) != len(options or ()):
                raise self._wrong("name_action", "two legal actions have the same name", seat)
            self._legal[seat] = known
        return self._legal[seat]

    def _text_of(self, seat: int, action: Any) -> str:
        return self._json("legal", self._ask("name_action", seat, action) if self._names else action, seat)

    def _json(self, where: str, value: object, seat: int | None = None) -> str:
        try:
            return to_json(value)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._wrong(where, f"not a JSON value: {error}", seat) from error


def public_value(rules: Rules, name: str) -> Any:
    """What `Rules.public` names: an attribute of the state, or what a method such as `scores` returns."""
    value = getattr(rules, name)
    return value() if callable(value) else value


_PLAIN_SEQUENCES: Final = frozenset({list, tuple, range})


@cache
def _common_turns(seats: int) -> dict[int | tuple[int, ...], tuple[int, ...]]:
    """Whose turn it may be: nobody's, or that of one seat."""
    return {(): (), **{seat: (seat,) for seat in range(seats)}}


def _example(sent: str, known: Mapping[str, Any] | None) -> str:
    """What was sent instead of an action, and the first legal one, for the reason why it was refused."""
    legal = f"; legal is for example {_shortened(next(iter(known)))}" if known else ""
    return f" (sent was {_shortened(sent)}{legal})"


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"
