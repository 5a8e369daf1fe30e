"""The names of a commissioner's hooks; a module of its own, so that a command line can offer them without delay."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["HOOKS", "HookName"]

HookName = Literal["episode_completed", "round_completed", "rank_division", "describe_division"]
"""What a commissioner can be asked: after each episode, after each round, for standings, and for a description."""
HOOKS: tuple[HookName, ...] = get_args(HookName)
"""All of them."""
