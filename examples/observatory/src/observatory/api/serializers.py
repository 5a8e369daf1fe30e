"""JSON forms of rows that several routes share."""

from __future__ import annotations

import sqlalchemy as sa

from ..store.columns import JsonObject
from ..store.models import Division, Event, Game, League, Membership, Participant, Player, PolicyVersion, Submission
from ..work.league_settings import LeagueSettings

__all__ = ["division_json", "game_json", "league_json", "of_player", "player_ref", "policy_version_json"]


def game_json(game: Game) -> JsonObject:
    """A game."""
    return {
        "id": game.id,
        "name": game.name,
        "slug": game.slug,
        "coworld_name": game.name,
        "coworld_id": game.coworld_id,
        "description": game.description,
        "created_at": game.created_at,
    }


def league_json(league: League, base_url: str) -> JsonObject:
    """A league with its game."""
    return {
        "id": league.id,
        "name": league.name,
        "slug": league.slug,
        "game": game_json(league.game),
        "variant_id": league.variant_id,
        "commissioner_key": league.commissioner_key,
        "commissioner_config": league.commissioner_config,
        "entries_per_user": LeagueSettings.of(league.commissioner_config).entries_per_user,
        "public": league.public,
        "hidden": league.hidden,
        "is_game_of_week": league.is_game_of_week,
        "created_at": league.created_at,
        "participation_url": f"{base_url}/observatory/v2/participate?league_id={league.id}",
        # This platform has no forums and wikis.
        "forum_markdown_url": None,
        "wiki_markdown_url": None,
        "disabled_at": league.disabled_at,
    }


def division_json(division: Division, base_url: str) -> JsonObject:
    """A division with its league."""
    return {
        "id": division.id,
        "name": division.name,
        "level": division.level,
        "type": division.type,
        "hidden": division.hidden,
        "league": league_json(division.league, base_url),
        "description": division.description,
        "archived_at": division.archived_at,
        "commissioner_description": division.commissioner_description,
        "created_at": division.created_at,
    }


def policy_version_json(version: PolicyVersion) -> JsonObject:
    """A policy version with its policy."""
    return {
        "id": version.id,
        "policy": {"id": version.policy.id, "name": version.policy.name},
        "version": version.version,
        "player_id": version.player_id,
        "created_at": version.created_at,
    }


def player_ref(player: Player | None, version: PolicyVersion) -> JsonObject:
    """The player that a policy version plays for, or its owner's account if there is none."""
    if player is None:
        return {"id": version.user_id, "name": version.user.name, "avatar_url": None}
    return {"id": player.id, "name": player.name, "avatar_url": player.avatar_url}


def of_player(table: type[Membership | Submission | Event | Participant], player_id: str) -> sa.ColumnElement[bool]:
    """The condition that a row belongs to this player, or to this account without a player (`player_ref`)."""
    without = sa.and_(table.player_id.is_(None), table.user_id == player_id)
    return sa.or_(table.player_id == player_id, without)
