"""Results of bounded size, for readers that pay for each character."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["MAX_RESULT", "bounded_fields"]

MAX_RESULT: Final = 50_000
"""Characters of one result."""


def bounded_fields(value: Mapping[str, Any], most: int = MAX_RESULT) -> dict[str, Any]:
    """Cut the longest fields of a JSON object until it has about as many characters as it may have.

    Args:
        value: The object.
        most: How many characters it may have as JSON.

    Returns:
        The object. What was cut is a text: the beginning of the field, if it is a text, or else of its JSON; `cut` then
        has the names of these fields, and of how many characters each was.
    """
    texts = {name: _json(field) for name, field in value.items()}
    kept, cut, room = dict(value), dict[str, int](), most
    for left, name in zip(range(len(texts), 0, -1), sorted(texts, key=lambda name: len(texts[name])), strict=True):
        share = max(0, room // left - len(name) - 6)
        if len(texts[name]) > share:
            field = value[name]
            kept[name], whole = _beginning(field if isinstance(field, str) else texts[name], share)
            cut[name] = whole
        room -= len(_json(kept[name])) + len(name) + 6
    return {**kept, "cut": cut} if cut else kept


def _beginning(text: str, most: int) -> tuple[str, int]:
    """The beginning of a text that as JSON has at most so many characters, and the length of the whole."""
    part = text[:most]
    # Quotes and line breaks are longer in JSON
    while part and len(_json(part)) > most + 2:
        part = part[: len(part) * most // len(_json(part))]
    return part, len(text)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
