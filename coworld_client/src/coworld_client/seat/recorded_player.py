"""A player that repeats the actions of a seat in an earlier episode, tick by tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .connection import SeatError

__all__ = ["RecordedPlayer"]


class RecordedPlayer:
    """A player that repeats recorded actions, as long as the game takes the same course.

    Args:
        actions: The recorded actions, by seat and tick; None where the seat let its time pass.
        source: Where the actions were read, for messages.
        slot: The seat whose actions to repeat; None: the player's own seat.
        words: What seats said to others, likewise: pairs of a text and whom it was for.
    """

    controller = "recording"

    def __init__(
        self,
        actions: Mapping[int, Mapping[int, Any]],
        *,
        source: str,
        slot: int | None = None,
        words: Mapping[int, Mapping[int, Sequence[tuple[str, str | int]]]] | None = None,
    ) -> None:
        self._actions = actions
        self._words = words or {}
        self._source = source
        self._slot = slot

    def start(self, hello: dict[str, Any]) -> None:
        """Choose the seat whose actions to repeat.

        Raises:
            SeatError: The recording has no such seat.
        """
        if self._slot is None:
            self._slot = hello["seat"]
        if self._slot not in self._actions:
            raise SeatError(f"{self._source} has no seat {self._slot}.", code="recording_unknown_seat")

    def words(self, tick: int) -> Sequence[tuple[str, str | int]]:
        """What was said at a tick."""
        return self._words.get(-1 if self._slot is None else self._slot, {}).get(tick, ())

    def decide(self, asked: dict[str, Any]) -> Any:
        """The recorded action of a tick; None where the seat let its time pass.

        Raises:
            SeatError: No action was recorded, or the action is not legal now.
        """
        tick, slot = asked["tick"], self._slot
        actions: Mapping[int, Any] = self._actions[slot] if slot is not None else {}
        if tick not in actions:
            raise self._diverged(tick, "nothing was recorded")
        action = actions[tick]
        if action is None:
            return None
        legal = asked.get("legal")
        if asked.get("refused") or (legal is not None and action not in legal):
            raise self._diverged(tick, f"{action!r} was recorded, which is not legal now")
        return action

    def _diverged(self, tick: int, why: str) -> SeatError:
        return SeatError(
            f"The game differs from {self._source} in tick {tick}, seat {self._slot}: {why}.",
            code="recording_diverged",
            hint="Repeating it needs the same game, config, seed and opponents.",
        )
