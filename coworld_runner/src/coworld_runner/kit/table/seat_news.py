"""What a seat is told once, beside what it sees: its observation of a tick replaces older ones that were not sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coworld_core.rules.seat_rewards import reward_sum
from coworld_core.rules.seat_talk import SeatChat, SeatMessage

__all__ = ["SeatNews"]

MAX_UNHEARD: Final = 100
"""Maximum number of messages of others that wait for a seat that reads none; older ones are dropped."""

MAX_TALKED: Final = 100
"""Maximum number of messages from before that a new connection is told."""

MAX_TALKED_LETTERS: Final = 64 * 1024
"""Maximum number of characters in them: many clients accept no message of more than 1 MiB."""


class SeatNews:
    """The rewards of a seat, and the messages of others to it, that no observation has told it yet.

    They stay in every observation of their tick, also in one that is sent again, and are gone in the next tick if one
    of these was sent.

    Args:
        slot: The seat.
        rewards: Whether the game tells rewards.
        talk: What seats say to each other; None if the game has no talk.
    """

    def __init__(self, slot: int, *, rewards: bool, talk: SeatChat | None) -> None:
        self._slot = slot
        self._rewards = rewards
        self._talk = talk
        self._reward: float | None = None
        self._sent = True

    def next_tick(self, reward: float | None) -> None:
        """Add the reward of a tick."""
        if self._sent:
            self._reward, self._sent = None, False
        self._reward = reward_sum(self._reward, reward)

    def sent(self) -> None:
        """Record that an observation with all of it is on its way."""
        self._sent = True
        if self._talk is not None:
            self._talk.tell(self._slot)

    def fields(self) -> dict[str, Any]:
        """The fields of an observation."""
        told: dict[str, Any] = {"reward": self._reward} if self._rewards else {}
        if heard := self._heard():
            told["heard"] = [one.fields() for one in heard]
        return told

    def talked(self, *, over: bool) -> list[dict[str, Any]]:
        """What a new connection is told of what the seat has heard and said before.

        Args:
            over: Whether the game is over. Otherwise observations follow, which tell what the seat hears now.
        """
        if self._talk is None:
            return []
        self._talk.tell(self._slot, again=True)
        return self.log(() if over else (*self._heard(), *self._talk.saying(self._slot)))

    def log(self, without: Iterable[SeatMessage] = ()) -> list[dict[str, Any]]:
        """The newest of what the seat has said and what was said to it, up to now, as the fields of messages."""
        later = set(map(id, without))
        said = [] if self._talk is None else self._talk.log(self._slot)
        before = [one for one in said if id(one) not in later][-MAX_TALKED:]
        while sum(len(one.text) for one in before) > MAX_TALKED_LETTERS:
            del before[0]
        return [one.fields() for one in before]

    def _heard(self) -> list[SeatMessage]:
        return [] if self._talk is None else self._talk.heard(self._slot)[-MAX_UNHEARD:]
