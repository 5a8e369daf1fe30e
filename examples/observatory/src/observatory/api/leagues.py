"""Games, leagues and divisions, and the seeds that create leagues."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import Query, Response
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api
from coworld_core.api import HostedRole
from coworld_core.errors import CoworldError
from coworld_core.manifest import load_manifest
from coworld_core.tournament import Commissioned
from coworld_runner.evaluation.commissioner import declared_commissioner
from coworld_runner.evaluation.tournament import find_pairing

from ..errors import conflict, invalid, not_found
from ..identity.auth import Caller
from ..names import Name, NameRefused, look_alike, name_key, new_name
from ..store.audit import audit
from ..store.columns import JsonObject
from ..store.models import Coworld, CoworldName, Division, Game, League, LeagueSeed, Membership, Round, Season
from ..work.league_members import bench_surplus
from ..work.league_settings import LeagueSettings, describe_division
from ..work.role_orders import declared_roles, to_declare
from ..work.seasons import COMMISSIONED, CONTINUOUS, last_report, living_divisions, locked_league, season_table
from .routing import Anyone, ApiRouter, Json, QueryModel, Team, refusals
from .serializers import division_json, game_json, league_json

__all__ = [
    "LeagueError",
    "change_league_settings",
    "create_league",
    "find_division",
    "find_league",
    "league_divisions",
    "league_rows",
    "router",
    "visible_leagues",
]

router = ApiRouter(tags=["Leagues"])

TEMPLATES = ("commissioner_driven", "default", "social_deduction", "cogs_vs_clips", "four_score")
"""Templates that a seed may name. On this platform each creates a league without rounds of its own."""


_FIXED = {"pairing": "pairing", "blocks": "blocks", "commissioner": "commissioner_runnable_id"}
"""Settings that cannot change in a season that has rounds, with their field of `LeagueSettings`."""


class LeagueError(CoworldError):
    """The requested settings of a league are invalid."""

    kind = "usage"
    default_code = "league"


class ByGame(QueryModel):
    """Filters for leagues."""

    game_id: str | None = Field(default=None, pattern="^game_", description="Only leagues of this game.")


class ByLeague(QueryModel):
    """Filters for divisions."""

    league_id: str | None = Field(default=None, pattern="^league_", description="Only rows of this league.")


@router.get("/v2/games", response_model=list[api.Game])
async def list_games(call: Anyone) -> Json:
    """Games that you may see, by name: of public Coworlds, of your own ones, and of leagues that you may see."""
    statement = sa.select(Game).order_by(Game.name)
    if not call.caller.elevated:
        shown = sa.select(Coworld.name_key).where(
            sa.or_(Coworld.visibility == "public", Coworld.user_id.in_(call.caller.accounts))
        )
        played = visible_leagues(call.caller).with_only_columns(League.game_id)
        statement = statement.where(sa.or_(Game.name_key.in_(shown), Game.id.in_(played)))
    return Json([game_json(game) for game in await call.db.scalars(statement)])


@router.get("/v2/leagues", response_model=list[api.League])
async def list_leagues(call: Anyone, query: Annotated[ByGame, Query()]) -> Json:
    """Leagues that you may see, oldest first."""
    leagues = await league_rows(call.db, call.caller, game_id=query.game_id)
    return Json([league_json(league, call.base_url) for league in leagues])


@router.get("/v2/leagues/game-of-week", response_model=api.League | None)
async def game_of_week(call: Anyone) -> Json:
    """The league of the game of the week, or null."""
    chosen = visible_leagues(call.caller).where(League.is_game_of_week).order_by(League.created_at.desc())
    league = await call.db.scalar(chosen.limit(1))
    return Json(None if league is None else league_json(league, call.base_url))


@router.get("/v2/leagues/{league_id}", response_model=api.League)
async def get_league(call: Anyone, league_id: str) -> Json:
    """One league."""
    return Json(league_json(await find_league(call.db, call.caller, league_id), call.base_url))


@router.get("/v2/leagues/{league_id}/division-ladder", response_model=list[api.LadderEntry])
async def division_ladder(call: Anyone, league_id: str) -> Json:
    """A league's divisions from the highest level down, with the number of members that compete in each."""
    league = await find_league(call.db, call.caller, league_id)
    living = sa.and_(Membership.division_id == Division.id, Membership.end_time.is_(None))
    rows = await call.db.execute(
        sa.select(Division.id, Division.name, Division.level, sa.func.count(Membership.id))
        .outerjoin(Membership, living)
        .where(Division.league_id == league.id, Division.archived_at.is_(None))
        .group_by(Division.id, Division.name, Division.level)
        .order_by(Division.level.desc())
    )
    return Json(
        [{"id": found, "name": name, "level": level, "member_count": count} for found, name, level, count in rows]
    )


class SeasonForm(QueryModel):
    """The form of a season."""

    format: Literal["json", "csv"] = Field(default="json", description="`csv`: its tables as one, for spreadsheets.")


@router.get("/v2/leagues/{league_id}/seasons", response_model=list[api.LeagueSeason])
async def list_seasons(call: Anyone, league_id: str) -> Json:
    """The finished seasons of a league, newest first."""
    league = await find_league(call.db, call.caller, league_id)
    rows = await call.db.scalars(sa.select(Season).where(Season.league_id == league.id).order_by(Season.number.desc()))
    return Json([_season_json(league, row) for row in rows])


@router.get("/v2/leagues/{league_id}/seasons/{number}", response_model=api.LeagueSeason)
async def get_season(call: Anyone, league_id: str, number: int, query: Annotated[SeasonForm, Query()]) -> Response:
    """A season of a league: a finished one, or how the running one would end now; its number 0 is the running one."""
    league = await find_league(call.db, call.caller, league_id)
    row = await call.db.scalar(sa.select(Season).where(Season.league_id == league.id, Season.number == number))
    if row is None and number not in (0, league.season):
        raise not_found("season", str(number))
    if row is None:
        terms, divisions = LeagueSettings.of(league.commissioner_config), await living_divisions(call.db, league.id)
        tables = [
            await season_table(call.db, one, terms) for one in divisions if call.caller.elevated or not one.hidden
        ]
        row = Season(league_id=league.id, number=league.season, tables=tables, moves=[])
    shown = _season_json(league, row)
    if query.format == "json":
        return Json(shown)
    headers = {"Content-Disposition": f'attachment; filename="{league.slug}-season-{row.number}.csv"'}
    return Response(api.LeagueSeason.read(shown).to_bytes(".csv"), media_type="text/csv", headers=headers)


def _season_json(league: League, row: Season) -> JsonObject:
    return {
        "league_id": league.id,
        "league": league.name,
        "number": row.number,
        "closed_at": row.closed_at,
        "tables": row.tables,
        "moves": [
            {"subject": move["subject"], "name": move["name"], "before": move["from"], "after": move["to"]}
            for move in row.moves
        ],
    }


@router.get("/v2/divisions", response_model=list[api.Division])
async def list_divisions(call: Anyone, query: Annotated[ByLeague, Query()]) -> Json:
    """Divisions of leagues that you may see, by league and level."""
    statement = (
        sa.select(Division)
        .where(Division.league_id.in_(visible_leagues(call.caller).with_only_columns(League.id)))
        .order_by(Division.league_id, Division.level)
    )
    if query.league_id is not None:
        statement = statement.where(Division.league_id == query.league_id)
    if not call.caller.elevated:
        statement = statement.where(Division.hidden.is_(False))
    return Json([division_json(division, call.base_url) for division in await call.db.scalars(statement)])


@router.get("/v2/divisions/{division_id}", response_model=api.Division)
async def get_division(call: Anyone, division_id: str) -> Json:
    """One division."""
    return Json(division_json(await find_division(call.db, call.caller, division_id), call.base_url))


@router.get("/v2/coworld-league-seeds", response_model=list[api.LeagueSeed])
async def list_seeds(call: Team) -> Json:
    """League seeds, newest first."""
    seeds = await call.db.scalars(sa.select(LeagueSeed).order_by(LeagueSeed.created_at.desc(), LeagueSeed.id))
    return Json([_seed_json(seed) for seed in seeds])


@router.post("/v2/coworld-league-seeds", response_model=api.LeagueSeed, responses=refusals(409))
async def create_seed(call: Team, body: api.LeagueSeedBody) -> Json:
    """Create a league seed; if its Coworld exists, the league is created at once."""
    if body.template not in TEMPLATES:
        raise invalid(f"Unknown template: {body.template!r}. Allowed: {', '.join(TEMPLATES)}.", at=("body", "template"))
    seed = LeagueSeed(**body.model_dump(), created_by=call.caller.require().id)
    if body.league_name is not None:
        seed.league_name = new_name(body.league_name)
    if body.enabled:
        try:
            league = await create_league(
                call.db,
                body.league_name or body.coworld_name,
                coworld=body.coworld_name,
                variant_id=body.default_variant_id,
                config=body.overrides,
            )
            seed.league_id = league.id
        except LeagueError as error:
            if error.code != "unknown_coworld":
                raise invalid(error.message, at=("body",)) from error
    call.db.add(seed)
    await call.db.flush()
    return Json(_seed_json(seed))


@router.patch("/v2/coworld-league-seeds/{seed_id}", response_model=api.LeagueSeed, responses=refusals(409))
async def change_seed(call: Team, seed_id: str, body: api.LeagueSeedChangeBody) -> Json:
    """Change a league seed: switch it on or off, or rename its league."""
    seed = await call.db.get(LeagueSeed, seed_id)
    if seed is None:
        raise not_found("league seed", seed_id)
    league = await call.db.get(League, seed.league_id) if seed.league_id else None
    if body.enabled is not None:
        seed.enabled = body.enabled
    if body.league_name is not None:
        seed.league_name = name = new_name(body.league_name)
        if league is not None and league.name != name:
            await _require_free(call.db, name, League.id != league.id)
            league.name, league.slug = name, slug(name)
    await call.db.flush()
    return Json(_seed_json(seed))


@router.put("/v2/coworld-league-seeds/{seed_id}/game-of-week", response_model=api.LeagueSeed, responses=refusals(409))
async def set_game_of_week(call: Team, seed_id: str) -> Json:
    """Make a seed's league the league of the game of the week."""
    seed = await call.db.get(LeagueSeed, seed_id)
    if seed is None:
        raise not_found("league seed", seed_id)
    if seed.league_id is None:
        raise conflict("This league seed has no league yet.", code="no_league")
    await call.db.execute(sa.update(League).values(is_game_of_week=League.id == seed.league_id))
    return Json(_seed_json(seed))


def visible_leagues(caller: Caller) -> sa.Select[League]:
    """Select the leagues that a caller may see.

    Visitors see public leagues, accounts see all that are not hidden, and those that they help to run; elevated team
    members see all.
    """
    statement = sa.select(League)
    if caller.elevated:
        return statement
    shown = sa.or_(League.hidden.is_(False), League.id.in_(caller.offices))
    statement = statement.where(shown, League.disabled_at.is_(None))
    return statement if caller.known else statement.where(League.public)


async def league_rows(session: AsyncSession, caller: Caller, *, game_id: str | None = None) -> list[League]:
    """The leagues that a caller may see, oldest first."""
    statement = visible_leagues(caller).order_by(League.created_at, League.id)
    if game_id is not None:
        statement = statement.where(League.game_id == game_id)
    return list(await session.scalars(statement))


async def find_league(session: AsyncSession, caller: Caller, league_id: str) -> League:
    """Find a league that the caller may see.

    Raises:
        Refusal: 404 if there is none.
    """
    league = await session.scalar(visible_leagues(caller).where(League.id == league_id))
    if league is None:
        raise not_found("league", league_id)
    return league


async def find_division(session: AsyncSession, caller: Caller, division_id: str) -> Division:
    """Find a division that the caller may see.

    Raises:
        Refusal: 404 if there is none.
    """
    division = await session.scalar(
        sa.select(Division).where(
            Division.id == division_id,
            Division.league_id.in_(visible_leagues(caller).with_only_columns(League.id)),
        )
    )
    if division is None or (division.hidden and not caller.elevated):
        raise not_found("division", division_id)
    return division


async def league_divisions(session: AsyncSession, league_id: str) -> list[Division]:
    """A league's divisions, lowest level first."""
    return list(
        await session.scalars(sa.select(Division).where(Division.league_id == league_id).order_by(Division.level))
    )


async def create_league(
    session: AsyncSession,
    name: str,
    *,
    coworld: str,
    variant_id: str | None = None,
    config: JsonObject | None = None,
    public: bool = True,
    every: float | None = None,
    terms: Mapping[str, Any] | None = None,
    divisions: int = 1,
) -> League:
    """Create a league with its divisions; newcomers are placed in the lowest.

    Args:
        session: A writing session.
        name: Its name, unique.
        coworld: Name of a Coworld that was uploaded.
        variant_id: The variant to play; None: the Coworld's first.
        config: Stored for a commissioner.
        public: Whether visitors without an account may see it.
        every: The least number of seconds between the starts of two rounds; None: no rounds, unless the terms name a
            commissioner.
        terms: Further fields of its `LeagueSettings`.
        divisions: The number of divisions.

    Raises:
        NameRefused: The name cannot be used, is taken, or looks like another league's.
        LeagueError: Codes `unknown_coworld`, `unknown_variant`, `unknown_role`.
        UsageError: There is no such pairing, or no such commissioner.
    """
    name = new_name(name)
    await _require_free(session, name)
    game = await session.scalar(
        sa.select(Game).join(CoworldName, CoworldName.key == Game.name_key).where(CoworldName.key == name_key(coworld))
    )
    canonical = None if game is None else await session.get(Coworld, game.coworld_id)
    if game is None or canonical is None:
        raise LeagueError(
            f"There is no Coworld {coworld!r} here.",
            code="unknown_coworld",
            hint="Upload it first.",
        )
    variants = [str(variant["id"]) for variant in canonical.manifest.get("variants", ())]
    if variant_id is not None and variant_id not in variants:
        raise LeagueError(
            f"{canonical.name} {canonical.version} has no variant {variant_id!r}.",
            code="unknown_variant",
            hint=f"It has {', '.join(variants)}.",
        )
    said = dict(terms or {}) if every is None else {**(terms or {}), "every_seconds": every}
    settled = LeagueSettings.of(said)
    _require_roles(settled, canonical)
    plays = _who_decides(settled, canonical) or ("static" if every is None else CONTINUOUS)
    league = League(
        name=name,
        slug=slug(name),
        game_id=game.id,
        variant_id=variant_id,
        commissioner_key=plays,
        commissioner_config={**(config or {}), **said} or None,
        public=public,
    )
    league.game = game
    session.add(league)
    audit(session, "league.made", subject=name, coworld=canonical.name, public="yes" if public else "no")
    await session.flush()
    for level in range(1, divisions + 1):
        number = divisions - level + 1
        session.add(
            Division(
                name="Open" if divisions == 1 else f"Division {number}",
                level=level,
                league_id=league.id,
                description="Every policy that is submitted."
                if level == 1
                else f"Policies promoted from division {number + 1}.",
                commissioner_description=describe_division(settled, plays=plays != "static"),
            )
        )
    await session.flush()
    return league


def _require_roles(terms: LeagueSettings, coworld: Coworld | None) -> None:
    """Refuse roles after each episode that the Coworld does not declare.

    Raises:
        LeagueError: Code `unknown_role`.
    """
    wanted: tuple[tuple[HostedRole, bool], ...] = (("grader", terms.grade), ("reporter", terms.report))
    for role, is_wanted in wanted:
        if is_wanted and coworld is not None and not declared_roles(coworld, role):
            raise LeagueError(
                f"{coworld.name} {coworld.version} declares no {role} that can be run here.",
                code="unknown_role",
                hint=to_declare(role),
            )


async def change_league_settings(
    session: AsyncSession, reference: str, *, every: float | None = None, terms: Mapping[str, Any]
) -> League:
    """Change how a league plays from its next round on; other settings stay.

    Args:
        session: A writing session.
        reference: The league's name or id.
        every: The least number of seconds between the starts of two rounds; a league without rounds begins to play.
        terms: Fields of its `LeagueSettings`; None removes an optional one.

    Raises:
        LeagueError: `season_begun`: the pairing and its blocks cannot change in a season that has rounds;
            `unknown_role`.
        AccountError: There is no such league.
        UsageError: There is no such pairing, or no such commissioner.
    """
    league = await locked_league(session, reference)
    before = LeagueSettings.of(league.commissioner_config)
    said = dict(terms) if every is None else {**terms, "every_seconds": every}
    if said.get("commissioner_runnable_id", ...) is None:
        said.setdefault("hooks", [])
    settled = LeagueSettings.of({**(league.commissioner_config or {}), **said})
    coworld = await session.get(Coworld, league.game.coworld_id)
    commissioned = _who_decides(settled, coworld)
    _require_roles(settled, coworld)
    if "final_season" in said and settled.is_over(league.season):
        hint = f"Name this season, {league.season}, or a later one."
        raise LeagueError(f"{league.name} is past season {settled.final_season}.", code="season_begun", hint=hint)
    fixed = [word for word, name in _FIXED.items() if getattr(settled, name) != getattr(before, name)]
    divisions = await league_divisions(session, league.id)
    if fixed:
        of_season = (Round.division_id.in_([one.id for one in divisions]), Round.season == league.season)
        if await session.scalar(sa.select(sa.func.count()).select_from(Round).where(*of_season)):
            raise LeagueError(
                f"Season {league.season} of {league.name} was begun with another {' and other '.join(fixed)}.",
                code="season_begun",
                hint=f"Close it first: observatory league pause {league.name}, then season, set and resume.",
            )
    league.commissioner_config = {**(league.commissioner_config or {}), **said} or None
    if commissioned is not None:
        league.commissioner_key = commissioned
    elif every is not None or league.commissioner_key == COMMISSIONED:
        league.commissioner_key = CONTINUOUS
    for division in divisions:
        described = "describe_division" in settled.hooks and await last_report(session, division.id, league.season)
        if not described:  # Else the commissioner's own description stays
            plays = league.commissioner_key != "static"
            division.commissioner_description = describe_division(settled, plays=plays)
    if settled.entries_per_user is not None and "entries_per_user" in said:
        await bench_surplus(session, league)
    words = {name: str(value) for name, value in said.items()}
    if "hooks" in said:
        words["hooks"] = ", ".join(settled.hooks) or "none"
    audit(session, "league.set", subject=league.name, **words)
    await session.flush()
    return league


def _who_decides(terms: LeagueSettings, coworld: Coworld | None) -> str | None:
    """`COMMISSIONED` if a commissioner decides the rounds, which the Coworld must declare; None if a pairing does.

    Raises:
        LeagueError: The pairing or a hook requires a commissioner, and none is named.
        UsageError: There is no such commissioner, or no such pairing.
    """
    if terms.commissioner_runnable_id is not None:
        manifest = load_manifest(dict(coworld.manifest if coworld is not None else {}), template=True).manifest
        declared_commissioner(manifest, terms.commissioner_runnable_id)
        return COMMISSIONED
    if terms.hooks:
        raise LeagueError(
            "Hooks are calls to a commissioner, and this league has no commissioner.",
            code="unknown_commissioner",
            hint="Name one that the Coworld declares.",
        )
    if isinstance(find_pairing(terms.pairing), Commissioned):
        hint = "Name one that the Coworld declares."
        raise LeagueError("No commissioner is named.", code="unknown_commissioner", hint=hint)
    return None


async def _require_free(session: AsyncSession, name: Name, *among: sa.ColumnElement[bool]) -> None:
    if (other := look_alike(name, await session.scalars(sa.select(League.name).where(*among)))) is not None:
        said = f"A league named {name!r} already exists." if other == name else f"{name!r} can be taken for {other!r}."
        raise NameRefused(said, code="name_taken", hint="Choose another name.")


def slug(name: str) -> str:
    """A name in a form for URLs."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "league"


def _seed_json(seed: LeagueSeed) -> JsonObject:
    return {
        "id": seed.id,
        "coworld_name": seed.coworld_name,
        "template": seed.template,
        "overrides": seed.overrides,
        "enabled": seed.enabled,
        "created_by": seed.created_by,
        "created_at": seed.created_at,
        "league_id": seed.league_id,
        "league_key": seed.league_key or seed.coworld_name,
        "league_name": seed.league_name or seed.coworld_name,
        "default_variant_id": seed.default_variant_id,
    }
