"""What a hosted game plays and who sits where, and the runner's plan of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coworld_core.errors import UsageError

from ..errors import Refusal
from ..identity.auth import Caller
from ..store.columns import now
from ..store.models import Coworld
from ..work.lineups import Candidate
from ..work.new_episodes import participant

if TYPE_CHECKING:
    from coworld_runner.package import EpisodePlan

    from ..services import Services
    from ..work.admission import Admission

__all__ = ["HostedGame", "SeatedPerson", "game_for_people", "plan_game"]


@dataclass(frozen=True, kw_only=True)
class SeatedPerson:
    """The person in a slot."""

    slot: int
    subject_id: str
    user_id: str
    player_id: str | None
    name: str
    at: dt.datetime

    @classmethod
    def of(cls, caller: Caller, slot: int) -> SeatedPerson:
        """A caller who takes a slot."""
        user = caller.require()
        return cls(
            slot=slot,
            subject_id=caller.subject_id or user.id,
            user_id=user.id,
            player_id=caller.player_id,
            name=caller.player.name if caller.player else user.name,
            at=now(),
        )


@dataclass(frozen=True, kw_only=True)
class HostedGame:
    """A game to be hosted. Slots without a policy are for people."""

    coworld_id: str
    variant: str
    config: Mapping[str, Any]
    """Without tokens."""
    slots: int
    policies: Mapping[int, Candidate] = field(default_factory=dict[int, Candidate])
    """Policies by slot."""
    people: Mapping[int, SeatedPerson] = field(default_factory=dict[int, SeatedPerson])
    """People who have their slots before it starts."""


def game_for_people(coworld: Coworld, variant: str | None) -> HostedGame:
    """A Coworld's variant, or its first, with all slots for people.

    Raises:
        Refusal: 404 if there is no such variant.
    """
    from ..work.game_setup import setup_of

    try:
        setup = setup_of(coworld, variant)
    except UsageError as error:
        raise Refusal(404 if error.code == "unknown_variant" else 400, error.message, code=error.code) from error
    return HostedGame(coworld_id=coworld.id, variant=setup.variant, config=setup.config, slots=setup.seats)


async def plan_game(services: Services, admission: Admission, game: HostedGame) -> EpisodePlan:
    """Plan a hosted game, with only such programs as may run here.

    Raises:
        ManifestError: The manifest can no longer be read.
        CapabilityError: A program may not run here.
        ImageError: An image is not available.
        UsageError: A policy version no longer exists.
        EnvironmentFault: A policy's secrets were changed (code `key_wrong`).
    """
    from coworld_runner.package import EpisodePlan, Seat, plan_for_people

    from ..work.plan import load_seat, runnable_manifest

    async with services.database.reading() as db:
        coworld = await db.get_one(Coworld, game.coworld_id)
        manifest = await runnable_manifest(db, coworld, admission)
        seats: list[Seat] = []
        for slot in range(game.slots):
            if (policy := game.policies.get(slot)) is not None:
                seated = participant("", slot, policy)
                seat, _ = await load_seat(services, db, coworld, manifest, seated, admission)
            else:
                person = game.people.get(slot)
                seat = Seat(name=person.name if person is not None else f"player {slot}", runnable=None)
            seats.append(seat)
    plan = EpisodePlan(
        manifest=manifest, game_config=game.config, seats=tuple(seats), variant=game.variant, source=game.coworld_id
    )
    return plan_for_people(plan)
