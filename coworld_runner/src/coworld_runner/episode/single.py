"""Plays one episode of a plan, a package, or a reference to a package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from coworld_core.errors import CapabilityError, ImageError
from coworld_core.hints import Hint
from coworld_core.text.phrases import listed

from ..backend import Backend
from ..package.plan import EpisodePlan
from ..package.player_names import SeatPlayer
from ..package.resolver import Package
from .episode_inputs import Setup
from .episode_options import ContractProbe, EpisodeOptions, OnReady
from .episode_recorder import require_recording
from .flow import Flow
from .https_access import require_way_out
from .model_place import require_models
from .player_images import require_players
from .run_context import entered_backend, find_plan
from .run_options import EpisodeArguments, RunOptions
from .run_start import open_run
from .unit_specs import wants_gpu

if TYPE_CHECKING:
    from coworld_core.episode.record import EpisodeRecord

__all__ = ["ContractProbe", "EpisodeOptions", "require_images", "run_episode"]


async def run_episode(
    what: EpisodePlan | Package | str | os.PathLike[str],
    *,
    variant: str | None = None,
    players: Sequence[SeatPlayer] = (),
    seed: int | None = None,
    config: Mapping[str, Any] | None = None,
    on_ready: OnReady | None = None,
    probe: ContractProbe | None = None,
    **run: Unpack[EpisodeArguments],
) -> EpisodeRecord:
    """Play one episode and leave its evidence in a workspace.

    ::

        record = await run_episode("examples/paintarena", players=["frontier-painter"])

    In a script, call it from a function that `anyio.run` or `asyncio.run` runs.

    Args:
        what: A package, a reference that `resolve_package` accepts, or a complete plan.
        variant: Id of a variant of the package, as for `plan_episode`.
        players: The players, as for `plan_episode`.
        seed: The seed, as for `plan_episode`.
        config: Changes to the game config, as for `plan_episode`: `{"sticks": 5}`.
        on_ready: Called once the game can be reached, with the links for browsers.
        probe: Further checks to make while the game runs.
        run: Where and how to play: `backend`, `workspace`, `options`, `overwrite`, `listeners`, `latest`, `run_id`,
            `labels`, `hooks`, as described in `EpisodeArguments`.

    Returns:
        The record, also written as `episode.json`. Its `faults` list what a game or a player did wrong.

    Raises:
        UsageError: There is no such package, variant, player or backend, or arguments repeat what a plan includes.
        ManifestError: The manifest has errors, or the config does not satisfy the game's schema.
        HookError: A hook failed, did not end in time, or returned no plan to play; nothing was started.
        WorkspaceError: The workspace is not fresh, not writable or another run's; nothing was started.
        CapabilityError: The backend cannot provide something that is required; nothing was started.
        ImageError: An image is not available; nothing was started.
        EnvironmentFault: The machine or the engine failed; the record says how far it got.
    """
    options = RunOptions.of(EpisodeArguments, run)
    episode = options.options or EpisodeOptions()
    plan, origin = await find_plan(what, variant=variant, players=players, seed=seed, config=config)
    plan = plan.tagged(options.labels)
    if options.hooks:
        from .plan_hooks import apply_hooks

        plan = await apply_hooks(plan, options.hooks, timeout=episode.hook_timeout_seconds)
    async with entered_backend(options.backend, origin, install=options.install) as backend:
        require_images(plan, backend)
        require_players(plan, backend, episode)
        _require(backend, episode)
        require_way_out(plan, backend, episode)
        require_recording(plan, backend, episode)
        require_models(backend, episode)
        _require_gpu(backend, plan)
        with open_run(options, origin) as opened:
            setup = Setup(plan=plan, backend=backend, options=episode, run=opened, tokens=plan.new_tokens())
            return await Flow(setup, on_ready, probe).play()


def require_images(plan: EpisodePlan, backend: Backend) -> None:
    """Refuse image placeholders on a backend that runs images.

    Raises:
        ImageError: An image of the game or of a player is not built yet.
    """
    unbuilt = [image for image in plan.images if "{{" in image]
    if backend.capabilities.images and unbuilt:
        raise ImageError(
            f"{plan.manifest.game.name} is a template: {listed(unbuilt)} {'is' if len(unbuilt) == 1 else 'are'} not "
            f"built yet, and the {backend.name} backend runs images.",
            code="images_not_built",
            hint=Hint("build_images", 'Build them with build_coworld, or run local processes with backend="process".'),
        )


def _require_gpu(backend: Backend, plan: EpisodePlan) -> None:
    programs = {"the game": plan.manifest.game.runnable} | {
        f"player {slot}": seat.runnable
        for slot, seat in enumerate(plan.seats)
        if seat.runnable is not None and seat.has_unit
    }
    wanting = [who for who, runnable in programs.items() if wants_gpu(runnable)]
    if wanting and not backend.capabilities.gpu:
        raise CapabilityError(
            f"The {backend.name} backend cannot provide a graphics processor, and {listed(wanting)} asks for one "
            "(resources.requests.gpu).",
            hint="Use a machine or a cluster that has one, or leave that request out of the manifest.",
            context={"backend": backend.name, "capability": "gpu"},
        )


def _require(backend: Backend, options: EpisodeOptions) -> None:
    for name in options.required:
        if not getattr(backend.capabilities, name):
            raise CapabilityError(
                f"The {backend.name} backend has no {name.replace('_', ' ')}, which this episode requires.",
                hint=Hint("other_backend", 'Use a backend that can (backend="docker"), or do not ask for it.'),
                context={"backend": backend.name, "capability": name},
            )
