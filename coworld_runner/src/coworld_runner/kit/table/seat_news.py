"""What a seat is told once, beside what it sees: its observation of a tick replaces older ones that were not sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from coworld_core.rules.seat_rewards import reward_sum

__all__ = ["SeatNews"]

MAX_UNHEARD: Final = 100
"""Maximum number of messages of others that wait for a seat that reads none; older ones are dropped."""


class SeatNews:
    """The rewards of a seat, and the messages of others to it, that no observation has told it yet.

    They stay in every observation of their tick, also in one that is sent again, and are gone in the next tick if one
    of these was sent.

    Args:
        rewards: Whether the game tells rewards.
    """

    def __init__(self, *, rewards: bool) -> None:
        self._rewards = rewards
        self._reward: float | None = None
        self._heard: list[dict[str, Any]] = []
        self._sent = True

    def next_tick(self, reward: float | None, heard: Sequence[dict[str, Any]] = ()) -> None:
        """Add what a tick has brought."""
        if self._sent:
            self._reward, self._heard, self._sent = None, [], False
        self._reward = reward_sum(self._reward, reward)
        self._heard = [*self._heard, *heard][-MAX_UNHEARD:]

    def sent(self) -> None:
        """Record that an observation with all of it is on its way."""
        self._sent = True

    def told(self) -> dict[str, Any]:
        """The fields of an observation."""
        told: dict[str, Any] = {"reward": self._reward} if self._rewards else {}
        if self._heard:
            told["heard"] = self._heard
        return told
