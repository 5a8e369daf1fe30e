"""Resolves a lobby: the lobby itself, its league's champions, the seats of a draft, and the game that it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api
from coworld_core.errors import ManifestError, UsageError
from coworld_core.manifest import (
    GAME_HOSTED,
    Manifest,
    game_config_for,
    load_manifest,
    slot_count,
    token_bounds,
    with_input_controls,
)

from ..errors import Refusal, conflict, explained, forbidden, not_found
from ..hosted.games import HostedGame, SeatedPerson
from ..hosted.lobbies import LIFETIME, LobbySeat, seats_of, write_seats
from ..identity.auth import Caller
from ..store.columns import JsonObject, new_id, now
from ..store.kept_labels import set_labels
from ..store.models import Coworld, League, Lobby
from ..work.lineups import Candidate, ResolvedEntry, draw_seats, episode_configs, plan_config
from .experience_roster import league_champions, league_coworld
from .leagues import find_league, visible_leagues

__all__ = ["Bounds", "bounds_of", "chosen_seat", "draft", "find_lobby", "require_host", "seated_game"]

MOST_DRAFTS = 20
"""The most drafts of one account at a time."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The fewest and the most seats that a game can be played with."""

    least: int
    most: int


def bounds_of(manifest: Manifest) -> Bounds:
    """The bounds of a game, no higher than what one request may name."""
    least, most = token_bounds(manifest)
    return Bounds(least=max(least, 1), most=min(most, api.MAX_ROSTER))


async def find_lobby(session: AsyncSession, caller: Caller, lobby_id: str, *, lock: bool = False) -> Lobby:
    """Find a lobby of a league that the caller may see.

    Args:
        session: A session.
        caller: The caller.
        lobby_id: The lobby's id.
        lock: Whether to lock its row until the end of the transaction.

    Raises:
        Refusal: 404 if there is none.
    """
    leagues = visible_leagues(caller).with_only_columns(League.id)
    statement = sa.select(Lobby).where(Lobby.id == lobby_id, Lobby.league_id.in_(leagues))
    if lock:
        statement = statement.with_for_update(of=Lobby)
    lobby = await session.scalar(statement)
    if lobby is None:
        raise not_found("lobby", lobby_id)
    return lobby


def require_host(lobby: Lobby, caller: Caller) -> None:
    """Refuse callers who have not drafted a lobby.

    Raises:
        Refusal: 403.
    """
    if not caller.owns(lobby.user_id, lobby.player_id):
        raise forbidden(f"Only the host of the lobby {lobby.id}, {lobby.user.name}, may do this.", code="not_host")


async def draft(session: AsyncSession, caller: Caller, league_id: str, body: api.LobbyBody) -> Lobby:
    """Draft a lobby in a league.

    The caller sits in seat 0, the newest champion in seat 1, and any champion in the others, up to the number of
    players; the rest is closed. The seats of the request replace these.

    Raises:
        Refusal: 404 for a league, Coworld or variant that does not exist or is hidden from the caller; 400 for settings
            that do not fit the game; 429 while the caller has too many drafts.
    """
    user = caller.require()
    await _require_few(session, caller)
    league = await find_league(session, caller, league_id)
    coworld = await league_coworld(session, caller, league)
    manifest = load_manifest(dict(coworld.manifest), template=True).manifest
    if manifest.game.player_runtime == GAME_HOSTED:
        raise Refusal(
            400,
            f"{coworld.name} runs its players itself, from files, so people cannot play in it and it has no lobbies.",
            code="unsupported_runtime",
        )
    variant = body.variant_id or league.variant_id or manifest.variants[0].id
    overrides = body.game_config_overrides or {}
    bounds = bounds_of(manifest)
    try:
        count = body.num_players or _usual_count(manifest, {**game_config_for(manifest, variant), **overrides}, bounds)
        plan_config(manifest, variant, overrides, seats=count)
    except (ManifestError, UsageError) as error:
        status = 404 if error.code == "unknown_variant" else 400
        raise Refusal(status, explained(error), code=error.code) from error
    champions = await league_champions(session, caller, league.id)
    seats = [LobbySeat(kind="random" if at < count else "closed") for at in range(bounds.most)]
    seats[0] = LobbySeat.of_person(caller)
    if champions and count > 1:
        seats[1] = LobbySeat.of_champion(champions[0])
    for choice in body.seats or ():
        if choice.position >= len(seats):
            raise Refusal(
                400,
                f"There is no seat {choice.position}: {coworld.name} has at most {len(seats)} seats.",
                code="bad_slot",
            )
        seats[choice.position] = chosen_seat(choice.kind, choice.player_id, champions)
    moment = now()
    row = Lobby(
        id=new_id("lby"),
        league_id=league.id,
        coworld_id=coworld.id,
        user_id=user.id,
        player_id=caller.player_id,
        variant_id=variant,
        overrides=overrides,
        seats=write_seats(seats),
        revision=1,
        created_at=moment,
        expires_at=moment + LIFETIME,
    )
    session.add(row)
    await set_labels(session, row.id, body.tags)
    return await find_lobby(session, caller, row.id)


def chosen_seat(kind: api.SeatKind, player_id: str | None, champions: tuple[Candidate, ...]) -> LobbySeat:
    """A seat as its host wants it.

    Raises:
        Refusal: 400 for a player without a champion that the host may seat.
    """
    if kind != "league_player":
        return LobbySeat(kind=kind)
    champion = next((champion for champion in champions if champion.subject_id == player_id), None)
    if champion is None:
        raise _no_champion(player_id)
    return LobbySeat.of_champion(champion)


async def seated_game(session: AsyncSession, caller: Caller, lobby: Lobby) -> HostedGame:
    """The game that a lobby starts, with its seats taken and its policies chosen.

    Closed seats are left out: the others are the game's slots, in their order.

    Raises:
        Refusal: 409 if a seat still waits for a person, nobody plays, or there are no champions (any more); 400 if the
            seats do not fit the game; 404 if its Coworld is hidden from the caller (by now).
    """
    league = await find_league(session, caller, lobby.league_id)
    coworld = await league_coworld(session, caller, league, lobby.coworld_id)
    seats = [(at, seat) for at, seat in enumerate(seats_of(lobby)) if seat.kind != "closed"]
    waiting = [str(at) for at, seat in seats if seat.kind == "human_open"]
    if waiting:
        raise conflict(
            f"Seat {waiting[0]} is still open. Have a person claim it, assign a policy to it, or close it.",
            code="seats_open",
        )
    if not any(seat.kind == "human" for _, seat in seats):
        raise conflict(
            "No person has a seat. Claim one, or request an episode of policies alone with POST "
            "/v2/experience-requests.",
            code="nobody_seated",
        )
    policies = _drawn(dict(enumerate(seat for _, seat in seats)), await league_champions(session, caller, league.id))
    people = {
        slot: SeatedPerson(
            slot=slot,
            subject_id=seat.subject_id or "",
            user_id=seat.user_id or "",
            player_id=seat.player_id,
            name=seat.name or "",
            at=now(),
        )
        for slot, (_, seat) in enumerate(seats)
        if seat.kind == "human"
    }
    return HostedGame(
        coworld_id=coworld.id,
        variant=lobby.variant_id,
        config=_config(coworld, lobby, policies, people),
        slots=len(seats),
        policies=policies,
        people=people,
    )


def _config(
    coworld: Coworld, lobby: Lobby, policies: Mapping[int, Candidate], people: Mapping[int, SeatedPerson]
) -> JsonObject:
    manifest = load_manifest(dict(coworld.manifest), template=True).manifest
    slots = range(len(policies) + len(people))
    names = [policies[slot].label if slot in policies else people[slot].name for slot in slots]
    try:
        config = plan_config(manifest, lobby.variant_id, lobby.overrides, seats=len(names))
        (named,) = episode_configs(manifest, config, [names], seed_pinned=True)
    except (ManifestError, UsageError) as error:
        raise Refusal(400, explained(error), code=error.code) from error
    return with_input_controls(manifest, named, people)


def _drawn(seats: Mapping[int, LobbySeat], champions: tuple[Candidate, ...]) -> dict[int, Candidate]:
    """The policies of seats that are not for people, by slot."""
    by_player = {champion.subject_id: champion for champion in champions}
    entries: dict[int, ResolvedEntry] = {}
    for slot, seat in seats.items():
        if seat.kind == "league_player":
            if seat.player_id not in by_player:
                raise _no_champion(seat.name or seat.player_id, status=409)
            entries[slot] = ResolvedEntry(policy=by_player[seat.player_id])
        elif seat.kind == "random":
            entries[slot] = ResolvedEntry(random=True)
    if not entries:
        return {}
    try:
        (drawn,) = draw_seats(list(entries.values()), episodes=1, pool=champions, seed=new_id())
    except UsageError as error:
        raise conflict(
            "The league has no champion that you may seat. Leave the seat to a person.", code=error.code
        ) from error
    return dict(zip(entries, drawn, strict=True))


def _usual_count(manifest: Manifest, config: JsonObject, bounds: Bounds) -> int:
    try:
        return slot_count(manifest, config)
    except UsageError as error:
        if error.code != "slots_unknown":
            raise
        return bounds.least


async def _require_few(session: AsyncSession, caller: Caller) -> None:
    user = caller.require()
    there = await session.scalar(
        sa.select(sa.func.count())
        .select_from(Lobby)
        .where(
            Lobby.user_id == user.id,
            Lobby.session_id.is_(None),
            Lobby.cancelled_at.is_(None),
            Lobby.expires_at > now(),
        )
    )
    if (there or 0) >= MOST_DRAFTS and not user.is_team:
        raise Refusal(
            429,
            f"You have {there} lobbies that have not been started. Start or cancel one, or wait until one expires.",
            code="quota_exceeded",
            headers={"Retry-After": "60"},
        )


def _no_champion(player: str | None, *, status: int = 400) -> Refusal:
    return Refusal(
        status,
        f"{player!r} has no champion in this league that you may seat. Choose another player.",
        code="no_champion",
    )
