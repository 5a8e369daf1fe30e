"""Checks that rules keep what `Rules` promises: the same game from the same seed and actions, and valid answers."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
import time
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, Unpack, cast
from xml.etree import ElementTree

from pydantic import ValidationError

from ..errors import first_mistake
from ..issues import Issue, Report, Severity
from .forbidden_calls import FORBIDDEN, watched
from .game import Rules, RulesConfig, fixed_pace, is_picture
from .hidden_state import leaks
from .pace import Ticks
from .plain_values import adapter, to_json
from .play import Play
from .rules_errors import ActionRefused, RulesError
from .spectator_views import Delayed

__all__ = ["AUDIT_CODES", "AuditArguments", "audit_rules", "game_transcript", "transcript_difference"]

AUDIT_CODES: Final = {
    "rules_failed": "the rules raise an exception or return something invalid",
    "rules_fail_on_missed_turns": "the rules fail if seats miss turns",
    "rules_score_outside": "a score is lower or higher than `score_range` says",
    "rules_endless": "the game is not over after its maximum number of ticks, or after the time for this check",
    "rules_not_deterministic": "the same seed and actions gave a different game",
    "rules_change_when_asked": "looking at the game changed it",
    "rules_change_actions": "the game changed an action after it was taken",
    "rules_ignore_seed": "the game uses randomness, but another seed changed nothing",
    "rules_legal_invalid": "an action that is legal is not of the type of actions",
    "rules_default_invalid": "the action of a seat that missed its turn is not of the type of actions, or not legal",
    "rules_picture_invalid": "a drawing cannot be shown, because it is not one well-formed `<svg>` element",
    "rules_leak_secret": "a seat sees what it must not see",
    "rules_secret_untried": "whether a seat sees what it must not see could not be tried",
    "rules_slow": "a method takes so long that everybody waits for it",
    **FORBIDDEN,
}
"""Codes of an audit's findings, with their meanings."""

SLOW: Final = 1.0
"""Seconds of processor time of one call that everybody notices, also where nothing else runs."""

MISSED: Final = 0.25
"""How often a seat misses its turn in the game in which seats do."""

_TO_THE_END: Final = 5
"""How many times as long as another game the one may take that must come to its end."""

_STATES: Final = 30
"""Number of states of each episode in which leaks are looked for."""

_STATED: Final = 4
"""Number of episodes with so many states."""

_DEALS: Final = 16
"""Number of episodes of which the start is looked at: it shows which other values a secret can have."""

_METHODS: Final = (
    *("start", "to_act", "legal", "observe", "step", "scores", "rewards", "eliminated", "team", "default", "draw"),
    *("text", "results"),
)

_MEND: Final = {
    "rules_fail_on_missed_turns": "The action of a seat that missed its turn is None in `step`: handle that, or return "
    "an action from `default`.",
    "rules_score_outside": "Widen `score_range`, or leave it out if scores have no limits.",
    "rules_endless": "Let `to_act` return no seats at some time, after a number of ticks at the latest; or set "
    "`max_ticks`, if games may be longer.",
    "rules_not_deterministic": "Use `self.rng` for all chance, and sort what comes from a set. Keep the state in the "
    "instance, set in `start`, not in the class or the module.",
    "rules_change_when_asked": "Change the state, and use `self.rng`, only in `start` and `step`.",
    "rules_change_actions": "Copy what is needed from an action: it is also written to the replay.",
    "rules_ignore_seed": "Use the random numbers for the state.",
    "rules_legal_invalid": "Return only actions that `Action` accepts, or widen its bounds.",
    "rules_default_invalid": "Return one of the legal actions, or None.",
    "rules_picture_invalid": "Return one complete `<svg>` element, with names and texts escaped as in XML.",
    "rules_leak_secret": "Leave it out of what others get. If it may be seen now, leave it out of `secret_attributes`; "
    "if spectators see it, set `spectators` to Hidden() or Delayed(ticks=…). "
    "The length of a list, set or dictionary may be seen, that of a text and whether there is a value may not.",
    "rules_secret_untried": "Let it differ between seeds, or compare two states in a test of your own, with "
    "coworld_core.rules.view_difference.",
    "rules_slow": "Compute it once and keep it, or do less.",
    "rules_read_clock": "Count ticks instead: a tick has the same length for everybody.",
    "rules_use_files": "Read files when the module is imported, not while a game is played.",
    "rules_use_sockets": "Rules have no network: put what they need beside them.",
    "rules_use_threads": "Do everything in the methods themselves: a thread goes on while others look.",
    "rules_use_global_random": "Use `self.rng`.",
    "rules_read_environment": "Make it a field of the config, or read it when the module is imported.",
    "rules_look_at_callers": "Let only the config, `self.rng` and the actions decide what happens.",
}
"""What to do about a finding, by code."""

_MEND_FAILED: Final = {
    "to_act": "Return a list of different seats, from 0 to `self.seats` - 1.",
    "scores": "Return one finite number for each seat.",
    "rewards": "Return a dictionary with a finite number for each seat that has gained something in the last tick.",
    "team": "Return a list of seats, from 0 to `self.seats` - 1.",
    "observe": "Return what JSON can hold: texts, numbers, lists, objects, or pydantic models.",
    "step": "Correct the line that the traceback ends with; `step` must take any legal actions.",
    "legal": "Return at least one action for a seat that is to act, or None if the type alone says what is legal.",
}
"""The same for rules that fail, by method."""


class AuditArguments(TypedDict, total=False):
    """The games of an audit."""

    config: RulesConfig | None
    """Their config; by default one with default values only."""
    seats: int | None
    """Number of seats; by default the minimum."""
    seed: int
    """The seed of the compared game and of the actions, by default 1."""
    ticks: int
    """Maximum number of ticks of the games that are compared, by default 1000."""
    seconds: float
    """Maximum time for each of about ten games, by default 10 s; the one that must come to its end gets five times as
    much."""
    sample: Callable[[random.Random], Any] | None
    """Returns a random action as JSON, for games whose `legal` returns None; without it, their seats miss their
    turns."""


def audit_rules(rules: type[Rules], **games: Unpack[AuditArguments]) -> Report:
    """Play games of random legal actions several times, compare them, and check what the rules return.

    Whole games, or their first `ticks` ticks, are compared: twice with the same seed, once more observing only the
    end, and with other seeds if `rng` was used. During play, every use of a clock, a file, a socket, a thread, the
    environment or random numbers other than `rng` is an error, reported with its line. Two further games are played to
    their end, one of them with random missed turns. If the rules have `secret_attributes`, other secrets are put in
    their place, which must not change what other seats see.

    A library may open its own files, start its own threads and seed itself from the system, as long as the games are
    the same. The audit cannot see what C extensions do internally, nor an order that depends on string hashes, which
    differ only between processes; certification therefore compares two processes. A call that never returns is not
    interrupted. The order in which actions arrive needs no check, because `Play` passes them on in the order of seats.

    Args:
        rules: The game.
        games: The games that are played, as described in `AuditArguments`.

    Returns:
        The findings, with codes from `AUDIT_CODES`; `line` is the line in the file named in the message, `hint` what to
        do. The message says what leads there: the seed, and the actions of each tick.
    """
    audit = _Audit(rules, **games)
    with watched(audit.note_call):
        same = audit.guarded(audit.compare)
    if same:
        if audit.guarded(audit.play_out):
            audit.guarded(audit.play_out, missing=True)
        audit.guarded(audit.search_leaks)
    audit.forget_games()
    return Report(source=rules.__name__, issues=tuple(audit.found.values()))


def game_transcript(rules: type[Rules], **games: Unpack[AuditArguments]) -> list[dict[str, Any]]:
    """Play a game of random actions and missed turns, to compare it with the same game in another process.

    Args:
        rules: The game.
        games: As for `audit_rules`. A slow game is played as far as it has come within `seconds`.

    Returns:
        What is seen at each tick, as JSON: what `transcript_difference` compares.

    Raises:
        RulesError: The rules fail.
    """
    audit = _Audit(rules, **games)
    return json.loads(to_json(audit.transcript().seen))


def transcript_difference(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> str | None:
    """Describe the first difference of two transcripts, as far as both go; None if there is none."""
    found = _Script(0, seen=list(one)).difference(_Script(0, seen=list(other)))
    return None if found is None else found[1]


@dataclass
class _Script:
    """The actions of a game and everything seen in it."""

    seed: int
    actions: list[dict[int, Any]] = field(default_factory=list[dict[int, Any]])
    seen: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    chance: bool = False
    begin: int = 0
    """The tick of the first view."""

    def last(self) -> _Script:
        """A script with only the last view."""
        return _Script(self.seed, actions=self.actions, seen=self.seen[-1:], begin=self.begin + len(self.seen) - 1)

    def difference(self, other: _Script) -> tuple[int, str] | None:
        """The tick of the first difference, and its description; None if there is none."""
        for tick, (ours, theirs) in enumerate(zip(self.seen, other.seen, strict=False), self.begin):
            for what, value in ours.items():
                if value != theirs.get(what):
                    return tick, f"at tick {tick}, {what} was {value!r} and then {theirs.get(what)!r}"
        return None

    def way(self, tick: int) -> str:
        """What leads to a tick, in words: the seed, and the last actions."""
        told = to_json(self.actions[:tick])
        if len(told) > _LONGEST_WAY:
            told = f"… {told[1 - _LONGEST_WAY :]}"
        return f"seed {self.seed}" + (f", actions {told}" if tick else "")


_LONGEST_WAY: Final = 300
"""Maximum number of characters of the actions that lead to a finding."""


class _Audit:
    """One audit: plays the games, and keeps one finding for each code and place."""

    def __init__(
        self,
        rules: type[Rules],
        *,
        config: RulesConfig | None = None,
        seats: int | None = None,
        seed: int = 1,
        ticks: int = 1000,
        seconds: float = 10.0,
        sample: Callable[[random.Random], Any] | None = None,
    ) -> None:
        self.found: dict[tuple[str, str], Issue] = {}
        self._rules = rules
        self._observed = _observed(rules, self)
        self._config, self._seats, self._seed = config, seats, seed
        self._ticks, self._seconds, self._sample = ticks, seconds, sample
        self._script = _Script(seed)
        self._play: Play | None = None
        self._valid: set[str] = set()
        self._taken: list[tuple[int, Any, str]] = []
        self._checking = True
        """Whether answers are checked; once is enough in games that are the same."""
        self._timing = False

    # Findings

    def note_call(self, code: str, called: str, path: str, line: int) -> None:
        """Add a finding about a call that rules must not make."""
        self._add(code, f"{path}:{line}", f"{path}:{line} calls {called}: {FORBIDDEN[code]}.", line)

    def note(self, code: str, method: str, what: str, *, severity: Severity = "error", tick: int | None = None) -> None:
        """Add a finding about a method, with what leads there."""
        path, line = _place(getattr(self._rules, method))
        tick = (self._play.tick if self._play else 0) if tick is None else tick
        where = f"{path}:{line} {method}, tick {tick}: " if path else f"{method}, tick {tick}: "
        message = f"{where}{what} ({self._script.way(tick + 1)})."
        self._add(code, method, message, line, severity=severity)

    def _add(
        self,
        code: str,
        place: str,
        message: str,
        line: int | None,
        *,
        hint: str | None = None,
        severity: Severity = "error",
    ) -> None:
        hint = hint or _MEND.get(code)
        issue = Issue(code=code, severity=severity, message=message, line=line, hint=hint)
        self.found.setdefault((code, place), issue)

    def guarded(self, play: Callable[..., bool], **options: Any) -> bool:
        """Play, and add a finding if the rules fail; returns whether it makes sense to go on."""
        try:
            return play(**options)
        except RulesError as error:
            missed = any(None in actions.values() for actions in self._script.actions)
            code = "rules_fail_on_missed_turns" if missed and error.code == "rules_failed" else error.code
            lines = "".join(f"\n{line}" for line in error.lines)
            placed = re.search(r"line (\d+)", error.lines[-1]) if error.lines else None
            line = int(placed[1]) if placed else _place(getattr(self._rules, error.where, None))[1]
            message = f"{error.message} ({self._script.way(error.tick + 1)}).{lines}"
            hint = _MEND.get(code) or _MEND_FAILED.get(error.where, f"See what `Rules.{error.where}` must do.")
            # Nobody may have acted, because it is not known how.
            idle = code == "rules_endless" and not any(self._script.actions)
            self._add(code, error.where, message, line, hint=hint, severity="warning" if idle else "error")
            return False

    # The games

    def compare(self) -> bool:
        """Play the same game again and again."""
        first = self._run(self._seed)
        self._checking = False
        # A slow game is compared as far as it has come.
        self._ticks = min(self._ticks, len(first.actions))
        if found := first.difference(self._run(self._seed, first)):
            self._differs("rules_not_deterministic", "the same seed and actions", first, found)
        elif found := first.last().difference(self._run(self._seed, first, looking=False)):
            self._differs("rules_change_when_asked", "looking only at the end", first, found)
        else:
            if first.chance and not any(first.difference(self._run(self._seed + n)) for n in range(1, 6)):
                message = "The game uses randomness, but five other seeds gave the same game."
                # Chance may matter to other actions than these
                self._add("rules_ignore_seed", "", message, None, severity="warning")
            return True
        return False

    def _differs(self, code: str, why: str, first: _Script, found: tuple[int, str]) -> None:
        tick, difference = found
        self._add(code, "", f"{why.capitalize()}: {difference} ({first.way(tick)}).", None)

    def transcript(self) -> _Script:
        """Play one game with missed turns, without checking anything."""
        self._checking = False
        return self._run(self._seed, missing=True)

    def _run(self, seed: int, script: _Script | None = None, *, looking: bool = True, missing: bool = False) -> _Script:
        """Play the actions of a script, or random ones, and keep all views, or only the last one."""
        done = self._begin(seed)
        play, choose, until = self._started(seed), random.Random(self._seed), time.monotonic() + self._seconds
        while True:
            end = play.over or play.tick >= self._ticks or (script is None and time.monotonic() > until)
            if looking or end:
                done.seen.append(self._view(play))
            if end:
                break
            actions = self._actions(play, choose, missing=missing) if script is None else script.actions[play.tick]
            done.actions.append(actions)
            try:
                play.step(_read(play, actions))
            except ActionRefused:
                # The legal actions show that this is a different game.
                break
            self._check_taken()
        self._taken = []
        done.chance = play.chance_used
        return done

    def play_out(self, *, missing: bool = False) -> bool:
        """Play a game to its end, without comparing it, perhaps with missed turns."""
        self._timing = True
        done = self._begin(self._seed)
        play, choose = self._started(self._seed), random.Random(self._seed)
        seconds = self._seconds if missing else self._seconds * _TO_THE_END
        until, spent = time.monotonic() + seconds, 0.0
        while not play.over:
            if time.monotonic() > until:
                problem = f"the game is not over after {seconds:g} s; whether it ever ends is not known"
                self.note("rules_endless", "to_act", problem, severity="warning")
                return True
            actions = self._actions(play, choose, missing=missing, whole=True)
            done.actions.append(actions)
            begun = time.thread_time()
            play.step(actions)
            if play.tick <= self._ticks:
                play.frame()
                spent += time.thread_time() - begun
                self._check_pace(play.tick, spent)
        play.results()
        return True

    def forget_games(self) -> None:
        """Keep only the findings: something may know the observed class for good, which knows the audit."""
        self._begin(self._seed)
        self._valid.clear()

    def _begin(self, seed: int) -> _Script:
        self._play, self._script, self._taken = None, _Script(seed), []
        return self._script

    def _started(self, seed: int) -> Play:
        self._play = Play(self._observed, config=self._config, seats=self._seats, seed=seed)
        return self._play

    def _actions(
        self, play: Play, choose: random.Random, *, missing: bool = False, whole: bool = False
    ) -> dict[int, Any]:
        """The actions of a tick as JSON, or as the rules get them; None for a seat that misses its turn."""
        actions: dict[int, Any] = {}
        for seat in play.to_act:
            legal = play.options(seat)
            if missing and choose.random() < MISSED:
                actions[seat] = None
            elif legal is not None:
                action = choose.choice(legal)
                actions[seat] = action if whole else play.named(seat, action)
            elif self._sample is not None:
                action = self._sample(choose)
                # A sample knows the type, but perhaps not all that it demands: the seat then misses its turn.
                with suppress(ActionRefused):
                    read = play.read(seat, action)
                    actions[seat] = read if whole else action
        return actions

    # What is looked at

    def _view(self, play: Play) -> dict[str, object]:
        frame, revealed = play.frame(), play.revealed()
        self._check_picture(frame.drawing)
        self._check_picture(revealed)
        view: dict[str, object] = {"who is to act": frame.to_act, "the drawing": frame.drawing}
        view |= {"what is public": frame.public, "the drawing for all": revealed}
        if frame.rewards is not None:
            view["the rewards"] = frame.rewards
        if frame.pace is not None:
            view["the pace"] = frame.pace
        for seat in range(play.seats):
            legal = play.legal(seat)
            for action in (legal or ()) if self._checking else ():
                self._check_action("rules_legal_invalid", "legal", seat, action)
            if play.talk is not None:
                view[f"the team of seat {seat}"] = play.team(seat)
            view[f"the observation of seat {seat}"] = play.observe(seat)
            view[f"what is legal for seat {seat}"] = legal
            view[f"the drawing for seat {seat}"] = drawing = play.drawing(seat)
            self._check_picture(drawing)
            view[f"the text for seat {seat}"] = play.text(seat)
        if play.over:
            view["the results"] = to_json(play.results())
        return view

    def _check_action(self, code: str, method: str, seat: int, text: str) -> bool:
        """Whether an action is of the type of actions."""
        if text in self._valid:
            return True
        try:
            adapter(self._rules.Action).validate_json(text, strict=True)
        except ValidationError as error:
            problem = ": ".join(part for part in first_mistake(error) if part)
            self.note(code, method, f"seat {seat} has {text}, which is no action: {problem}")
            return False
        except Exception as error:
            tick = self._play.tick if self._play else 0
            raise RulesError.raised(error, where="Action", tick=tick, seat=seat) from error
        self._valid.add(text)
        return True

    def _check_picture(self, drawing: str) -> None:
        if not self._checking or drawing in self._valid:
            return
        if is_picture(drawing):
            try:
                ElementTree.fromstring(drawing.strip())  # noqa: S314 - it is the author's own
            except ElementTree.ParseError as error:
                line = drawing.strip().splitlines()[error.position[0] - 1 :][:1]
                near = repr("".join(line)[max(error.position[1] - 30, 0) : error.position[1] + 30])
                self.note("rules_picture_invalid", "draw", f"the picture is not well-formed: {error}, near {near}")
        elif "<svg" in drawing:
            self.note("rules_picture_invalid", "draw", "the picture does not begin with `<svg`, so it is shown as text")
        self._valid.add(drawing)

    def took_actions(self, actions: Mapping[int, Any]) -> None:
        """Note the actions of a tick, to see whether they change."""
        if self._checking:
            tick = self._play.tick if self._play else 0
            self._taken.append((tick, actions, to_json(actions)))

    def _check_taken(self) -> None:
        """Compare the actions of the last ticks with what they were."""
        for tick, actions, before in self._taken:
            if (after := to_json(actions)) != before:
                problem = f"it changes its actions: {before} became {after}"
                self.note("rules_change_actions", "step", problem, tick=tick)
        del self._taken[:-_KEPT]

    def check_default(self, seat: int, action: Any) -> None:
        """Check what a seat does that has missed its turn."""
        if action is None or self._play is None:
            return
        text = to_json(self._play.named(seat, action))
        if self._check_action("rules_default_invalid", "default", seat, text):
            legal = self._play.legal(seat)
            if legal is not None and text not in legal:
                self.note("rules_default_invalid", "default", f"{text} is not legal for seat {seat} now")

    # How long it takes

    def took(self, method: str, seconds: float) -> None:
        """Note how long a call took."""
        if self._timing and method != "start" and seconds > SLOW:
            self.note("rules_slow", method, f"one call took {seconds:.1f} s of processor time", severity="warning")

    def _check_pace(self, ticks: int, spent: float) -> None:
        pace = fixed_pace(self._rules)
        if isinstance(pace, Ticks) and ticks == min(self._ticks, _PACED) and spent > ticks / pace.hz:
            problem = f"a tick takes {spent / ticks:.3f} s, but {pace.hz:g} ticks a second leave {1 / pace.hz:.3f} s"
            self.note("rules_slow", "step", problem, severity="warning")

    # Secrets

    def search_leaks(self) -> bool:
        """Look for secrets in what others see."""
        if self._rules.secret_attributes is Rules.secret_attributes:
            return True
        moments: list[tuple[Rules, Rules | None]] = []
        begun = time.monotonic()
        delay = self._rules.spectators.ticks if isinstance(self._rules.spectators, Delayed) else 0
        try:
            for number in range(_DEALS):
                self._begin(seed := self._seed + number)
                play, choose, states = self._started(seed), random.Random(seed), dict[int, Rules]()
                end = min(self._ticks, delay + _STATES) if number < _STATED else 1
                while not play.over and play.tick < end:
                    if not _STATES <= play.tick < delay:
                        states[play.tick] = copy.deepcopy(play.rules)
                    if time.monotonic() - begun > self._seconds / 2:
                        break
                    actions = self._actions(play, choose)
                    self._script.actions.append(actions)
                    play.step(_read(play, actions))
                moments += [(states[at], states.get(at + delay) if delay else None) for at in states if at < _STATES]
            path, line = _place(self._rules.secret_attributes)
            for code, name, problem in leaks(moments, late=lambda: time.monotonic() - begun > self._seconds):
                message = f"{path}:{line}: {problem} (seed {self._seed})."
                severity = "warning" if code == "rules_secret_untried" else "error"
                self._add(code, f"{name} {len(self.found)}", message, line, severity=severity)
        except RulesError:
            raise
        except Exception as error:
            raise RulesError.raised(error, where="secret_attributes", tick=0) from error
        return True


_KEPT: Final = 1
"""Number of ticks after which an action is no longer compared with what it was."""

_PACED: Final = 50
"""Number of ticks whose time is compared with the pace."""


def _observed(rules: type[Rules], audit: _Audit) -> type[Rules]:
    """The rules, each call of which is told to an audit."""

    def observed(name: str) -> Any:
        method = getattr(rules, name)

        @functools.wraps(method)
        def call(self: Rules, *values: Any) -> Any:
            if name == "step":
                audit.took_actions(values[0])
            begun = time.thread_time()
            answer = getattr(super(made, self), name)(*values)  # pyright: ignore[reportUnknownArgumentType]
            audit.took(name, time.thread_time() - begun)
            if name == "default":
                audit.check_default(values[0], answer)
            return answer

        return call

    own = [name for name in _METHODS if getattr(rules, name) is not getattr(Rules, name)]
    body = {"__module__": rules.__module__, "__qualname__": rules.__qualname__, "__doc__": rules.__doc__}
    made = types.new_class(rules.__name__, (rules,), exec_body=lambda space: space.update(body))
    for name in own:
        setattr(made, name, observed(name))
    return cast("type[Rules]", made)


def _read(play: Play, actions: Mapping[int, Any]) -> dict[int, Any]:
    """Actions as the rules get them."""
    return {seat: None if action is None else play.read(seat, action) for seat, action in actions.items()}


def _place(method: Any) -> tuple[str, int | None]:
    """The file and first line of a method; empty if it has none."""
    code = cast("types.CodeType | None", getattr(method, "__code__", None))
    return (code.co_filename, code.co_firstlineno) if code is not None else ("", None)
