"""The caller's identity and players."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field

from coworld_core import api

from ..errors import conflict, not_found
from ..identity.accounts import new_token, own_tokens, revoke_token
from ..identity.auth import PLAYER_SESSION, require_code, take_code
from ..identity.limits import require_player
from ..names import NameRefused, new_name, require_distinct
from ..operations.deletion import delete_account, deletion_of
from ..store.columns import JsonObject
from ..store.models import Player, Token, User
from .routing import ApiRouter, Call, InPerson, Json, QueryModel, SignedIn, gate, refusals

__all__ = ["player_json", "router"]


class Confirmed(QueryModel):
    """That it is meant."""

    name: str = Field(max_length=256, description="The name of the account.")


router = ApiRouter(tags=["Identity"])


@router.get("/whoami", response_model=api.Whoami)
async def whoami(call: Annotated[Call, gate("anyone", tolerant=True)]) -> Json:
    """The account or player of the token; anonymous without a valid one."""
    caller = call.caller
    user, player = caller.user, caller.player
    if user is None:
        return Json(
            {
                "user_email": "",
                "name": None,
                "is_softmax_team_member": False,
                "is_softmax_admin": False,
                "subject_type": "anonymous",
                "subject_id": None,
                "owner_user_id": None,
                "owner_name": None,
                "scopes": [],
            }
        )
    return Json(
        {
            "user_email": user.email or user.name,
            "name": player.name if player else user.name,
            "is_softmax_team_member": caller.is_team,
            "is_softmax_admin": caller.is_team,
            "subject_type": caller.kind,
            "subject_id": caller.subject_id,
            "owner_user_id": user.id,
            "owner_name": user.name,
            "scopes": ["player"] if player else ["user", "players", *(["team"] if caller.is_team else [])],
        }
    )


@router.get("/flags/me")
async def my_flags(call: SignedIn) -> Json:
    """Feature flags of the caller: those that newer clients read are off on this platform."""
    return Json({"flags": {"feed-v1": False}})


@router.get("/players", response_model=list[api.OwnedPlayer])
async def list_players(call: InPerson) -> Json:
    """Your own players, oldest first."""
    rows = await call.db.scalars(
        sa.select(Player).where(Player.user_id == call.caller.user_id).order_by(Player.created_at, Player.id)
    )
    return Json([player_json(row) for row in rows])


@router.post("/players", response_model=api.OwnedPlayer, responses=refusals(409))
async def create_player(call: InPerson, body: api.PlayerBody) -> Json:
    """Create a player; the first one becomes your default."""
    user = call.caller.require()
    mine = (await call.db.scalars(sa.select(Player.name).where(Player.user_id == user.id))).all()
    name = new_name(body.name)
    if name in mine:
        raise NameRefused(f"You already have a player named {name!r}.", code="name_taken", hint="Choose another name.")
    await require_player(call.db, user, call.services.settings.quotas)
    others = [sa.select(Player.name).where(Player.user_id != user.id), sa.select(User.name).where(User.id != user.id)]
    require_distinct(name, await call.db.scalars(sa.union(*others)), "{!r}, the name of somebody else")
    player = Player(user_id=user.id, name=name, is_default=not mine)
    call.db.add(player)
    await call.db.flush()
    return Json(player_json(player))


@router.post("/players/{player_id}/login", response_model=api.PlayerLogin)
async def player_login(call: Annotated[Call, gate("user", secret=True)], player_id: str) -> Json:
    """A session as one of your own players, valid for 24 hours."""
    user = call.caller.require()
    player = await call.db.get(Player, player_id)
    if player is None or player.user_id != user.id or player.disabled_at is not None:
        raise not_found("player of yours", player_id)
    minted = await call.services.tokens.mint(
        call.db, "player", user.id, player_id=player.id, lifetime=PLAYER_SESSION, label=player.name
    )
    return Json({"player_id": player.id, "token": minted.text, "expires_at": minted.expires_at})


@router.post("/credentials/auth-codes/exchange", responses=refusals(400, 410))
async def exchange_code(
    call: Annotated[Call, gate("anyone", tolerant=True, held=False, secret=True)], body: api.SignInCodeBody
) -> Json:
    """Exchange a sign-in code for a token; a code works once."""
    services = call.services
    async with services.sign_ins.attempt(services.database, call.request):
        await require_code(call.db, body.code)
    async with services.database.writing() as session:
        user_id = await take_code(session, body.code)
        minted = await services.tokens.mint(session, "user", user_id, label="sign-in")
    return Json({"token": minted.text})


@router.get("/credentials/tokens", response_model=list[api.OwnToken])
async def list_tokens(call: InPerson) -> Json:
    """Your valid tokens and sessions, newest first."""
    user = call.caller.require()
    return Json([_token_json(row, call.caller.token_id) for row in await own_tokens(call.db, user.id)])


@router.post("/credentials/tokens", response_model=api.NewToken)
async def create_token(call: Annotated[Call, gate("user", secret=True)], body: api.TokenBody) -> Json:
    """Make another token for your account; its text is shown only here."""
    user, name = call.caller.require(), new_name(body.name)
    own = await call.db.get(Token, call.caller.token_id)
    # Whoever finds a token that ends has none that does not
    latest = own.expires_at if own is not None and own.kind == "user" else None
    made = await new_token(call.db, call.services.tokens, user.id, label=name, days=body.days, latest=latest)
    row = await call.db.get_one(Token, made.id)
    return Json({**_token_json(row, call.caller.token_id), "token": made.text})


@router.delete("/credentials/tokens/{token_id}", response_model=api.OwnToken)
async def delete_token(call: InPerson, token_id: str) -> Json:
    """Revoke one of your tokens, which is refused from then on."""
    row = await revoke_token(call.db, call.caller.require().id, token_id)
    if row is None:
        raise not_found("token of yours", token_id)
    return Json(_token_json(row, call.caller.token_id))


@router.get("/account/deletion", response_model=api.AccountDeletion)
async def preview_deletion(call: InPerson) -> Json:
    """What deleting your account would remove, and what would stay."""
    return Json(asdict(await deletion_of(call.db, call.caller.require())))


@router.delete("/account", response_model=api.AccountDeletion, responses=refusals(409))
async def delete_own_account(
    call: Annotated[Call, gate("user", held=False)], query: Annotated[Confirmed, Query()]
) -> Json:
    """Delete your account for good; its name says that it is meant."""
    user = call.caller.require()
    if query.name != user.name:
        raise conflict(f"Give the name of the account, {user.name!r}, to delete it.", code="not_confirmed")
    return Json(asdict(await delete_account(call.services, user.id)))


def _token_json(token: Token, current: str | None) -> JsonObject:
    return {
        "id": token.id,
        "name": token.label,
        "kind": token.kind,
        "player_id": token.player_id,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "is_current": token.id == current,
    }


def player_json(player: Player) -> JsonObject:
    """A player as its owner sees it."""
    return {
        "id": player.id,
        "name": player.name,
        "is_default": player.is_default,
        "avatar_url": player.avatar_url,
        "created_at": player.created_at,
        "disabled_at": player.disabled_at,
        "user_id": player.user_id,
    }
