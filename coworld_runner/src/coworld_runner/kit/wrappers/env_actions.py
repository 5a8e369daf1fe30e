"""Actions of environments as actions of rules: a space as a type of JSON values, and a value as an element of it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import Field

__all__ = ["MOST_ACTED", "action_type", "default_action", "element_of", "refused_space"]

MOST_ACTED: Final = 64
"""Limit of numbers in an action, each of which has a field on a person's page."""


def refused_space(space: Any) -> str | None:
    """Return why a space cannot be that of actions; None if it can."""
    if type(space).__name__ not in ("Discrete", "MultiDiscrete", "MultiBinary", "Box"):
        return f"its actions are not numbers but {space}"
    if space.dtype.kind not in "iufb":
        return f"its actions are numbers of type {space.dtype}"
    if (count := math.prod(space.shape)) > MOST_ACTED:
        return f"an action is {count:,} numbers, and a person has to enter at most {MOST_ACTED}"
    return None


def action_type(space: Any) -> Any:
    """Return the type of actions: an integer, or a list of numbers with the bounds of the space.

    A list has one level, whatever the shape of the space.
    """
    kind = type(space).__name__
    if kind == "Discrete":
        return int
    if kind == "MultiBinary":
        return _tuple([Literal[0, 1]] * math.prod(space.shape))
    if kind == "MultiDiscrete":
        return _tuple(
            [
                Annotated[int, Field(ge=int(start), lt=int(start) + int(count))]
                for start, count in zip(space.start.ravel(), space.nvec.ravel(), strict=True)
            ]
        )
    number: Any = float if space.dtype.kind == "f" else int
    return _tuple(
        [
            Annotated[number, Field(ge=_bound(low, number), le=_bound(high, number))]
            for low, high in zip(space.low.ravel(), space.high.ravel(), strict=True)
        ]
    )


def _bound(value: Any, number: Any) -> Any:
    return number(value) if math.isfinite(value) else None


def _tuple(items: list[Any]) -> Any:
    return tuple[tuple(items)]  # type: ignore[misc]


def element_of(space: Any, action: Any) -> Any:
    """Return the element of a space that an action stands for."""
    if type(space).__name__ == "Discrete":
        return action
    import numpy as np

    element = np.array(action, space.dtype).reshape(space.shape)
    # A bound may have been rounded on its way.
    return np.clip(element, space.low, space.high) if type(space).__name__ == "Box" else element


def default_action(space: Any) -> Any:
    """Return what a seat does that missed its turn: nothing, as far as the bounds permit."""
    import numpy as np

    if type(space).__name__ == "MultiDiscrete":
        return tuple(space.start.ravel().tolist())
    if type(space).__name__ == "Box":
        return tuple(np.clip(np.zeros(space.shape, space.dtype), space.low, space.high).ravel().tolist())
    return (0,) * math.prod(space.shape)
