"""Instructions for taking part in a league, as Markdown for people and coding agents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from coworld_core.errors import ManifestError
from coworld_core.manifest import game_config_for, load_manifest, slot_count

from ..errors import conflict, not_found
from ..store.columns import now
from ..store.models import Coworld
from ..work.league_settings import LeagueSettings
from .catalogue import find_coworld
from .leagues import find_league, league_divisions
from .routing import Anyone, ApiRouter, QueryModel, binary, refusals

if TYPE_CHECKING:
    from coworld_core.manifest import Doc, GameManifest, Manifest

    from ..store.models import League

__all__ = ["router"]

router = ApiRouter(tags=["Leagues"])

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


class ToTakePart(QueryModel):
    """The league."""

    league_id: str = Field(pattern="^league_", description="The league.")


@router.get("/v2/participate", response_class=binary("text/markdown"), responses=refusals(404, 409))
async def participate(call: Anyone, query: Annotated[ToTakePart, Query()]) -> Response:
    """How to take part in a league, as Markdown."""
    league = await find_league(call.db, call.caller, query.league_id)
    coworld = await call.db.get(Coworld, league.game.coworld_id)
    if coworld is None:
        raise not_found("Coworld", league.game.name)
    divisions = [division.name for division in await league_divisions(call.db, league.id)]
    return Response(_guide(league, coworld, divisions, call.base_url), media_type="text/markdown")


@router.get(
    "/v2/coworlds/{coworld_id}/documentation", response_class=binary("text/markdown"), responses=refusals(404, 409)
)
async def documentation(call: Anyone, coworld_id: str) -> Response:
    """A Coworld's documentation as Markdown: its player protocol and its readme."""
    coworld = await find_coworld(call.db, call.caller, coworld_id)
    game = _manifest(coworld).game
    parts = [f"# {_text(game.name)} {_text(coworld.version)}", _text(game.description), *_documents(game)]
    return Response("\n\n".join(parts) + "\n", media_type="text/markdown")


def _guide(league: League, coworld: Coworld, divisions: list[str], url: str) -> str:
    manifest = _manifest(coworld)
    variant = next((entry for entry in manifest.variants if entry.id == league.variant_id), manifest.variants[0])
    facts = [
        f"- Variant: {_text(variant.name)} (`{variant.id}`): {_text(variant.description)}",
        f"- Seats: {slot_count(manifest, game_config_for(manifest, variant.id))}",
        f"- Divisions: {', '.join(_text(name) for name in divisions)}",
        f"- Entries of one account: {LeagueSettings.of(league.commissioner_config).entries_in_words}",
    ]
    if (said := LeagueSettings.of(league.commissioner_config).submissions_in_words(league.season, now())) is not None:
        facts.append(f"- {said}")
    if manifest.players_per_user is not None:
        facts.append(f"- Policies one user may have in it: {manifest.players_per_user}")
    commands = [
        f"export COWORLD_SERVER={url}",
        "coworld login",
        f"coworld download {coworld.id}",
        "coworld upload-policy IMAGE --name NAME",
        f"coworld submit NAME --league {league.id}",
        f"coworld results {league.id}",
    ]
    parts = [
        f"# {_text(league.name)}",
        f"{_text(manifest.game.name)} {_text(coworld.version)}: {_text(manifest.game.description)}",
        "\n".join(facts),
        "## Taking part",
        "A player is a container image for linux/amd64. It connects to `COWORLD_PLAYER_WS_URL`, speaks the protocol "
        "below for its own seat, and ends with status 0 when the game is over.",
        "\n".join(["```console", *commands, "```"]),
        *_documents(manifest.game),
    ]
    return "\n\n".join(parts) + "\n"


def _manifest(coworld: Coworld) -> Manifest:
    try:
        return load_manifest(dict(coworld.manifest), template=True).manifest
    except ManifestError as error:
        raise conflict(f"The manifest of {coworld.name} can no longer be read.", code="manifest_invalid") from error


def _documents(game: GameManifest) -> list[str]:
    return [
        "## What a player receives and sends",
        _doc(game.protocols.player),
        "## The game",
        _doc(game.docs.readme),
    ]


def _doc(doc: Doc) -> str:
    return doc.value.strip() if doc.type == "text" else f"See <{doc.value}>."


def _text(value: str) -> str:
    """A text as a single line."""
    return _MARKUP.sub(r"\\\1", " ".join(value.split()))
