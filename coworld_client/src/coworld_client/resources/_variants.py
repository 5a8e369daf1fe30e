"""Variants that are named by a pattern: which of a Coworld's it means. Platforms know ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coworld_core.api import ExperienceTarget
from coworld_core.errors import UsageError
from coworld_core.manifest.game_config import is_variant_pattern, matching_variants, only_variant
from coworld_core.manifest.manifest_file import load_manifest
from coworld_core.manifest.models import Manifest

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["bodies_by_variant", "coworld_of_league", "variant_of"]


async def variant_of(client: CoworldClient, coworld_id: str, word: str) -> str:
    """The id of the variant of a Coworld that a word means; the server is asked only about a pattern.

    Raises:
        UsageError: Code `unknown_variant`, or `several_variants` with those that match.
    """
    if not is_variant_pattern(word):
        return word
    return only_variant(await _manifest(client, coworld_id), word).id


async def bodies_by_variant(client: CoworldClient, given: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The requests that a request means: one for each variant that its `variant_id` matches.

    Raises:
        UsageError: Code `unknown_variant`; or `coworld_unknown`: the request does not say whose variants these are.
    """
    word = given.get("variant_id")
    if not isinstance(word, str) or not is_variant_pattern(word):
        return (given,)
    manifest = await _manifest(client, await _coworld_of(client, given))
    return tuple({**given, "variant_id": variant.id} for variant in matching_variants(manifest, word))


async def coworld_of_league(client: CoworldClient, league: str) -> str:
    """The id of the Coworld that a league plays.

    Raises:
        UsageError: Code `coworld_unknown`: the league does not say which.
    """
    found = await client.leagues.get(league)
    if found.game.coworld_id is None:
        raise UsageError(
            f"The league {found.name!r} does not say which Coworld it plays, so a pattern has nothing to match.",
            code="coworld_unknown",
            hint="Name the variant by its id.",
        )
    return found.game.coworld_id


async def _coworld_of(client: CoworldClient, body: Mapping[str, Any]) -> str:
    direct, target = body.get("coworld_id"), body.get("target")
    if isinstance(direct, str):
        return direct
    aim = ExperienceTarget.model_validate(target) if isinstance(target, Mapping) else ExperienceTarget()
    if aim.coworld_id is not None:
        return aim.coworld_id
    if aim.division_id is not None:
        return await coworld_of_league(client, (await client.divisions.get(aim.division_id)).league.id)
    if aim.league_id is not None:
        return await coworld_of_league(client, aim.league_id)
    if aim.league_name is not None:
        return await coworld_of_league(client, await client.leagues.id_of(aim.league_name))
    raise UsageError(
        "The request does not say whose variants its pattern is for.",
        code="coworld_unknown",
        hint="Give a coworld_id, or a target with a league_id, a league_name or a division_id.",
    )


async def _manifest(client: CoworldClient, coworld_id: str) -> Manifest:
    return load_manifest((await client.coworlds.get(coworld_id)).manifest, template=True).manifest
