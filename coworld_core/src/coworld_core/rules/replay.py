"""Replays of rules: a header, and the actions and view of each tick, enough to show the game or play it again.

A replay consists of lines of JSON, compressed with gzip: the header, a line for each tick, and the end, which says why
the game ended. The replay of a game that failed has everything up to the failure.
"""

from __future__ import annotations

import hashlib
import json
import operator
import sys
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import first_mistake
from ..files.compression import unpack
from ..files.regular import read_regular
from ..text.tables import TableRow, Tabular, html_table
from .game import Rules, draws_seats
from .plain_values import to_json
from .play import Frame, Play
from .rules_errors import ActionRefused, ReplayFormatError, RulesError
from .seat_rewards import gives_rewards

if TYPE_CHECKING:
    from .pace import Pace
    from .rules_schemas import EpisodeConfig

__all__ = [
    "FORMAT",
    "ReplayDiffers",
    "ReplayHeader",
    "ReplayTick",
    "ReplayWriter",
    "RulesReplay",
    "Trajectory",
    "TrajectoryStep",
    "play_again",
    "read_replay",
    "recorded_actions",
    "source_digest",
    "trajectory",
]

FORMAT: Final = "coworld.replay/1"
"""Name of the format in the header."""

MAX_REPLAY: Final = 256 * 1024 * 1024
"""Maximum size in bytes of an unpacked replay."""

MAX_TICKS: Final = 1_000_000
"""Maximum number of ticks of a replay: each takes some hundred bytes of memory at least."""


class ReplayHeader(BaseModel):
    """What was played. It never contains tokens."""

    model_config = ConfigDict(frozen=True, extra="allow")

    format: str = FORMAT
    rules: str = Field(description="The class name of the rules.")
    version: str = Field(description="The version of the rules.")
    config: dict[str, Any] = Field(description="The rules' own config.")
    seed: int = Field(description="The seed of all randomness.")
    new_chance: dict[int, int] = Field(
        default_factory=dict[int, int],
        exclude_if=operator.not_,
        description="Ticks from which random numbers follow from another seed, and that seed; left out if none.",
    )
    seats: int = Field(ge=1)
    names: list[str] = Field(description="The name of each seat.")
    draws_seats: bool = Field(default=False, description="Whether the game draws what each seat sees.")
    pace: dict[str, Any] | None = Field(default=None, description="How the game advanced, as players were told it.")
    source_sha256: str = Field(
        default="", description="Digest of the file that defines the rules; empty: not known, as in older replays."
    )


def replay_header(
    rules: type[Rules],
    config: EpisodeConfig,
    seed: int,
    pace: Pace,
    new_chance: Mapping[int, int] | None = None,
) -> ReplayHeader:
    """Return the header of the replay of an episode with a config, which names its seats, and its pace at the start."""
    return ReplayHeader(
        rules=rules.__name__,
        version=rules.version,
        config=config.public(),
        seed=seed,
        new_chance=dict(new_chance or {}),
        seats=config.seats,
        names=list(config.names),
        draws_seats=draws_seats(rules),
        pace=pace.describe(),
        source_sha256=source_digest(rules),
    )


@cache
def source_digest(rules: type[Rules]) -> str:
    """Return the SHA-256 of the file that defines rules, in hex; empty if there is no file to read."""
    file = getattr(sys.modules.get(rules.__module__), "__file__", None)
    with suppress(OSError):
        return hashlib.sha256(read_regular(file)).hexdigest() if file else ""
    return ""


class ReplayMessage(BaseModel):
    """What a seat said to others."""

    model_config = ConfigDict(frozen=True, extra="allow")

    seat: int = Field(ge=0)
    text: str
    to: str | int = Field(description="Whom it was said to: all, team, or a seat.")


class ReplayTick(BaseModel):
    """One tick; tick 0 is the start of the game."""

    model_config = ConfigDict(frozen=True, extra="allow")

    tick: int = Field(ge=0)
    actions: dict[int, Any] = Field(
        description="The actions that led here: one for each seat that was to act, or null."
    )
    to_act: list[int] = Field(description="The seats whose action was awaited.")
    drawing: str = Field(default="", description="The board as spectators see it.")
    drawings: dict[int, str] = Field(
        default_factory=dict[int, str],
        description="The board as seats saw it, for those that were drawn: a seat is drawn while a page shows it.",
    )
    by: dict[int, str] = Field(
        default_factory=dict[int, str],
        description="Who decided for each seat, if its player said so: human (a person on a page), llm or recording.",
    )
    scores: list[float] | None = Field(default=None, description="The score of each seat, in games with live scores.")
    eliminated: list[int] = Field(default_factory=list[int], description="The seats that are out of the game.")
    rewards: list[float | None] | None = Field(
        default=None, description="What each seat has gained in this tick, or null, in games that give rewards."
    )
    pace: dict[str, Any] | None = Field(
        default=None, description="How the game advances from here, in games in which that depends on the phase."
    )
    said: list[ReplayMessage] = Field(
        default_factory=list["ReplayMessage"],
        description="What seats said to each other before this tick, in games with talk; heard at this tick.",
    )


class RulesReplay(BaseModel):
    """A parsed replay."""

    model_config = ConfigDict(frozen=True)

    header: ReplayHeader
    ticks: list[ReplayTick] = Field(
        description="The start of the game, which is tick 0, and each tick played: one more than the results count."
    )
    results: dict[str, Any] | None = None
    reason: str | None = Field(default=None, description="Why the game ended; None if the replay is cut short.")


@dataclass(frozen=True, kw_only=True)
class TrajectoryStep:
    """One seat at one tick.

    Attributes:
        tick: Number of ticks played so far.
        seat: The seat.
        name: Its name.
        acts: Whether it was to act.
        observation: What it saw, as JSON.
        legal: Its legal actions; None if the type alone defines them.
        action: What it did; None if it missed its turn or was not to act.
        by: Who decided, if the player said so: `human` for a person on a page, `llm` or `recording`; else None. It may
            change from tick to tick, because a person may take over a seat and hand it back.
        score: Its score after that tick; set only at the last tick, unless the rules have `live_scores`.
        reward: What it has gained in that tick: the reward of the rules or, if they give none, the change of its score
            as far as scores are known; None: nothing.
        heard: What it heard with that observation: dictionaries with `tick`, `seat`, `text` and `to`.
        said: What it said then, likewise.
    """

    tick: int
    seat: int
    name: str
    acts: bool
    observation: Any
    legal: list[Any] | None
    action: Any
    by: str | None = None
    score: float | None = None
    reward: float | None = None
    heard: tuple[dict[str, Any], ...] = ()
    said: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Trajectory(Tabular):
    """What every seat saw and did, tick by tick; in a table, observations and actions are JSON text."""

    steps: tuple[TrajectoryStep, ...] = field(repr=False)

    def to_records(self) -> list[TableRow]:
        """One row per tick and seat, with the columns of `TrajectoryStep`."""
        return [
            {
                "tick": step.tick,
                "seat": step.seat,
                "name": step.name,
                "acts": step.acts,
                "observation": to_json(step.observation),
                "legal": None if step.legal is None else to_json(step.legal),
                "action": None if step.action is None else to_json(step.action),
                "by": step.by,
                "score": step.score,
                "reward": step.reward,
                "heard": to_json(step.heard) if step.heard else None,
                "said": to_json(step.said) if step.said else None,
            }
            for step in self.steps
        ]

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.steps)} rows", self.to_records())


class ReplayWriter:
    """Writes a replay piece by piece and keeps it compressed, so that a long game takes little memory.

    Args:
        header: The header of the replay.
    """

    def __init__(self, header: ReplayHeader) -> None:
        self._packer = zlib.compressobj(wbits=31)
        self._packed = bytearray()
        self._add(header.model_dump(mode="json"))

    def add(
        self,
        frame: Frame,
        actions: Mapping[int, Any] | None = None,
        *,
        by: Mapping[int, str] | None = None,
        drawings: Mapping[int, str] | None = None,
    ) -> None:
        """Add a tick.

        Args:
            frame: The spectators' view.
            actions: The actions that led to it, by seat.
            by: Who decided them, by seat, where that is known.
            drawings: What seats saw, for those that were drawn.
        """
        line: dict[str, Any] = {"tick": frame.tick, "to_act": frame.to_act, "drawing": frame.drawing}
        line["actions"] = {str(seat): action for seat, action in (actions or {}).items()}
        for name, texts in (("by", by), ("drawings", drawings)):
            if said := {str(seat): text for seat, text in (texts or {}).items() if text}:
                line[name] = said
        line |= frame.standing()
        if frame.pace is not None:
            line["pace"] = frame.pace.describe()
        if frame.rewards is not None:
            line["rewards"] = frame.rewards
        if frame.messages:
            line["said"] = [{"seat": one.seat, "text": one.text, "to": one.to} for one in frame.messages]
        self._add(line)

    def finish(self, *, reason: str, results: Mapping[str, Any] | None = None) -> bytes:
        """Add the end and return the whole replay; nothing can be added afterwards."""
        self._add({"reason": reason, "results": results})
        return bytes(self._packed + self._packer.flush())

    def _add(self, line: object) -> None:
        self._packed += self._packer.compress(f"{to_json(line)}\n".encode())


class ReplayDiffers(RulesError):
    """A replay does not play again as it was recorded.

    Args:
        tick: The first tick that differs.
        what: What differs.
        recorded: What was recorded.
        now: What came out.
        seat: The seat that it is about, if it is about one.
    """

    def __init__(self, tick: int, what: str, recorded: str, now: str, *, seat: int | None = None) -> None:
        super().__init__(f"{what} was {recorded}, and is now {now}", where="play_again", tick=tick, seat=seat)
        self.what = what
        self.recorded = recorded
        self.now = now


def read_replay(data: bytes, *, source: str = "replay", limit: int = MAX_REPLAY) -> RulesReplay:
    """Read a replay, compressed with gzip or zlib or not at all, complete or cut short.

    Raises:
        ReplayFormatError: Code `replay_invalid` if it is not a replay, or a code of `Unpacker` if it is damaged or
            unpacks to more than `limit` bytes.
    """
    lines = unpack(data, limit=limit, what="replay", source=source, error=ReplayFormatError).split(b"\n")
    texts = [line for line in lines if line]
    if not texts:
        raise _invalid(source, "it has no line")
    if len(texts) > MAX_TICKS:
        raise _invalid(source, f"it has more than {MAX_TICKS} lines")
    try:
        header = ReplayHeader.model_validate_json(texts[0])
        if not header.format.startswith("coworld.replay/"):
            raise _invalid(source, f"its format is {header.format!r}", line=1)
        ticks: list[ReplayTick] = []
        end: dict[str, Any] = {}
        for number, text in enumerate(texts[1:], start=2):
            if end:
                raise _invalid(source, "a line that is not a tick", line=number)
            # Most lines are ticks, and need not be read twice
            line: Any = json.loads(text) if b'"reason"' in text else None
            if isinstance(line, dict) and "reason" in line:
                end = {key: line.get(key) for key in ("reason", "results")}
            else:
                ticks.append(ReplayTick.model_validate_json(text))
        return RulesReplay(header=header, ticks=ticks, **end)
    except ValidationError as error:
        raise _invalid(source, ": ".join(first_mistake(error))) from None
    except (ValueError, RecursionError) as error:
        raise _invalid(source, f"a line is not JSON: {error}") from None


def play_again(rules: type[Rules], replay: RulesReplay, *, until: int | None = None, exactly: bool = False) -> Play:
    """Play the actions of a replay again with the same rules, and compare the views.

    Args:
        rules: The game.
        replay: The replay.
        until: The tick to stop at; None: its end.
        exactly: Whether the replay has to have every field that one of this version has, and each action as it is
            recorded now.

    Returns:
        The play, as far as the replay goes.

    Raises:
        RulesError: If the rules fail, or the game differs from the replay; the message has the tick and both values.
        ReplayFormatError: Code `replay_of_others` if it belongs to other rules, or to another version of these.
    """
    play = started_play(rules, replay)
    for _ in ticks_again(play, replay, exactly=exactly):
        if play.tick == until:
            break
    return play


def trajectory(rules: type[Rules], replay: RulesReplay) -> Trajectory:
    """What every seat saw and did in a replay, for training and data frames. The game is played again to get it.

    Raises:
        RulesError: As for `play_again`.
        ReplayFormatError: As for `play_again`.
    """
    play = started_play(rules, replay)
    steps: list[TrajectoryStep] = []
    told: list[TrajectoryStep] = []
    rewarded, before = gives_rewards(rules), play.scores_now()
    for seen in chain(ticks_again(play, replay), (None,)):
        # Actions are known before the tick, scores after it.
        scores = play.scores_now()
        gained: Sequence[float | None] | None = play.rewards()
        if scores and not rewarded:
            gained = scores if before is None else [now - then for now, then in zip(scores, before, strict=True)]
        steps += [
            replace(
                step,
                score=scores[step.seat] if scores else None,
                reward=gained[step.seat] if gained else None,
            )
            for step in told
        ]
        before = scores
        if seen is not None:
            told = [_step(play, seat, name, seen) for seat, name in enumerate(replay.header.names)]
    return Trajectory(steps=tuple(steps))


def _step(play: Play, seat: int, name: str, seen: ReplayTick) -> TrajectoryStep:
    return TrajectoryStep(
        tick=play.tick,
        seat=seat,
        name=name,
        acts=seat in play.to_act,
        observation=play.observation(seat),
        legal=play.choices(seat),
        action=seen.actions.get(seat),
        by=seen.by.get(seat),
        heard=() if play.talk is None else tuple(play.talk.take(seat)),
        said=tuple(
            {"tick": play.tick, "seat": seat, "text": one.text, "to": one.to} for one in seen.said if one.seat == seat
        ),
    )


def started_play(rules: type[Rules], replay: RulesReplay) -> Play:
    """Start the game of a replay; raises `ReplayFormatError` if it is not of these rules."""
    header = replay.header
    if (header.rules, header.version) != (rules.__name__, rules.version):
        raise ReplayFormatError(
            f"The replay is of {header.rules} {header.version}, not of {rules.__name__} {rules.version}.",
            code="replay_of_others",
        )
    config = rules.Config.model_validate_json(json.dumps(header.config))
    try:
        return Play(
            rules,
            config=config,
            seats=header.seats,
            seed=header.seed,
            names=header.names,
            new_chance=header.new_chance,
        )
    except ValueError as error:
        raise ReplayFormatError(f"The replay is of another game: {error}.", code="replay_of_others") from None


def ticks_again(play: Play, replay: RulesReplay, *, exactly: bool = False) -> Generator[ReplayTick]:
    """Play tick by tick, yielding each tick before its actions are played."""
    for number, seen in enumerate(replay.ticks):
        if number:
            yield seen
            done = play.step(recorded_actions(play, seen))
            if exactly:
                compare(seen.tick, "what was done", seen.actions, done)
        frame = play.frame()
        views: list[tuple[str, object, object]] = [
            ("tick", seen.tick, frame.tick),
            ("to_act", tuple(seen.to_act), frame.to_act),
            ("drawing", seen.drawing, frame.drawing),
        ]
        # Replays of earlier versions do not have all fields.
        if exactly or seen.scores is not None:
            views.append(("scores", None if seen.scores is None else tuple(seen.scores), frame.scores))
        if exactly or seen.eliminated:
            views.append(("eliminated", tuple(seen.eliminated), frame.eliminated))
        if exactly or seen.rewards is not None:
            views.append(("rewards", None if seen.rewards is None else tuple(seen.rewards), frame.rewards))
        if exactly or seen.pace is not None:
            views.append(("pace", seen.pace, frame.pace and frame.pace.describe()))
        for what, then, now in views:
            if then != now:
                compare(seen.tick, what, then, now)
        for seat, drawing in seen.drawings.items():
            compare(seen.tick, "the drawing", drawing, play.drawing(seat), seat=seat)


def recorded_actions(play: Play, seen: ReplayTick) -> dict[int, Any]:
    """Say again what was said before a tick of a replay, and return the actions that led to it, for `Play.step`.

    Raises:
        ReplayDiffers: Something of it is not allowed now.
    """
    _say_again(play, seen)
    # Replays do not distinguish defaults from chosen actions; both are legal
    return {seat: _read_again(play, seen, seat) for seat in seen.actions}


def _read_again(play: Play, seen: ReplayTick, seat: int) -> Any:
    action = seen.actions[seat]
    try:
        return None if action is None else play.read(seat, action)
    except ActionRefused as error:
        raise ReplayDiffers(seen.tick, "an action", to_json(action), f"refused: {error.message}", seat=seat) from None


def compare(tick: int, what: str, then: object, now: object, *, seat: int | None = None) -> None:
    """Compare a value with what was recorded.

    Raises:
        ReplayDiffers: It is another one.
    """
    if then != now:
        was, found = to_json(then), to_json(now)
        # Actions are compared as they are written, since rules have objects of their own
        if was != found:
            raise ReplayDiffers(tick, what, was, found, seat=seat)


def _say_again(play: Play, seen: ReplayTick) -> None:
    try:
        for one in seen.said:
            if play.talk is None:
                raise ActionRefused("the game has no talk")
            play.talk.say(one.seat, one.text, one.to, tick=play.tick)
    except ActionRefused as error:
        raise ReplayDiffers(seen.tick, "what was said", "allowed", f"refused: {error.message}") from None


def _invalid(source: str, problem: str, *, line: int | None = None, code: str = "replay_invalid") -> ReplayFormatError:
    place = "" if line is None else f" (line {line})"
    return ReplayFormatError(f"{source} is not a replay of rules: {problem}{place}.", code=code)
