"""What an operator has said of how a league plays, as ``League.commissioner_config`` has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["LeagueTerms"]


class LeagueTerms(BaseModel):
    """How a league plays. Keys that are not known here are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    every_seconds: float = Field(default=60.0, ge=0)
    """Between the beginnings of two rounds, at least."""
    pairing: str = "free-play"
    """Who meets whom: a name of the entry point group ``coworld.pairings``."""
    rounds: int | None = Field(default=None, ge=1)
    """Of a season; None: until the pairing has no more, or an operator closes it."""
    blocks: int = Field(default=1, ge=1, le=100)
    """How often two that meet play a block, in which everybody sits in every seat."""
    moves: int = Field(default=0, ge=0)
    """How many change places between neighbouring divisions at the end of a season."""
    size: int = Field(default=8, ge=1)
    """How many a division above the lowest has before somebody must leave it."""
    check: bool = False
    """Whether what is submitted plays an episode with itself before it competes."""
    faults: int | None = Field(default=None, ge=1)
    """After how many episodes in a row with a fault of its own a policy is disqualified; None: never."""

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> LeagueTerms:
        """The terms of a league."""
        return cls.model_validate(dict(config or {}))
