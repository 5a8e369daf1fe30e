"""What an improvement may spend: steps, episodes and time, whichever ends first."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from ..documents.records import Record
from ..errors import UsageError
from ..text.phrases import listed, plural

__all__ = ["BudgetPart", "ImprovementBudget", "ImprovementLeft", "ImprovementSpent", "read_budget"]

BudgetPart = Literal["", "steps", "episodes", "seconds"]
"""A part of a budget; empty: none."""

_PART = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-z]*)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_EPISODES = ("ep", "episode", "episodes")
_STEPS = ("", "step", "steps")


class ImprovementSpent(Record):
    """What an improvement has spent."""

    steps: int = Field(default=0, ge=0, description="Steps that have ended.")
    episodes: int = Field(default=0, ge=0, description="Episodes that were played.")
    seconds: float = Field(default=0.0, ge=0, description="Time of the steps that have ended.")


class ImprovementBudget(Record):
    """What an improvement may spend; null: as much as it likes."""

    steps: int | None = Field(default=None, ge=1, description="Steps.")
    episodes: int | None = Field(default=None, ge=1, description="Episodes.")
    seconds: float | None = Field(default=None, gt=0, description="Time.")

    def left(self, spent: ImprovementSpent) -> ImprovementLeft:
        """What is left of it."""
        return ImprovementLeft(
            steps=None if self.steps is None else max(0, self.steps - spent.steps),
            episodes=None if self.episodes is None else max(0, self.episodes - spent.episodes),
            seconds=None if self.seconds is None else max(0.0, round(self.seconds - spent.seconds, 3)),
        )

    def __str__(self) -> str:
        parts = [
            plural(self.steps, "step") if self.steps is not None else "",
            plural(self.episodes, "episode") if self.episodes is not None else "",
            f"{self.seconds:g} s" if self.seconds is not None else "",
        ]
        return listed(filter(None, parts), word="or") or "no limit"


class ImprovementLeft(Record):
    """What is left of a budget; null: as much as is liked."""

    steps: int | None = Field(default=None, ge=0, description="Steps.")
    episodes: int | None = Field(default=None, ge=0, description="Episodes.")
    seconds: float | None = Field(default=None, ge=0, description="Time.")

    @property
    def ended(self) -> BudgetPart:
        """The part of the budget that is used up; empty if none is."""
        return (
            "steps" if self.steps == 0 else "episodes" if self.episodes == 0 else "seconds" if self.seconds == 0 else ""
        )


def read_budget(text: str) -> ImprovementBudget:
    """Read a budget: parts with commas between them, of which the first that is used up ends the improvement.

    Args:
        text: `10` or `10steps`; `500ep`; `90s`, `30m`, `2h` or `1d`; or several of them: `10,2h`.

    Raises:
        UsageError: It is no budget, or one kind is named twice (`bad_budget`).
    """
    found: dict[str, float] = {}
    for part in text.lower().split(","):
        match = _PART.fullmatch(part.strip())
        unit = match["unit"] if match is not None else None
        kind = "steps" if unit in _STEPS else "episodes" if unit in _EPISODES else "seconds" if unit in _SECONDS else ""
        number = float(match["number"]) if match is not None else 0.0
        if not kind or kind in found or not number or (kind != "seconds" and not number.is_integer()):
            raise UsageError(
                f"{text!r} is not a budget.",
                code="bad_budget",
                hint="Write 10 (steps), 500ep (episodes), 30m or 2h, or several: 10,2h.",
            )
        found[kind] = number * _SECONDS[unit or ""] if kind == "seconds" else number
    return ImprovementBudget(
        steps=int(found["steps"]) if "steps" in found else None,
        episodes=int(found["episodes"]) if "episodes" in found else None,
        seconds=found.get("seconds"),
    )
