"""What the seats of an episode and its game have spent on models, and what they may spend."""

from __future__ import annotations

import threading

from .usage import estimated_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["Accounts", "Call", "Refused"]

_MOST_AT_ONCE = 64
"""Calls of one seat at a time."""
_USUAL_ANSWER = 1024
"""Tokens of an answer that is still to come, if the question sets no limit."""
_LIMITS = {"calls": "calls", "tokens": "tokens", "usd": "US dollars"}


class Refused(Exception):
    """A call that is not made; the message says why.

    Args:
        status: The status of HTTP that says so.
        why: Why.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Call:
    """One call under way.

    Args:
        spender: Whose it is: a seat by its number, or `game`.
        number: Its number within the episode, from 1.
        expected: Tokens that it is expected to use.
        price: US dollars per million tokens of questions and of answers; None: unknown.
    """

    def __init__(self, spender: str, number: int, expected: int, price: tuple[float, float] | None) -> None:
        self.spender = spender
        self.number = number
        self.price = price
        self.expected = {"calls": 0.0, "tokens": float(expected), "usd": expected * max(price or (0.0,)) / 1e6}


class Accounts:
    """Spending of one episode.

    Args:
        seat: The limits of each seat, and of the game: `calls`, `tokens`, `usd`.
        episode: The limits of all together.
        prices: By model, US dollars per million tokens of questions and of answers.
    """

    def __init__(
        self, seat: Mapping[str, float], episode: Mapping[str, float], prices: Mapping[str, tuple[float, float]]
    ) -> None:
        self._seat, self._episode, self._prices = dict(seat), dict(episode), dict(prices)
        self._spent: dict[str, dict[str, float]] = {}
        self._under_way: list[Call] = []
        self._count = 0
        self._lock = threading.Lock()

    def begin(self, spender: str, model: str, *, asked: int, most: int | None) -> Call:
        """Begin a call, whose answer may exceed what is left, as no answer's length is known before.

        Args:
            spender: Whose call it is.
            model: Its model.
            asked: Characters of the question.
            most: Tokens that its answer may have; None: not said.

        Raises:
            Refused: A budget is spent by what was answered and by what is under way, or there are too many at once.
        """
        expected = estimated_tokens(asked) + (_USUAL_ANSWER if most is None else most)
        with self._lock:
            if sum(call.spender == spender for call in self._under_way) >= _MOST_AT_ONCE:
                raise Refused(429, f"more than {_MOST_AT_ONCE} calls at a time are not allowed for one seat")
            for whose, limits in ((spender, self._seat), (None, self._episode)):
                for kind, limit in limits.items():
                    if self._total(whose, kind) >= limit:
                        owner = "this seat" if whose is not None else "the episode"
                        raise Refused(402, f"the budget of {owner}, {limit:g} {_LIMITS[kind]}, is spent")
            self._count += 1
            call = Call(spender, self._count, expected, self._prices.get(model))
            self._account(spender)["calls"] += 1
            self._under_way.append(call)
            return call

    def end(self, call: Call, asked: int, answered: int, *, is_free: bool = False) -> float | None:
        """End a call, and return its cost in US dollars; None: its price is not known.

        Args:
            call: The call.
            asked: Tokens of the question.
            answered: Tokens of the answer.
            is_free: Whether it costs nothing, because it was answered from a recording.
        """
        is_free = is_free or not asked + answered
        into, out = (0.0, 0.0) if is_free else call.price or (None, None)
        cost = None if into is None or out is None else (asked * into + answered * out) / 1e6
        with self._lock:
            self._under_way.remove(call)
            account = self._account(call.spender)
            account["tokens"] += asked + answered
            account["usd"] += cost or 0.0
        return cost

    def spent(self, spender: str) -> dict[str, Any]:
        """What a seat has spent, and the limits."""
        with self._lock:
            return {**self._account(spender), "limits": self._seat, "episode_limits": self._episode}

    def _account(self, spender: str) -> dict[str, float]:
        return self._spent.setdefault(spender, dict.fromkeys(_LIMITS, 0))

    def _total(self, spender: str | None, kind: str) -> float:
        """What was spent, and is expected of what is under way."""
        accounts = self._spent.values() if spender is None else [self._account(spender)]
        calls = [call for call in self._under_way if spender in (None, call.spender)]
        return sum(account[kind] for account in accounts) + sum(call.expected[kind] for call in calls)
