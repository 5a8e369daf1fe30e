"""Plays the episodes that follow a smoke episode without faults: with bad clients, lost connections, the same seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from coworld_core.episode.record import EpisodeRecord, read_record
from coworld_core.errors import UsageError
from coworld_core.manifest.models import GAME_HOSTED
from coworld_core.ports import EXTRA_PORTS_ENV

from ..backend import Backend
from ..episode.single import ContractProbe, EpisodeOptions, run_episode
from ..package.plan import EpisodePlan, plan_episode
from ..package.resolver import Package
from .certification_record import Evidence
from .client_behaviour import BadClients, LostConnections
from .step_answers import advice, fault_evidence, note, required

__all__ = ["FurtherEpisodes", "play_further"]

_SPARE_SECONDS: Final = 60.0
_SLOWDOWN: Final = 4.0
"""How much longer an episode may take than the smoke episode, as several run at once, apart from the spare seconds."""
_SEED: Final = 1
_BAD_CLIENTS, _LOST_CONNECTIONS, _SAME_SEED = "bad-clients", "lost-connections", ("same-seed", "same-seed-again")


@dataclass(frozen=True, kw_only=True)
class FurtherEpisodes:
    """What the further episodes have shown."""

    clients: tuple[Evidence, ...]
    """How the game copes with clients."""
    results: tuple[Mapping[str, Any] | None, ...] | None
    """Results of two episodes with the same seed, None for one without; None if the game takes no seed."""
    tokens: tuple[tuple[str, ...], ...]
    """The tokens of each episode."""


async def play_further(
    package: Package, smoke: EpisodeRecord, *, backend: Backend, options: EpisodeOptions, workspace: Path
) -> FurtherEpisodes:
    """Play them at the same time, if the backend is on this machine and the game needs no fixed ports.

    Args:
        package: The Coworld.
        smoke: The smoke episode, which had no faults.
        backend: An entered backend.
        options: Those of the smoke episode; the time limit is derived from how long that took.
        workspace: The certification's; each episode gets a directory of its own in it.
    """
    most = _SLOWDOWN * smoke.seconds + min(_SPARE_SECONDS, options.timeout_seconds)
    options = dataclasses.replace(options, timeout_seconds=most, watch=False)
    alone = backend.capabilities.remote or package.manifest.game.runnable.env.get(EXTRA_PORTS_ENV)
    gate = anyio.CapacityLimiter(1 if alone else 3)
    bad, lost = BadClients(), LostConnections()
    records: dict[str, EpisodeRecord] = {}

    async def play(name: str, plan: EpisodePlan, probe: ContractProbe | None = None) -> None:
        # The game decides about players that fail: only what the game does is of interest
        how = dataclasses.replace(options, on_player_failure="continue") if probe else options
        async with gate:
            records[name] = await run_episode(
                plan, backend=backend, workspace=workspace / name, options=how, probe=probe
            )

    async def lose() -> None:
        async with anyio.create_task_group() as group:

            async def end() -> None:
                await lost.done.wait()
                group.cancel_scope.cancel()

            group.start_soon(end)
            await play(_LOST_CONNECTIONS, plan_episode(package), lost)
            group.cancel_scope.cancel()

    hosted = package.manifest.game.player_runtime == GAME_HOSTED
    twice = _same_seed(package, smoke)
    async with anyio.create_task_group() as group:
        group.start_soon(play, _BAD_CLIENTS, plan_episode(package), bad)
        if not hosted:
            group.start_soon(lose)
        for name, plan in twice.items():
            group.start_soon(play, name, plan)
    results = [records[name].results for name in twice]
    if len(results) == 1:
        results.append(smoke.results)
    finished = _finished(records[_BAD_CLIENTS], _BAD_CLIENTS, timeout=most)
    if bad.suspicion is not None and any(item.broken for item in finished):
        finished.insert(0, bad.suspicion)
    admitted = lost.evidence
    if not hosted and read_record(workspace / _LOST_CONNECTIONS).over_seconds is not None:
        # A game that is over need not admit anyone
        admitted = [item for item in admitted if item.ok]
    clients = (*bad.evidence, *finished, *admitted)
    return FurtherEpisodes(
        clients=(*clients, *_not_checked(clients, hosted=hosted)),
        results=tuple(results) or None,
        tokens=(bad.tokens, lost.tokens),
    )


def _same_seed(package: Package, smoke: EpisodeRecord) -> dict[str, EpisodePlan]:
    """Return the plans to compare: one if the smoke episode had a seed, none if the game takes no seed."""
    plan = plan_episode(package)
    if plan.seed is not None:
        return {_SAME_SEED[0]: dataclasses.replace(plan, player_secret=smoke.player_secret)}
    try:
        return dict.fromkeys(_SAME_SEED, plan_episode(package, seed=_SEED))
    except UsageError:
        return {}


def _finished(record: EpisodeRecord, directory: str, *, timeout: float) -> list[Evidence]:
    """Say whether the game has finished in spite of bad clients."""
    if any(fault.error_type == "episode_timeout" for fault in record.faults):
        message = f"After bad messages, the game was not over within {timeout:.0f} s."
        hint = "The loop that plays the game must not end, or wait, because of what one client has sent."
        return [required("finishes", ok=False, message=message, hint=hint, artifact=f"{directory}/logs")]
    faults = [fault for fault in record.faults if fault.party == "game"]
    if faults:
        return [fault_evidence(fault, directory) for fault in faults]
    if record.results is None:
        why = record.faults[0].message if record.faults else "it left no results."
        return [advice("finishes", f"After bad messages, the game was not played to its end: {why}")]
    return [required("finishes", ok=True, message="After bad messages, the game was played to its end.")]


def _not_checked(evidence: tuple[Evidence, ...], *, hosted: bool) -> list[Evidence]:
    """Say what could not be checked, because the game was over too soon or had gone."""
    had = {item.code for item in evidence}
    checks = {"reconnects": "a player was lost", "viewer_after_end": "a viewer could come after its end"}
    return [
        note(code, f"Not checked: the game was over before {when}.")
        for code, when in checks.items()
        if code not in had and not hosted
    ]
