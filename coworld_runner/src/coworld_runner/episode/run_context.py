"""What a run plays, and on which backend."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.manifest.game_config import only_variant

from ..backend import Backend
from ..package.plan import EpisodePlan
from ..package.player_names import SeatPlayer
from ..package.resolver import Package, resolve_package
from ..package.variant_plans import plan_variants
from .backend_choice import open_backend

__all__ = ["entered_backend", "find_plan", "find_plans"]


async def find_plans(
    what: EpisodePlan | Sequence[EpisodePlan] | Package | str | os.PathLike[str],
    *,
    variant: str | None,
    players: Sequence[SeatPlayer],
    seed: int | None,
    config: Mapping[str, Any] | None,
) -> tuple[tuple[EpisodePlan, ...], Package | str]:
    """Return the plans of what to play, one for each variant, and its package.

    Of given plans, only where their manifest was read from is known of the package.

    Raises:
        UsageError: A plan was given together with an option that it already contains, or no plan at all.
    """
    if not isinstance(what, EpisodePlan | Sequence) or isinstance(what, str):
        package = await resolve_package(what)
        return plan_variants(package, variant=variant, players=players, seed=seed, config=config), package
    plans = (what,) if isinstance(what, EpisodePlan) else tuple(what)
    if variant is not None or players or seed is not None or config:
        raise UsageError(
            "A plan already contains variant, players, seed and config.",
            code="plan_excludes_options",
            hint="Give them to plan_episode, or name the package instead of the plan.",
        )
    if not plans:
        raise UsageError("There is no plan to play.", code="bad_count")
    return plans, plans[0].source


async def find_plan(
    what: EpisodePlan | Package | str | os.PathLike[str],
    *,
    variant: str | None,
    players: Sequence[SeatPlayer],
    seed: int | None,
    config: Mapping[str, Any] | None,
) -> tuple[EpisodePlan, Package | str]:
    """Return the plan of what to play, and its package, as `find_plans`.

    Raises:
        UsageError: As `find_plans`, or code `several_variants`.
    """
    if variant is not None and not isinstance(what, EpisodePlan):
        what = await resolve_package(what)
        variant = only_variant(what.manifest, variant).id
    (plan,), origin = await find_plans(what, variant=variant, players=players, seed=seed, config=config)
    return plan, origin


@asynccontextmanager
async def entered_backend(
    backend: Backend | AbstractAsyncContextManager[Backend] | str, origin: Package | str, *, install: bool = False
) -> AsyncGenerator[Backend]:
    """Open the backend of a run, unless the caller has entered it.

    Args:
        backend: The backend, what enters one, or the name of one.
        origin: The package that is run; of a plan, only where its manifest was read from.
        install: Whether the backend that is opened installs what the package needs (see `RunArguments`).

    Raises:
        UsageError: There is no backend of that name, a backend is named without a package, one that is open already was
            to install, or the package is a platform's game (`hosted_game`).
    """
    if isinstance(origin, Package) and origin.policies is not None:
        raise UsageError(
            f"{origin.manifest.game.name} is a game of a platform, and is played there.",
            code="hosted_game",
            hint="Measure its policies with venue=HostedVenue(controller, game), or download it to play it here.",
        )
    if isinstance(backend, Backend):
        if install:
            raise UsageError(
                "A backend that is open already cannot be told to install.",
                code="backend_open",
                hint="Give install to open_backend or make_backend, or name the backend instead.",
            )
        yield backend
    elif not isinstance(backend, str):
        async with backend as opened:
            yield opened
    elif isinstance(origin, str):
        raise UsageError(
            "A plan does not say where its images are built, so no backend can be opened for it by name.",
            code="backend_not_open",
            hint="Name the package instead of the plan, or open the backend with open_backend.",
        )
    else:
        async with open_backend(backend, origin, install=install) as (opened, _):
            yield opened
