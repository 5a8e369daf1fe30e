"""A person at a terminal in a seat: what the game shows them, and what becomes of what they type. Nothing is read here.

In a game of the kit, a person types an action: a word, the value of its only field, the number in it, or
`field=value …`. Where actions have no numbers, a number is a place in the list. In any other game, JSON is sent as it
is, `field=value …` as an object, and a single word as `{"move": word}`. In games with talk, `/say WORDS` speaks to all,
`/team WORDS` to one's team, and `/1 WORDS` to seat 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from coworld_core.rules.board_text import Board, Spoken, board_of
from coworld_core.rules.seat_wire import PROTOCOL

__all__ = ["TypedSeat", "action_text"]

_MAX_MESSAGES: Final = 20
"""Number of messages that are shown."""

_ARROWS: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left"}

_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", re.ASCII)
"""A number in an action as it is written; that of `e4` is part of a word. Pages of games have the same pattern."""


class TypedSeat:
    """One seat, from its first message to its last.

    Attributes:
        board: What the last message has shown.
        legal: The legal actions; None if the game does not list them.
        your_turn: Whether the person is to act.
        note: What the game has said about the last action; empty if nothing.
        over: The scores of a game that is over; None before.
        talks: Whether seats talk in this game.
        places: Whether a number that is typed is the place of an action; otherwise it is the number in one.
    """

    def __init__(self) -> None:
        self.board = Board()
        self.legal: Sequence[Any] | None = None
        self.your_turn = False
        self.note = ""
        self.over: Sequence[Any] | None = None
        self.names: tuple[str, ...] = ()
        self.talks = False
        self.places = True
        self._messages: tuple[Spoken, ...] = ()
        self._early: tuple[Spoken, ...] = ()
        """What was heard at once, which the next observation tells again."""
        self._seat = 0
        self._kit = False
        self._tick = 0

    def receive(self, message: Any) -> None:
        """Take in a message of the game."""
        if not isinstance(message, dict):
            return
        told = cast("dict[str, Any]", message)
        kind = told.get("type")
        if kind == "hello":
            self._kit = told.get("protocol") == PROTOCOL
            board = board_of(told)
            self.names = board.names
            if board.messages:
                # What the next observation tells is none of it, even if its tick is the same.
                self._messages, self._early, self._tick = board.messages[-_MAX_MESSAGES:], (), -1
            self.talks = self._kit and isinstance(told.get("talk"), dict)
            self._seat = int(told.get("seat") or 0) if self._kit else 0
        elif kind == "over":
            self.over, self.your_turn = _listed(told.get("scores")), False
        elif kind == "heard":
            self._early = (*self._early, *board_of(told).messages)[-_MAX_MESSAGES:]
            self._messages = (*self._messages, *board_of(told).messages)[-_MAX_MESSAGES:]
            self.board = replace(self.board, messages=self._messages)
        elif kind == "say_refused":
            self.note = f"not said: {told.get('reason')}"
        elif kind in ("refused", "error"):
            self.note = str(told.get("reason") or told.get("message") or "refused")
            if kind == "refused" and self._kit:
                legal = told.get("legal")
                self.your_turn, self.legal = legal is not None or self.legal is None, legal or self.legal
                self._look_for_numbers()
        else:
            self._see(told)

    def _see(self, message: Mapping[str, Any]) -> None:
        board = board_of(message)
        if (tick := message.get("tick")) != self._tick:
            self.note = ""
            # An observation that is sent again repeats what was heard, and the first one what was heard at once.
            early, self._early = list(self._early), ()
            for one in board.messages:
                if one in early:
                    early.remove(one)
                else:
                    self._messages = (*self._messages, one)[-_MAX_MESSAGES:]
            self._tick = tick if isinstance(tick, int) else 0
        if not board.lines and "observation" in message:
            seen = message["observation"]
            inner = board_of(cast("dict[str, Any]", seen)) if isinstance(seen, dict) else Board()
            lines = inner.lines or tuple(json.dumps(seen, ensure_ascii=False, indent=1).splitlines())
            board = Board(lines=lines, tick=board.tick, scores=board.scores, to_act=board.to_act)
        self.board, self.names = replace(board, messages=self._messages), board.names or self.names
        if self._kit:
            self.your_turn = message.get("your_turn") is True
            self.legal = message.get("legal") if self.your_turn else None
            self._look_for_numbers()
        else:
            self.your_turn = message.get("done") is not True
            self.over = _listed(message.get("scores")) if message.get("done") is True else None

    def _look_for_numbers(self) -> None:
        # For good: what a number means must not depend on what is legal just now
        self.places = self.places and not any(_number(action) for action in self.legal or ())

    def legal_texts(self) -> list[str]:
        """The legal actions in words, in the order of their places."""
        return [action_text(action) for action in self.legal or ()]

    def say(self, typed: str) -> dict[str, Any] | None:
        """Return the message that a typed line sends; None if it sends none, which `note` then explains."""
        text = typed.strip()
        text = next((word for arrow, word in _ARROWS.items() if arrow in text), text)
        if not text:
            return None
        self.note = ""
        if self.is_talk(text):
            return self._speak(text)
        if not self._kit:
            return _own_message(text)
        if not self.your_turn:
            self.note = "it is not your turn"
            return None
        action, found = self._action(text)
        if not found:
            self.note = f"{text!r} is none of the actions"
            return None
        self.your_turn = False
        return {"type": "act", "tick": self._tick, "action": action, "by": "human"}

    def is_talk(self, typed: str) -> bool:
        """Whether a typed line says something to other seats, which it may at any time."""
        return self.talks and typed.lstrip().startswith("/")

    def _speak(self, text: str) -> dict[str, Any] | None:
        word, _, words = text[1:].partition(" ")
        to = int(word) if word.isdecimal() and len(word) < 5 else {"say": "all", "team": "team"}.get(word)
        if to is None or not words.strip():
            self.note = "write /say WORDS, /team WORDS, or /N WORDS to seat N"
            return None
        self._messages = (*self._messages, Spoken(self._seat, words, to))[-_MAX_MESSAGES:]
        self.board = replace(self.board, messages=self._messages)
        return {"type": "say", "text": words, "to": to}

    def _action(self, text: str) -> tuple[Any, bool]:
        if self.legal is None:
            fields = _fields(text)
            return (fields if fields is not None else _value(text)), True
        legal = list(self.legal)
        for match in (action_text, _only_value, _number):
            found = [action for action in legal if (word := match(action)) is not None and _same(word, text)]
            if len(found) == 1:
                return found[0], True
        if self.places and text.isdecimal() and 1 <= int(text[:9]) <= len(legal):
            return legal[int(text[:9]) - 1], True
        fields = _fields(text)
        given = [fields if fields is not None else _value(text)]
        return (given[0], True) if given[0] in legal else (None, False)


def action_text(action: Any) -> str:
    """An action as a person may type it."""
    if isinstance(action, str):
        return action
    if isinstance(action, dict):
        fields = cast("dict[str, Any]", action)
        return " ".join(f"{key}={action_text(value)}" for key, value in fields.items())
    return json.dumps(action, ensure_ascii=False)


def _only_value(action: Any) -> str | None:
    if not isinstance(action, dict) or len(cast("dict[str, Any]", action)) != 1:
        return None
    return action_text(next(iter(cast("dict[str, Any]", action).values())))


def _number(action: Any) -> str | None:
    """The number in an action such as `take=2` or `7 of hearts`, if there is one, and it is not part of a word."""
    found = _NUMBER.findall(action_text(action))
    return found[0] if len(found) == 1 else None


def _same(word: str, text: str) -> bool:
    return " ".join(word.split()).casefold() == " ".join(text.split()).casefold()


def _own_message(text: str) -> dict[str, Any]:
    fields = _fields(text)
    value = fields if fields is not None else _value(text)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"move": value}


def _fields(text: str) -> dict[str, Any] | None:
    """`a=1 b=two` as an object; None if the text is not of that form."""
    pairs = [part.partition("=") for part in text.split()]
    if not pairs or not all(equals and key.isidentifier() for key, equals, _ in pairs):
        return None
    return {key: _value(value) for key, _, value in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _listed(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
