"""Games on the same links, one after the other, as long as somebody wants one."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..package import EpisodePlan
    from ..web import Gateway

__all__ = ["iter_rematches"]


async def iter_rematches(plan: EpisodePlan, gateway: Gateway | None) -> AsyncGenerator[tuple[int, EpisodePlan]]:
    """Number and plan of a game and of its rematches: all have the same tokens, so the links at the gateway stay valid.

    Ask for the next one once an episode has ended. It comes when somebody asks the gateway for a game, as the button
    `Rematch` of a page does.

    Args:
        plan: The first game; where it has a seed, each further one has the next seed.
        gateway: The way to the games, opened with `again=True`; lead it to each of them. None: there is one game.
    """
    if gateway is None:
        yield 0, plan
        return
    plan = dataclasses.replace(plan, tokens=plan.new_tokens())
    for index in count():
        yield index, plan.for_episode(index)
        await gateway.wanted()
