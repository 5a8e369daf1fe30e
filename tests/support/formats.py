"""Files written by runs of published versions, and variations of them that a later version might write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

__all__ = [
    "ADDED",
    "LATER",
    "files",
    "objects",
    "only_what_was_there",
    "unknown",
    "with_added_fields",
    "with_later_values",
]

_FORMATS = Path(__file__).parents[1] / "core/formats"
"""A directory for each version with the files that it wrote, which never change."""

ADDED = "added_later"
"""A field that exists in no version."""

LATER = "a_later_thing"
"""A value that exists in no version."""

_GROWING = {"status", "error_type", "party", "reason", "level", "what", "verdict", "skip_reason", "id"}
"""Fields whose set of values may grow in later versions."""


def files(name: str) -> list[Path]:
    """The files with a name that any version wrote."""
    found = sorted(_FORMATS.rglob(name))
    assert found, name
    return found


def objects(value: Any, *, mapping: bool = False) -> Iterator[tuple[dict[str, Any], bool]]:
    """Every object in a JSON value, and whether its keys are names and its values text."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        yield entries, mapping
        for key, item in list(entries.items()):
            yield from objects(item, mapping=key in ("versions", "episode_tags", "files"))
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from objects(item)


def with_added_fields(value: Any) -> Any:
    """A copy with one more field in every object at any depth."""
    copy = json.loads(json.dumps(value))
    for entries, mapping in list(objects(copy)):
        entries[ADDED] = "text" if mapping else {"deep": [1, None, {"er": 0.5}]}
    return copy


def with_later_values(value: Any) -> Any:
    """A copy as of a later version, with an unknown value in every field whose set of values may grow."""
    copy = json.loads(json.dumps(value))
    for entries, _ in objects(copy):
        for key in _GROWING & entries.keys():
            if isinstance(entries[key], str):
                entries[key] = LATER
        if "schema_version" in entries:
            entries["schema_version"] += 1
    return copy


def only_what_was_there(after: Any, before: Any) -> Any:
    """`after` without the fields that `before` lacks, which are newer ones with their defaults."""
    if isinstance(after, dict) and isinstance(before, dict):
        old = cast("dict[str, Any]", before)
        pairs = cast("dict[str, Any]", after).items()
        return {key: only_what_was_there(item, old[key]) for key, item in pairs if key in old}
    if isinstance(after, list) and isinstance(before, list):
        both = zip(cast("list[Any]", after), cast("list[Any]", before), strict=True)
        return [only_what_was_there(new, old) for new, old in both]
    return cast("object", after)


def unknown(value: object) -> list[str]:
    """The unknown fields that were kept. A file of an earlier version has none, because no field was ever removed."""
    if isinstance(value, tuple):
        return [name for item in cast("tuple[object, ...]", value) for name in unknown(item)]
    if not isinstance(value, BaseModel):
        return []
    within = (unknown(getattr(value, name)) for name in type(value).model_fields)
    return [*(value.model_extra or {}), *(name for names in within for name in names)]
