"""The messages of seats as text: what they may send, and what makes a message too much to read."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from coworld_core.documents.json_text import has_too_many_values
from coworld_core.rules import ActionRefused
from coworld_core.rules.seat_wire import MAX_FRAME

__all__ = ["MAX_BY", "MAX_VALUES", "read_act", "read_action", "read_message"]

MAX_VALUES: Final = 20_000
"""Maximum number of commas and opening brackets in an act: reading it holds up the game for everyone."""

MAX_BY: Final = 40
"""Maximum length of the text in which a player says who decided."""


def read_message(message: str | bytes) -> dict[str, Any]:
    """Return a player's message, whose `type` is one that players may send.

    Raises:
        ValueError: It is not such a message; the text says why.
    """
    if has_too_many_values(message, MAX_VALUES):
        raise ValueError(f"an act has at most {MAX_VALUES} values")
    try:
        value: Any = json.loads(message)
    # Deeply nested input exhausts the parser's stack, and Python refuses numbers with very many digits.
    except (ValueError, RecursionError):
        raise ValueError("the message is not JSON") from None
    said = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if said.get("type") not in ("act", "picture", "say"):
        raise ValueError('send {"type": "act", "tick": …, "action": …}')
    return said


def read_act(message: dict[str, Any]) -> tuple[int, Any, str]:
    """Return the tick and the action of an `act`, and who decided it, if it says so.

    Raises:
        ValueError: The message is not valid; the text says why.
    """
    tick = message.get("tick")
    if not isinstance(tick, int) or isinstance(tick, bool) or "action" not in message:
        raise ValueError("an act has a tick, which is a whole number, and an action")
    by = message.get("by", "")
    if not isinstance(by, str) or len(by) > MAX_BY:
        raise ValueError(f"an act's by is a text of at most {MAX_BY} characters")
    return tick, message["action"], by


def read_action(text: str) -> Any:
    """Return an action that arrives on its own, as JSON text.

    Raises:
        ActionRefused: It is too much to read.
        ValueError: It is not JSON.
    """
    if len(text) > MAX_FRAME:
        raise ActionRefused(f"an act has at most {MAX_FRAME} bytes")
    if has_too_many_values(text, MAX_VALUES):
        raise ActionRefused(f"an act has at most {MAX_VALUES} values")
    return json.loads(text)
