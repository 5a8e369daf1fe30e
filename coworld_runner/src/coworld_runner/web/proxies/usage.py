"""What a call of a model has used, by what its provider says and by what was sent."""

from __future__ import annotations

import json
from typing import Any, cast

__all__ = ["Usage", "estimated_tokens", "words_in"]

_MOST_TOKENS = 10**9
_CHARACTERS = 16
"""No tokeniser makes fewer than one token of that many characters of words."""
_LONGEST_WORD = 1000
"""What is longer and has no space is no text, but a picture."""
_WORDS = frozenset(
    ("content", "text", "input", "system", "arguments", "partial_json", "thinking", "reasoning_content", "delta")
)
"""Fields that hold words of a question or an answer."""
_ASKED = ("prompt_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Anthropic counts what it caches besides its input tokens."""
_ANSWERED = ("completion_tokens", "output_tokens")


def estimated_tokens(characters: int) -> int:
    """The usual estimate of tokens, by the characters of a text."""
    return characters // 4 + 1


def words_in(message: Any, *, counts: bool = False) -> int:
    """Characters of the words in a question, an answer, or an event of a stream.

    Args:
        message: The JSON.
        counts: Whether it is itself the value of such a field.
    """
    total, waiting = 0, [(message, counts)]
    while waiting:
        value, counts = waiting.pop()
        if isinstance(value, str):
            is_text = len(value) <= _LONGEST_WORD or " " in value[:_LONGEST_WORD]
            total += len(value) if counts and is_text else 0
        elif isinstance(value, list):
            waiting += [(item, counts) for item in cast("list[Any]", value)]
        elif isinstance(value, dict):
            # The last event of a stream repeats under `response` what the others have said
            fields = cast("dict[str, Any]", value).items()
            waiting += [(item, counts or name in _WORDS) for name, item in fields if name != "response"]
    return total


class Usage:
    """Counts one call, from its answer or from the events of a stream.

    Args:
        asked: Characters of the words in the question.

    Attributes:
        is_answer: Whether something that can be read has come.
    """

    def __init__(self, asked: int) -> None:
        self._asked = asked
        self._answered = 0
        self._told: dict[str, int] = {}
        self._is_wrong = False
        self._repeated: tuple[int, int, bool] | None = None
        self.is_answer = False

    def read(self, text: bytes) -> Any:
        """Take what a message of the provider says of its usage, and return the message; None if it is not JSON."""
        try:
            message: Any = json.loads(text)
        except (ValueError, RecursionError):
            return None
        self.is_answer = True
        self._answered += words_in(message)
        # As it stands; within the first event of Anthropic's streams; within the last of OpenAI's responses
        for place in (message, _field(message, "message"), _field(message, "response")):
            usage = _field(place, "usage")
            for name in (*_ASKED, *_ANSWERED):
                count = _field(usage, name)
                if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST_TOKENS:
                    self._told[name] = max(count, self._told.get(name, 0))
                elif count is not None:
                    self._is_wrong = True
        return message

    def repeat(self, asked: int, answered: int, *, is_estimated: bool) -> None:
        """Take what was counted when the answer was recorded."""
        self.is_answer, self._repeated = True, (asked, answered, is_estimated)

    def tokens(self) -> tuple[int, int, bool]:
        """Tokens of the question and of the answer, and whether these are estimated.

        They are as the provider says, unless it says nothing, or what cannot be: a budget must not depend on that.
        """
        if self._repeated is not None:
            return self._repeated
        asked, answered = self._sum(_ASKED), self._sum(_ANSWERED)
        if self._is_wrong or asked < self._asked // _CHARACTERS or answered < self._answered // _CHARACTERS:
            return estimated_tokens(self._asked), estimated_tokens(self._answered), True
        return asked, answered, False

    def _sum(self, names: tuple[str, ...]) -> int:
        """What the provider has told; -1 if it has told nothing."""
        told = [self._told[name] for name in names if name in self._told]
        return sum(told) if told else -1


def _field(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
