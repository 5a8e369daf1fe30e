"""From an episode's row to the runner's plan: manifest, config, seats and secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import joinedload

from coworld_core.errors import CoworldError, UsageError
from coworld_core.manifest import Manifest, Runnable, load_manifest
from coworld_runner.package import EpisodePlan, Seat

from ..episodes.stats import SeatNames
from ..services import Services
from ..store.models import CHECK, Coworld, EpisodeRequest, League, Participant, PolicyVersion
from ..store.player_files import read_player
from .admission import Admission
from .league_settings import LeagueSettings
from .seat_files import SeatLimits
from .secret_references import resolve_secrets

__all__ = ["Job", "load_job", "load_seat", "policy_runnable", "runnable_manifest"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One episode, ready to be played."""

    plan: EpisodePlan
    seats: tuple[SeatNames, ...]
    limits: SeatLimits
    """What each seat may leave."""
    is_check: bool = False
    """Whether a newcomer to a league is checked, which must move."""


async def load_job(services: Services, episode_id: str, admission: Admission) -> Job:
    """Load an episode as a job for the runner.

    Raises:
        ManifestError: The manifest can no longer be read.
        CapabilityError: A program may not run here.
        ImageError: An image is not available.
        UsageError: A seat names a player that does not exist, or the manifest names such a secret.
        EnvironmentFault: Secrets were changed (code `key_wrong`).

    An error that concerns a policy has its seat in its context, as `seat`.
    """
    async with services.database.reading() as session:
        row = await session.get_one(EpisodeRequest, episode_id)
        coworld = await session.get_one(Coworld, row.coworld_id)
        league = await session.get(League, row.league_id) if row.league_id is not None else None
        manifest = await runnable_manifest(session, coworld, admission)
        game = manifest.game.runnable
        secrets = await resolve_secrets(session, services.vault, coworld, game.env, of="the game")
        seats: list[tuple[Seat, SeatNames]] = []
        for seat in row.participants:
            try:
                seats.append(await load_seat(services, session, coworld, manifest, seat, admission))
            except CoworldError as error:
                if seat.policy_version_id is not None:
                    error.context["seat"] = seat.position
                raise
    return Job(
        plan=EpisodePlan(
            manifest=manifest,
            game_config=row.game_config,
            seats=tuple(seat for seat, _ in seats),
            variant=row.variant_id or "episode-request",
            source=coworld.id,
            manifest_sha256=coworld.manifest_hash.removeprefix("sha256:"),
            episode_tags={"episode_request_id": row.id},
            policy_names=tuple(seat.name for seat, _ in seats),
            secret_files=secrets,
        ),
        seats=tuple(names for _, names in seats),
        is_check=row.source == CHECK,
        limits=LeagueSettings.of(league.commissioner_config).seat_limits if league is not None else SeatLimits(),
    )


async def runnable_manifest(session: AsyncSession, coworld: Coworld, admission: Admission) -> Manifest:
    """The manifest of a Coworld, with its game replaced by the program that may run here.

    Raises:
        ManifestError: It can no longer be read.
        CapabilityError: The game may not run here.
        ImageError: Its image is not available.
    """
    manifest = load_manifest(dict(coworld.manifest), template=True).manifest
    admitted = await admission.admit(session, manifest.game.runnable, owner=coworld.user_id)
    changes: dict[str, object] = {"runnable": admitted.runnable}
    if admitted.config_schema is not None:
        changes["config_schema"] = admitted.config_schema
    return manifest.model_copy(update={"game": manifest.game.model_copy(update=changes)})


async def load_seat(
    services: Services,
    session: AsyncSession,
    coworld: Coworld,
    manifest: Manifest,
    seat: Participant,
    admission: Admission,
) -> tuple[Seat, SeatNames]:
    """Load the program in a seat, if it may run here, with its secrets.

    Raises:
        CapabilityError: The program may not run here.
        ImageError: Its image is not available.
        UsageError: The seat names a player or a policy version that no longer exists.
        EnvironmentFault: Secrets were changed (code `key_wrong`).
    """
    if seat.policy_version_id is None:
        return await _bundled(services, session, coworld, manifest, seat, admission), SeatNames()
    version = await session.scalar(
        sa.select(PolicyVersion)
        .where(PolicyVersion.id == seat.policy_version_id)
        .options(joinedload(PolicyVersion.image))
    )
    if version is None:
        raise UsageError(f"The policy version in seat {seat.position} no longer exists.", code="policy_gone")
    secrets = await services.vault.policy_env(session, version.secret_env_id)
    label = f"{seat.policy_name}:v{seat.version}"
    names = SeatNames(policy_version_id=version.id, policy_name=seat.policy_name, policy_version=seat.version)
    own = await read_player(services.blobs, session, version.image)
    if own is not None:
        given = load_manifest(dict(coworld.manifest), template=True).manifest
        runnable, own = await admission.admit_files(session, own, given, owner=version.user_id)
        return Seat(name=label, runnable=runnable, own=own, secret_env=secrets), names
    admitted = await admission.admit(session, policy_runnable(version), owner=version.user_id, secrets=secrets)
    return Seat(name=label, runnable=admitted.runnable, secret_env=secrets), names


def policy_runnable(version: PolicyVersion) -> Runnable:
    """The program of a policy version that is an image, as it was asked for."""
    run: list[Any] = version.run or []
    return Runnable(type="player", image=version.image_id, run=tuple(str(part) for part in run))


async def _bundled(
    services: Services,
    session: AsyncSession,
    coworld: Coworld,
    manifest: Manifest,
    seat: Participant,
    admission: Admission,
) -> Seat:
    player = next((entry for entry in manifest.player if entry.id == seat.bundled_player), None)
    if player is None:
        raise UsageError(f"The Coworld no longer has a player {seat.bundled_player!r}.", code="unknown_player")
    runnable = player.as_runnable()
    return Seat(
        name=player.id,
        runnable=(await admission.admit(session, runnable, owner=coworld.user_id)).runnable,
        player_id=player.id,
        secret_files=await resolve_secrets(
            session, services.vault, coworld, runnable.env, of=f"the player {player.id!r}"
        ),
    )
