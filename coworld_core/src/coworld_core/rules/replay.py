"""Replays of rules: a header, and the actions and view of each tick, enough to show the game and to play it again.

A replay is lines of JSON, packed with gzip: the header, a line for each tick, and the end, which says how it came. One
of a game that failed has all up to there.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..compression import Unpacker, detect_compression
from ..tables import TableRow, Tabular, html_table
from .errors import ReplayFormatError, RulesError
from .game import Rules
from .play import Frame, Play, to_json, to_plain

__all__ = [
    "FORMAT",
    "ReplayHeader",
    "ReplayTick",
    "ReplayWriter",
    "RulesReplay",
    "Trajectory",
    "TrajectoryStep",
    "play_again",
    "read_replay",
    "trajectory",
]

FORMAT: Final = "coworld.replay/1"
"""The format, as the header names it."""

MAX_REPLAY: Final = 256 * 1024 * 1024
"""Most bytes of a replay once unpacked."""


class ReplayHeader(BaseModel):
    """What was played. Tokens are never in it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    format: str = FORMAT
    rules: str = Field(description="The name of the rules' class.")
    version: str = Field(description="Its version.")
    config: dict[str, Any] = Field(description="The rules' own config.")
    seed: int = Field(description="The seed of all chance.")
    seats: int = Field(ge=1)
    names: list[str] = Field(description="The name of each seat.")


class ReplayTick(BaseModel):
    """One moment; the first one, tick 0, is the start."""

    model_config = ConfigDict(frozen=True, extra="allow")

    tick: int = Field(ge=0)
    actions: dict[int, Any] = Field(description="What led here: the action of each seat that was to act, or null.")
    to_act: list[int] = Field(description="Whose action was awaited then.")
    drawing: str = ""


class RulesReplay(BaseModel):
    """A replay that was read."""

    model_config = ConfigDict(frozen=True)

    header: ReplayHeader
    ticks: list[ReplayTick]
    results: dict[str, Any] | None = None
    reason: str | None = Field(default=None, description="How it ended; None where the replay is cut short.")


@dataclass(frozen=True, kw_only=True)
class TrajectoryStep:
    """One seat in one tick.

    Attributes:
        tick: The ticks that had been played.
        seat: The seat.
        name: Its name.
        acts: Whether it was to act.
        observation: What it saw, as JSON.
        legal: Its legal actions; None where its type says it all.
        action: What it did; None where it missed its time, or was not to act.
        score: Its score after that tick: with the last one, or at any time where the rules have `live_scores`.
    """

    tick: int
    seat: int
    name: str
    acts: bool
    observation: Any
    legal: list[Any] | None
    action: Any
    score: float | None = None


@dataclass(frozen=True)
class Trajectory(Tabular):
    """What every seat saw and did, tick by tick; in a table, what is no number or text is JSON text."""

    steps: tuple[TrajectoryStep, ...] = field(repr=False)

    def to_records(self) -> list[TableRow]:
        """One row for each tick and seat, with the columns of `TrajectoryStep`."""
        return [
            {
                "tick": step.tick,
                "seat": step.seat,
                "name": step.name,
                "acts": step.acts,
                "observation": to_json(step.observation),
                "legal": None if step.legal is None else to_json(step.legal),
                "action": None if step.action is None else to_json(step.action),
                "score": step.score,
            }
            for step in self.steps
        ]

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.steps)} rows", self.to_records())


class ReplayWriter:
    """Writes a replay piece by piece and holds it packed, so that a long game takes little room.

    Args:
        header: What is played.
    """

    def __init__(self, header: ReplayHeader) -> None:
        self._packer = zlib.compressobj(wbits=31)
        self._packed = bytearray()
        self._add(header.model_dump(mode="json"))

    def add(self, frame: Frame, actions: Mapping[int, Any] | None = None) -> None:
        """Add a moment, and the actions that led to it."""
        done = {str(seat): action for seat, action in (actions or {}).items()}
        self._add({"tick": frame.tick, "actions": done, "to_act": frame.to_act, "drawing": frame.drawing})

    def finish(self, *, reason: str, results: Mapping[str, Any] | None = None) -> bytes:
        """Add the end and return the whole replay; nothing may be added after that."""
        self._add({"reason": reason, "results": results})
        return bytes(self._packed + self._packer.flush())

    def _add(self, line: object) -> None:
        self._packed += self._packer.compress(f"{to_json(line)}\n".encode())


def read_replay(data: bytes, *, source: str = "replay", limit: int = MAX_REPLAY) -> RulesReplay:
    """Read a replay, packed with gzip or zlib or not at all, whole or up to where it was cut.

    Raises:
        ReplayFormatError: Code `replay_invalid`: it is none; or one of those of `Unpacker`: it is damaged, or unpacks
            to more than `limit` bytes.
    """
    lines = _unpacked(data, source, limit).split(b"\n")
    texts = [line for line in lines if line]
    if not texts:
        raise _invalid(source, "it has no line")
    try:
        header = ReplayHeader.model_validate_json(texts[0])
        if not header.format.startswith("coworld.replay/"):
            raise _invalid(source, f"its format is {header.format!r}", line=1)
        ticks: list[ReplayTick] = []
        end: dict[str, Any] = {}
        for number, text in enumerate(texts[1:], start=2):
            line: Any = json.loads(text)
            if not isinstance(line, dict) or end:
                raise _invalid(source, "a line that is no tick", line=number)
            if "reason" in line:
                end = {key: line.get(key) for key in ("reason", "results")}
            else:
                ticks.append(ReplayTick.model_validate(line))
        return RulesReplay(header=header, ticks=ticks, **end)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _invalid(source, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise _invalid(source, f"a line is no JSON: {error}") from None


def play_again(rules: type[Rules], replay: RulesReplay) -> Play:
    """Play the actions of a replay again by the same rules, and compare the views.

    Returns:
        The play, as far as the replay goes.

    Raises:
        RulesError: The rules fail, or the game goes another way; the message has the tick and both values.
        ReplayFormatError: Code `replay_of_others`: it is of other rules, or of another version of these.
    """
    play = _begun(rules, replay)
    for _ in _ticks_again(play, replay):
        pass
    return play


def trajectory(rules: type[Rules], replay: RulesReplay) -> Trajectory:
    """What every seat saw and did in a replay, for training and for data frames: the game is played again for it.

    Raises:
        RulesError: As for `play_again`.
        ReplayFormatError: As for `play_again`.
    """
    play = _begun(rules, replay)
    steps: list[TrajectoryStep] = []
    told: list[TrajectoryStep] = []
    for actions in chain(_ticks_again(play, replay), (None,)):
        # What was done is known before, and what it was worth after.
        scores = play.scores_now()
        steps += [replace(step, score=scores[step.seat]) for step in told] if scores else told
        if actions is not None:
            told = [_step(play, seat, name, actions.get(seat)) for seat, name in enumerate(replay.header.names)]
    return Trajectory(steps=tuple(steps))


def _step(play: Play, seat: int, name: str, action: Any) -> TrajectoryStep:
    legal = play.options(seat)
    return TrajectoryStep(
        tick=play.tick,
        seat=seat,
        name=name,
        acts=seat in play.to_act,
        observation=play.observation(seat),
        legal=None if legal is None else to_plain(list(legal)),
        action=action,
    )


def _begun(rules: type[Rules], replay: RulesReplay) -> Play:
    header = replay.header
    if (header.rules, header.version) != (rules.__name__, rules.version):
        raise ReplayFormatError(
            f"The replay is of {header.rules} {header.version}, not of {rules.__name__} {rules.version}.",
            code="replay_of_others",
        )
    config = rules.Config.model_validate_json(json.dumps(header.config))
    return Play(rules, config=config, seats=header.seats, seed=header.seed)


def _ticks_again(play: Play, replay: RulesReplay) -> Generator[Mapping[int, Any]]:
    """Play tick by tick; what is handed out are the actions of each, before they are done."""
    for number, seen in enumerate(replay.ticks):
        if number:
            yield seen.actions
            # Defaults and chosen actions are written alike; both are legal.
            play.step(
                {seat: None if action is None else play.read(seat, action) for seat, action in seen.actions.items()}
            )
        frame = play.frame()
        then = Frame(tick=seen.tick, to_act=tuple(seen.to_act), drawing=seen.drawing)
        if frame != then:
            raise RulesError(f"it was {then}, and is now {frame}", where="play_again", tick=seen.tick)


def _unpacked(data: bytes, source: str, limit: int) -> bytes:
    # A replay may have been packed a second time in transfer.
    while (packing := detect_compression(io.BytesIO(data), name=source)) != "none":
        plain = io.BytesIO()
        unpacker = Unpacker(packing, limit=limit, what="replay", source=source, error=ReplayFormatError)
        unpacker.run(io.BytesIO(data).read, plain.write)
        data = plain.getvalue()
    return data


def _invalid(source: str, problem: str, *, line: int | None = None, code: str = "replay_invalid") -> ReplayFormatError:
    place = "" if line is None else f" (line {line})"
    return ReplayFormatError(f"{source} is no replay of rules: {problem}{place}.", code=code)
