"""A small manifest, and the parts of one that are missing from its written form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

__all__ = ["duel", "leaves", "lost"]

LIFTED = {("game", "protocols", "player"), ("game", "protocols", "global")}
"""Places of plain text that becomes a document."""

_NEW_NAMES: dict[str | int, str | int] = {"image_uri": "image"}


def duel(game: str = "{{DUEL_IMAGE}}", player: str = "", *, version: str | None = None) -> dict[str, Any]:
    """A manifest of a game for two.

    Args:
        game: The image of the game.
        player: The image of the player; by default, that of the game.
        version: The game's version, if it has one.
    """
    return {
        "game": {
            "name": "duel",
            **({"version": version} if version else {}),
            "description": "Two count.",
            "owner": "someone@example.org",
            "config_schema": {
                "type": "object",
                "required": ["tokens"],
                "properties": {
                    "tokens": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
                    "width": {"type": "integer"},
                },
            },
            "results_schema": {
                "type": "object",
                "required": ["scores"],
                "properties": {"scores": {"type": "array", "items": {"type": "number"}}},
            },
            "runnable": {"type": "game", "image": game, "run": ["game"]},
            "protocols": {"player": {"type": "text", "value": "p"}, "global": {"type": "text", "value": "g"}},
            "docs": {"readme": {"type": "text", "value": "r"}},
        },
        "player": [
            {
                "id": "p",
                "name": "P",
                "type": "player",
                "description": "Counts.",
                "image": player or game,
                "run": ["play"],
            }
        ],
        "variants": [{"id": "default", "name": "Default", "game_config": {}, "description": "As it is."}],
        "certification": {"game_config": {}, "players": [{"player_id": "p"}, {"player_id": "p"}]},
    }


def lost(before: Any, after: Any) -> set[tuple[str | int, ...]]:
    """Places in one document whose value is missing from another; null counts as missing."""
    return {
        place
        for place, value in leaves(before)
        if value is not None
        and not _same(value, _at(after, place))
        and not (place in LIFTED and _same(value, _at(after, (*place, "value"))))
        and not _same(value, _at(after, tuple(_NEW_NAMES.get(part, part) for part in place if part != "runnable")))
    }


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value that is not an object or a list, with its place."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    if not items and value not in ({}, []):
        yield place, value
    for key, below in items:
        yield from leaves(below, (*place, key))


def _same(one: Any, other: Any) -> bool:
    # Line ends of a page's id are dropped.
    return one == other or (isinstance(one, str) and one.rstrip("\r\n") == other)


def _at(value: Any, place: tuple[str | int, ...]) -> Any:
    for part in place:
        if part == "ephemeral_storage" and part not in value:
            part = "ephemeral-storage"
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value
