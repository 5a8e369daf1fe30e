"""What a seat is told once, beside what it sees: its observation of a tick replaces older ones that were not sent."""

from __future__ import annotations

from typing import Any

from coworld_core.rules.seat_rewards import reward_sum

__all__ = ["SeatNews"]


class SeatNews:
    """The rewards of a seat that no observation has told it yet.

    They stay in every observation of their tick, also in one that is sent again, and are gone in the next tick if one
    of these was sent.
    """

    def __init__(self) -> None:
        self._reward: float | None = None
        self._sent = True

    def next_tick(self, reward: float | None) -> None:
        """Add what a tick has brought."""
        if self._sent:
            self._reward, self._sent = None, False
        self._reward = reward_sum(self._reward, reward)

    def sent(self) -> None:
        """Record that an observation with all of it is on its way."""
        self._sent = True

    def told(self) -> dict[str, Any]:
        """The fields of an observation."""
        return {"reward": self._reward}
