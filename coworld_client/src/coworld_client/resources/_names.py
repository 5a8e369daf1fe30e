"""Names in place of ids: where a platform lists what has a name, and which one of those is meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from coworld_core.api import is_id
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text import closest, listed

from ..errors import NotFound

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["Named", "id_of", "ids_in", "named", "no_such"]


class Named(NamedTuple):
    """Something that is given by its name; a platform is asked for its id once that is needed."""

    kind: str
    name: str
    league: str | None = None
    """The league to look in, by its name or id; None: all leagues, or your own players."""


_IN_BODIES = {"coworld_id": "coworld", "league_id": "league", "division_id": "division"}


def named(text: str | None, kind: str, *, league: str | None = None) -> str | Named | None:
    """An id as it is, or a name for a list to look up with its first page; None without one.

    Raises:
        UsageError: It is the id of something else, or can be no name either (code `bad_id`).
    """
    return text if text is None or is_id(text, kind) else Named(kind, text, league)


async def id_of(
    client: CoworldClient, text: str, kind: str, *, league: str | None = None, timeout: float | None = None
) -> str:
    """The id of what is given by its id or its name. An id is checked without asking the server.

    Args:
        client: The platform.
        text: The id or the name; a Coworld's name stands for its canonical version.
        kind: `coworld`, `division` (also as `LEAGUE/DIVISION`), `game`, `league` or `player`.
        league: The league of a division, or of a player, who is one of yours without it.
        timeout: Seconds for each attempt.

    Raises:
        NotFound: There is nothing of that name that you may see.
        UsageError: Several have that name (code `ambiguous`), or it is the id of something else (`bad_id`).
    """
    if is_id(text, kind):
        return text
    if kind == "coworld":
        return (await client.coworlds.find(text, timeout=timeout)).id
    known = await _spellings(client, kind, league, timeout)
    found = [id for id, names in known.items() if text in names]
    found = found or [id for id, names in known.items() if text.casefold() in map(str.casefold, names)]
    if not found:
        yours = kind == "player" and league is None
        raise no_such(client, text, kind, (names[-1] for names in known.values()), yours=yours)
    if len(found) > 1:
        which = listed((f"{id} ({known[id][-1]})" for id in found), word="or")
        raise UsageError(f"Several {kind}s are called {text!r}.", code="ambiguous", hint=f"Give an id: {which}.")
    return found[0]


async def _spellings(
    client: CoworldClient, kind: str, league: str | None, timeout: float | None
) -> dict[str, tuple[str, ...]]:
    """What all of a kind may be called, by their ids; the last name tells each best from the others."""
    if kind == "division":
        divisions = await client.divisions.list(league=league, timeout=timeout)
        return {row.id: (row.name, f"{row.league.name}/{row.name}") for row in divisions}
    if kind == "player" and league is not None:
        members = await client.memberships.list(league=league, timeout=timeout)
        return {row.player.id: (row.player.name or "",) for row in members if row.player is not None}
    if kind == "player":
        return {row.id: (row.name,) for row in await client.players.list(timeout=timeout)}
    rows = await (client.games if kind == "game" else client.leagues).list(timeout=timeout)
    return {row.id: (row.slug or row.name, row.name) for row in rows}


async def ids_in(client: CoworldClient, body: Mapping[str, Any], *, timeout: float | None = None) -> dict[str, Any]:
    """A request's body with ids in place of names: of its Coworld, or of the league or division that it aims at."""
    whole = dict(body)
    for key, kind in _IN_BODIES.items():
        if isinstance(text := whole.get(key), str):
            whole[key] = await id_of(client, text, kind, timeout=timeout)
    if isinstance(target := whole.get("target"), Mapping):
        whole["target"] = await ids_in(client, cast("Mapping[str, Any]", target), timeout=timeout)
    return whole


def no_such(client: CoworldClient, text: str, kind: str, known: Iterable[str], *, yours: bool = False) -> NotFound:
    """The error for a name that is not there, with the names that are.

    Args:
        client: The platform.
        text: The name.
        kind: What it should be the name of.
        known: The names that there are.
        yours: Whether only your own can be named.
    """
    names = sorted({name for name in known if name})
    near = closest(text, names)
    said = f"You have no {kind} {text!r}." if yours else f"There is no {kind} {text!r} that you can see."
    hint = f"Did you mean {near!r}?" if near else f"There {'is' if len(names) == 1 else 'are'} {listed(names)}."
    none = Hint("check_identity", "Check the name, and as whom you act: api.whoami.")
    return NotFound(said, status=404, hint=hint if names else none, context={"server": client.server})
