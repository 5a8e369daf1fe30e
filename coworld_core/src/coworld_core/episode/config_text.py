"""Changes to a game config in words: `sticks=5, players.0.name=Ann`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..text.phrases import listed

__all__ = ["variant_text"]


def variant_text(variant: str, changes: Mapping[str, Any]) -> str:
    """A variant, and what is changed in its config."""
    return f"{variant} with {listed(_assignments(changes))}" if changes else variant


def _assignments(changes: Mapping[str, Any], place: str = "") -> Iterator[str]:
    for key, value in changes.items():
        if isinstance(value, Mapping) and value:
            yield from _assignments(cast("Mapping[str, Any]", value), f"{place}{key}.")
        else:
            yield f"{place}{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
