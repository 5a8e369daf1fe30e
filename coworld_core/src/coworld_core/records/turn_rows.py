"""What seats did turn by turn, from the replay of a game that was served by the kit, without playing it again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from ..errors import first_mistake
from ..files.compression import unpack
from ..rules.plain_values import to_json
from ..rules.replay import MAX_REPLAY, ReplayHeader
from ..rules.rules_errors import ReplayFormatError
from ..rules.seat_rewards import reward_sum
from .samples import RecordedSample

__all__ = ["TurnRow", "replay_samples", "turn_rows"]

_R = TypeVar("_R")


class TurnRow(NamedTuple):
    """One seat that was to act, at one tick. What is not known is None."""

    tick: int
    """Number of ticks played when it acted."""
    seat: int
    name: str
    action: str | None
    """What it did, as JSON; None: nothing in time."""
    by: str | None
    """Who decided, if its player said so: `human`, `llm` or `recording`."""
    score: float | None
    """Its score when it was its turn again, where the game tells scores by then; of its last turn, its final score."""
    reward: float | None
    """What it has gained from this turn to its next, or to the end: the sum of its rewards, in games that give rewards;
    otherwise the change of its score. In games that only tell final scores, its last turn has all of it, and the others
    have none."""
    done: bool
    """Whether this was its last turn, and the game is over."""


def turn_rows(replay: bytes, *, source: str = "replay") -> Iterator[TurnRow]:
    """Read the turns of a replay, which may be cut short: then none of them is `done`.

    Args:
        replay: The replay, compressed or not.
        source: Where it came from, for messages.

    Raises:
        ReplayFormatError: Code `replay_invalid` if it is no replay of the kit, or as in `read_replay` if it is damaged.
            The turns before the damage have been given by then.
    """
    return _read(replay, source, _row)


def replay_samples(replay: bytes, *, episode: str = "", source: str = "replay") -> Iterator[RecordedSample]:
    """Read the turns of a replay as samples: what a replay does not tell, such as what seats saw, is None in them.

    Args:
        replay: The replay, compressed or not.
        episode: The episode's id.
        source: Where it came from, for messages.

    Raises:
        ReplayFormatError: As in `turn_rows`.
    """

    def sample(turn: _Ended) -> RecordedSample:
        return RecordedSample(
            episode=episode,
            tick=turn.started.tick,
            time=None,
            seat=turn.seat,
            name=turn.name,
            observation=None,
            legal=None,
            action=turn.started.action,
            acted=turn.started.action is not None,
            by=turn.started.by,
            score=turn.started.was,
            reward=turn.reward,
            done=turn.done,
            next_observation=None,
        )

    return _read(replay, source, sample)


def _read(replay: bytes, source: str, made: Callable[[_Ended], _R]) -> Iterator[_R]:
    lines = iter(unpack(replay, limit=MAX_REPLAY, what="replay", source=source, error=ReplayFormatError).split(b"\n"))
    try:
        header = ReplayHeader.model_validate_json(next(lines))
    except ValidationError as error:
        raise _invalid(source, ": ".join(first_mistake(error))) from None
    if not header.format.startswith("coworld.replay/"):
        raise _invalid(source, f"its format is {header.format!r}")
    for turn in _turns(header.names, (_line(text, source) for text in lines if text)):
        yield made(turn)


def _turns(names: Sequence[str], lines: Iterator[dict[str, Any]]) -> Iterator[_Ended]:
    before: dict[str, Any] | None = None
    open_turns: dict[int, _Turn] = {}
    """The last turn of each seat."""
    for line in lines:
        if "reason" in line:
            results: Mapping[str, Any] = line.get("results") or {}
            over = line["reason"] is not None
            scores = results.get("scores") if over else None
            yield from (_closed(seat, turn, names, scores, done=over) for seat, turn in open_turns.items())
            return
        if before is not None:
            actions: Mapping[str, Any] = line.get("actions") or {}
            by: Mapping[str, str] = line.get("by") or {}
            tick, scores = int(before.get("tick", 0)), before.get("scores")
            for word in dict.fromkeys([*map(str, before.get("to_act") or ()), *actions]):
                seat = int(word)
                if seat in open_turns:
                    yield _closed(seat, open_turns.pop(seat), names, scores, done=False)
                open_turns[seat] = _Turn(tick, actions.get(word), by.get(word), _at(scores, seat))
            if (rewards := line.get("rewards")) is not None:
                for seat, turn in open_turns.items():
                    turn.rewarded = True
                    turn.reward = reward_sum(turn.reward, _at(rewards, seat))
        before = line
    yield from (_closed(seat, turn, names, None, done=False) for seat, turn in open_turns.items())


@dataclass
class _Turn:
    """A turn of which it is not known yet what follows."""

    tick: int
    action: Any
    by: str | None
    was: float | None
    """The score by then."""
    rewarded: bool = False
    """Whether the game gives rewards."""
    reward: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ended:
    """A turn of which it is known what has followed."""

    started: _Turn
    seat: int
    name: str
    score: float | None
    """The score by then."""
    reward: float | None
    done: bool


def _row(turn: _Ended) -> TurnRow:
    action = None if turn.started.action is None else to_json(turn.started.action)
    return TurnRow(turn.started.tick, turn.seat, turn.name, action, turn.started.by, turn.score, turn.reward, turn.done)


def _at(values: Sequence[float | None] | None, seat: int) -> float | None:
    value = values[seat] if values is not None and seat < len(values) else None
    return None if value is None else float(value)


def _closed(seat: int, turn: _Turn, names: Sequence[str], scores: Sequence[float] | None, *, done: bool) -> _Ended:
    """A turn once it is known what has followed."""
    score, reward = _at(scores, seat), turn.reward
    if score is not None and not turn.rewarded:
        # Where scores are known at the end only, all of it is gained there
        reward = score - turn.was if turn.was is not None else score if done else None
    name = names[seat] if seat < len(names) else ""
    return _Ended(started=turn, seat=seat, name=name, score=score, reward=reward, done=done)


def _line(text: bytes, source: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise _invalid(source, "a line is not JSON") from None
    if not isinstance(value, dict):
        raise _invalid(source, "a line is not a tick")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON of any shape


def _invalid(source: str, why: str) -> ReplayFormatError:
    return ReplayFormatError(f"{source} is not a replay: {why}.", code="replay_invalid")
