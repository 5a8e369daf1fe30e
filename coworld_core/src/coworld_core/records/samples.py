"""What was recorded of an episode while it was played: samples of games of the kit, or the frames of any game.

Both are files of lines of JSON: a header, a line for each sample or frame, and the end. A file without an end is that
of an episode that is going on, or whose recording was cut short; it can be read as far as it goes.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from ..episode.layout import EpisodeLayout
from ..episode.record import EpisodeRecord
from ..errors import UsageError
from ..files.regular import open_regular
from ..hints import Hint
from ..rules.seat_rewards import reward_sum

__all__ = [
    "FRAMES_FORMAT",
    "SAMPLES_FORMAT",
    "RecordedFrame",
    "RecordedSample",
    "RecordingEnd",
    "iter_frames",
    "iter_samples",
    "recording_end",
]

SAMPLES_FORMAT: Final = "coworld.samples/1"
FRAMES_FORMAT: Final = "coworld.frames/1"
"""Names of the formats in the headers."""

_TURN = ("tick", "time", "seat", "observation", "action", "acted")
"""Fields of every turn."""
_MOST_OF_LINE = 256 << 20
"""Bytes of the longest line that is read."""
_END_BYTES = 1 << 16
"""Bytes at the end of a file in which its last line is."""

Source = str | os.PathLike[str] | EpisodeRecord
"""An episode's workspace or record, or a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedSample:
    """One turn of a seat, as it was recorded or as a replay tells it. What is not known is None.

    A replay tells neither the time, nor what a seat saw and might do, nor what was played for a seat that did not act.

    Attributes:
        episode: The episode's id.
        tick: Number of ticks played when it was the seat's turn.
        time: When the tick was played, in seconds since 1970.
        seat: The seat.
        name: The name of its player.
        observation: What it saw, as JSON.
        legal: Its legal actions; None if the type alone defines them.
        action: What was played: its own action if it `acted`, else what the rules play for it.
        acted: Whether it acted in time.
        by: Who decided, if its player said so: `human`, `llm` or `recording`.
        score: Its score before this turn, where the game tells scores by then.
        reward: What it has gained from this turn to its next, or to the end: the sum of its rewards, in games that give
            rewards; otherwise the change of its score. In games that only tell final scores, its last turn has all of
            it, and the others have none.
        done: Whether this was its last turn, and the game is over.
        next_observation: What it saw at its next turn, or at the end of the game.
    """

    episode: str
    tick: int
    time: float | None
    seat: int
    name: str
    observation: Any
    legal: list[Any] | None
    action: Any
    acted: bool
    by: str | None
    score: float | None
    reward: float | None
    done: bool
    next_observation: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedFrame:
    """One message between a player and its game.

    Attributes:
        episode: The episode's id.
        tick: The tick that the message tells, if it is a JSON object with one.
        time: When it was passed on, in seconds since 1970.
        seat: The seat.
        direction: `to_player` or `to_game`.
        text: What it says; None if it is not text, or too long to be kept.
        data: What it says, if it is not text; None if it is, or is too long to be kept.
    """

    episode: str
    tick: int | None
    time: float
    seat: int
    direction: Literal["to_player", "to_game"]
    text: str | None
    data: bytes | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingEnd:
    """How a recording ended.

    Attributes:
        reason: Why: `over`, or what cut the game or the recording short.
        complete: Whether everything up to the end of the game is there.
        count: Number of samples or frames.
        last_tick: The newest tick of them; None if none has one.
        out_of_sync: Seats whose ticks do not match those of the others. Of samples: seats that were to act in a tick
            that they had not been told of. Of frames: seats that were not told the last tick, or were told an earlier
            one after a later one.
    """

    reason: str
    complete: bool
    count: int
    last_tick: int | None
    out_of_sync: tuple[int, ...]


def iter_samples(source: Source) -> Iterator[RecordedSample]:
    """Read the samples of an episode, one at a time; a seat's sample comes when it is known what followed it.

    Args:
        source: The episode's workspace or record, or the file.

    Raises:
        UsageError: There are none (`record_not_found`), the file cannot be read, or it is no file of samples
            (`recording_invalid`). The samples before a damaged line have been given by then.
    """
    lines = _Lines(_path(source, "samples"), SAMPLES_FORMAT)
    header = lines.header
    episode, names = str(header.get("episode", "")), cast("list[str]", header.get("names") or [])
    turns: dict[int, dict[str, Any]] = {}
    """The last turn of each seat."""
    finals: dict[int, Any] = {}

    def closed(
        turn: dict[str, Any], score: float | None, next_observation: Any, *, done: bool = False
    ) -> RecordedSample:
        before: float | None = turn.get("score")
        reward: float | None = turn.get("reward")
        if score is not None and "reward" not in turn:
            # Where scores are known at the end only, all of it is gained there
            reward = score - before if before is not None else score if done else None
        seat = int(turn["seat"])
        return RecordedSample(
            episode=episode,
            tick=turn["tick"],
            time=turn["time"],
            seat=seat,
            name=names[seat] if seat < len(names) else "",
            observation=turn["observation"],
            legal=turn.get("legal"),
            action=turn["action"],
            acted=turn["acted"],
            by=turn.get("by"),
            score=before,
            reward=reward,
            done=done,
            next_observation=next_observation,
        )

    scores: list[float] | None = None
    is_over = False
    damage: UsageError | None = None
    try:
        for line in lines:
            if "end" in line:
                is_over, scores = line["end"] == "over" and bool(line.get("complete")), line.get("scores")
            elif "rewards" in line:
                gained = line["rewards"]
                for seat, turn in turns.items():
                    turn["reward"] = reward_sum(turn.get("reward"), gained[seat])
            elif line.get("final"):
                finals[line["seat"]] = line["observation"]
            else:
                seat = line["seat"]
                if (turn := turns.get(seat)) is not None:
                    yield closed(turn, line.get("score"), line["observation"])
                turns[seat] = {name: line[name] for name in _TURN} | line
    except UsageError as error:
        damage = error
    except (KeyError, IndexError, TypeError, ValueError):
        damage = lines.invalid("it is no sample")
    for seat, turn in turns.items():
        score = scores[seat] if is_over and scores is not None and seat < len(scores) else None
        yield closed(turn, score, finals.get(seat), done=is_over)
    if damage is not None:
        raise damage


def iter_frames(source: Source) -> Iterator[RecordedFrame]:
    """Read the frames of an episode, one at a time, in the order in which they were passed on.

    Args:
        source: The episode's workspace or record, or the file.

    Raises:
        UsageError: There are none (`record_not_found`), the file cannot be read, or it is no file of frames
            (`recording_invalid`). The frames before a damaged line have been given by then.
    """
    lines = _Lines(_path(source, "frames"), FRAMES_FORMAT)
    episode = str(lines.header.get("episode", ""))
    try:
        for line in lines:
            if "end" not in line:
                data = line.get("base64")
                yield RecordedFrame(
                    episode=episode,
                    tick=line.get("tick"),
                    time=line["time"],
                    seat=line["seat"],
                    direction=line["direction"],
                    text=line.get("text"),
                    data=None if data is None else base64.b64decode(data),
                )
    except (KeyError, TypeError, binascii.Error) as error:
        raise lines.invalid("it is no frame") from error


def recording_end(path: str | os.PathLike[str]) -> RecordingEnd | None:
    """How the recording in a file ended; None if it goes on or was cut short, because the end is not there.

    Raises:
        UsageError: The file cannot be read.
    """
    place = Path(path)
    try:
        with open_regular(place) as file:
            file.seek(max(place.stat().st_size - _END_BYTES, 0))
            last = file.read().rsplit(b"\n", 2)[-2:]
    except OSError as error:
        raise _unreadable(place, error) from error
    try:
        end: Any = json.loads(last[0]) if last[1:] == [b""] else None
        if not isinstance(end, dict) or "end" not in end:
            return None
        told = cast("dict[str, Any]", end)
        return RecordingEnd(
            reason=str(told["end"]),
            complete=told.get("complete") is True,
            count=int(told.get("count", 0)),
            last_tick=told.get("last_tick"),
            out_of_sync=tuple(told.get("out_of_sync") or ()),
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


class _Lines:
    """The lines of a file of a format; opened when they are iterated over, which reads one at a time."""

    def __init__(self, path: Path, format: str) -> None:
        self._path, self._number = path, 1
        self._lines = self._read()
        # Nothing is in the file of a writer that was killed at once
        self.header = next(self._lines, {"format": format})
        if self.header.get("format") != format:
            raise self.invalid(f"its format is {self.header.get('format')!r}, not {format}")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._lines

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            with open_regular(self._path) as file:
                while line := file.readline(_MOST_OF_LINE):
                    # The last line of a file that is being written, or whose writer was killed
                    if not line.endswith(b"\n"):
                        if len(line) == _MOST_OF_LINE:
                            raise self.invalid("it is too long")
                        return
                    try:
                        value: Any = json.loads(line)
                    except (ValueError, RecursionError):
                        value = None
                    if not isinstance(value, dict):
                        raise self.invalid("it is not a JSON object")
                    yield cast("dict[str, Any]", value)
                    self._number += 1
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def invalid(self, why: str) -> UsageError:
        """The error for the line that was read last."""
        return UsageError(f"{self._path}, line {self._number}: {why}.", code="recording_invalid")


def _path(source: Source, kind: Literal["samples", "frames"]) -> Path:
    if isinstance(source, EpisodeRecord):
        return getattr(source.layout, kind)
    path = Path(source)
    return getattr(EpisodeLayout(path), kind) if path.is_dir() else path


def _unreadable(path: Path, error: OSError) -> UsageError:
    missing = isinstance(error, FileNotFoundError)
    return UsageError(
        f"There is no file {path}." if missing else f"{path} cannot be read: {error.strerror}.",
        code="record_not_found" if missing else "record_unreadable",
        hint=Hint("record_episode", 'Episodes are recorded if asked to: EpisodeOptions(record="samples").')
        if missing
        else None,
    )
