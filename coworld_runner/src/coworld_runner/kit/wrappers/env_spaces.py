"""The spaces of a wrapped environment for training: JSON as elements of them, and elements as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["SeatSpaces", "board_space", "of_agents", "view_of"]


@dataclass(frozen=True)
class SeatSpaces:
    """What a seat of a wrapped environment sees and does, as its library has it.

    Attributes:
        action: The space of its actions.
        observation: The space of what it sees, without a mask.
    """

    action: Any
    observation: Any

    def encode(self, seen: Any) -> Any:
        """Return the element that an observation of the rules (as JSON) has as its `view`.

        Raises:
            ValueError: It is none of the space.
        """
        return view_of(self.observation, seen["view"])

    def decode(self, element: Any) -> Any:
        """Return an action of the rules (as JSON) for an element of the space of actions, if that is no `Discrete`."""
        import numpy as np

        return np.asarray(element, self.action.dtype).ravel().tolist()


def of_agents(actions: Sequence[Any], observations: Sequence[Any]) -> list[SeatSpaces]:
    """Return the spaces of each seat.

    Args:
        actions: The space of each agent's actions. If they are numbers, all get the same space, with those of all.
        observations: The space of what each of them observes.
    """
    from gymnasium import spaces

    if all(isinstance(one, spaces.Discrete) for one in actions):
        first = min(int(one.start) for one in actions)
        last = max(int(one.start) + int(one.n) for one in actions)
        actions = [spaces.Discrete(last - first, start=first)] * len(actions)
    pairs = zip(actions, observations, strict=True)
    return [SeatSpaces(action, board_space(observation)) for action, observation in pairs]


def board_space(space: Any) -> Any:
    """Return the space of what is observed, without a mask beside it."""
    parts = cast("dict[str, Any]", space.spaces) if isinstance(getattr(space, "spaces", None), dict) else {}
    return parts.get("observation", space)


def view_of(space: Any, view: Any) -> Any:
    """Return the element of a space that JSON stands for.

    Raises:
        ValueError: It stands for none.
    """
    import numpy as np
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {name: view_of(part, view[name]) for name, part in cast("dict[str, Any]", space.spaces).items()}
    if isinstance(space, spaces.Tuple):
        parts, ones = cast("tuple[Any, ...]", space.spaces), cast("list[Any]", view)
        return tuple(view_of(part, one) for part, one in zip(parts, ones, strict=True))
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(view)
    if isinstance(space, spaces.Text):
        return str(view)
    if space.shape is None or space.dtype is None:
        raise ValueError(f"{space} has no elements of fixed shape")
    array = np.array(view, space.dtype)
    if array.size != math.prod(space.shape):
        raise ValueError(f"{array.size} numbers, where {space} has {math.prod(space.shape)}")
    return array.reshape(space.shape)
