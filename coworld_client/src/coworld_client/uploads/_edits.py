"""Changes to a stored manifest: a merge patch, and other images for some of its programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from coworld_core.errors import UsageError
from coworld_core.role_kinds import ROLE_SECTIONS

__all__ = ["apply_images", "image_values", "merge_patch", "replace_images"]

JsonObject = dict[str, Any]

_TARGET = re.compile(r"(?P<role>[a-z]+)(?:\[(?P<index>\d{1,4})\]|\.(?P<name>.+))?")


def merge_patch(target: object, patch: object) -> Any:
    """A JSON value with a merge patch applied (RFC 7396): null deletes, an object merges, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(cast("JsonObject", target)) if isinstance(target, Mapping) else {}
    for key, value in cast("Mapping[str, object]", patch).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def apply_images(manifest: JsonObject, images: Mapping[str, str]) -> None:
    """Replace the images of programs of a manifest, in place.

    Args:
        manifest: The manifest as JSON.
        images: Images by target: `game`, a role with one entry (`player`), or one of several by its id
            (`player.baseline`) or its place (`player.0`, `player[0]`).

    Raises:
        UsageError: Code `bad_target`, if a target has none of these forms, or names nothing in this manifest.
    """
    for target, image in images.items():
        _entry(manifest, target)["image"] = image


def _entry(manifest: JsonObject, target: str) -> JsonObject:
    if target == "game":
        game = manifest.get("game")
        runnable = cast("JsonObject", game).get("runnable") if isinstance(game, dict) else None
        if isinstance(runnable, dict):
            return cast("JsonObject", runnable)
        raise _bad_target(target, "the manifest has no program of the game")
    match = _TARGET.fullmatch(target)
    if match is None or match["role"] not in ROLE_SECTIONS:
        raise _bad_target(target, "it is neither `game` nor a role")
    role, name = match["role"], match["name"]
    section = manifest.get(role)
    entries = [entry for entry in cast("list[Any]", section if isinstance(section, list) else []) if _is_object(entry)]
    ids = [str(entry.get("id")) for entry in entries]
    if match["index"] is not None or (name is not None and name not in ids and name.isdigit()):
        index = int(match["index"] or name)
        if index < len(entries):
            return entries[index]
    elif name is not None:
        if name in ids:
            return entries[ids.index(name)]
    elif len(entries) == 1:
        return entries[0]
    else:
        raise _bad_target(target, f"there are {len(entries)} of that role", [f"{role}.{one}" for one in ids])
    raise _bad_target(target, "there is none", [f"{role}.{one}" for one in ids])


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _bad_target(target: str, why: str, there: list[str] | None = None) -> UsageError:
    roles = ", ".join(ROLE_SECTIONS)
    hint = (
        f"There is: {', '.join(there[:8])}." if there else f"Write game, or ROLE, ROLE.ID or ROLE[N]; roles: {roles}."
    )
    return UsageError(f"The target {target[:80]!r} names no program: {why}.", code="bad_target", hint=hint)


def image_values(manifest: JsonObject) -> list[JsonObject]:
    """The objects of a manifest that name an image: the game's program, then the roles'."""
    found: list[Any] = [cast("JsonObject", manifest.get("game") or {}).get("runnable")]
    for name in ROLE_SECTIONS:
        section = manifest.get(name)
        found += cast("list[Any]", section) if isinstance(section, list) else []
    return [entry for entry in found if _is_object(entry) and isinstance(entry.get("image"), str)]


def replace_images(manifest: JsonObject, new: Callable[[str], str]) -> None:
    """Replace every image of a manifest by the result of a function, in place."""
    for entry in image_values(manifest):
        entry["image"] = new(entry["image"])
