"""Changes to a game config: read as a person writes them, and merged into the config of a variant.

A change is JSON of the config's shape with only those fields that differ. Objects are merged field by field, and the
items of a list by their index; everything else is replaced.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from ..documents.findings import Path, did_you_mean, quoted
from ..documents.json_schema._schema_check import follow
from ..errors import UsageError
from ..text.phrases import closest, listed
from .models import JsonObject, Manifest

__all__ = ["STEP_FIELDS", "merge_config", "read_changes", "steps_field"]

STEP_FIELDS = (
    "max_steps",
    "max_ticks",
    "max_turns",
    "max_rounds",
    "steps",
    "ticks",
    "turns",
    "rounds",
    "num_steps",
    "num_rounds",
    "episode_length",
    "horizon",
)
"""Names under which games limit the length of an episode, in order of preference."""


def read_changes(
    manifest: Manifest,
    *,
    config: JsonObject | None = None,
    assignments: Mapping[str, str] | None = None,
    steps: int | None = None,
) -> dict[str, Any]:
    """Read changes that a person has written; later ones take precedence, in the order of the arguments.

    Args:
        manifest: The manifest.
        config: Changes as JSON, for example the content of a file.
        assignments: Values by dotted key (`players.0.name`). A value is JSON, or else text. Where the game's schema has
            text and not the type of that JSON, it is text: `5` names a map that is called `5`.
        steps: The length of an episode, for `steps_field`.

    Raises:
        UsageError: Code `config_key_empty` for a key without a name, or as `steps_field`.
    """
    changes: dict[str, Any] = copy.deepcopy(dict(config or {}))
    for key, text in (assignments or {}).items():
        names = key.split(".")
        if not all(names):
            raise UsageError(
                f"{quoted(key)} does not name a field of the game config.",
                code="config_key_empty",
                hint="Write names with a dot between them, such as players.0.name.",
            )
        value: Any = _read_value(text, _types(manifest.game.config_schema, names))
        for name in reversed(names):
            value = {name: value}
        changes = _merged(changes, value, ())
    return _merged(changes, {steps_field(manifest): steps}, ()) if steps is not None else changes


def steps_field(manifest: Manifest) -> str:
    """The field of the game config that limits the length of an episode: the first of `STEP_FIELDS` that it has.

    Raises:
        UsageError: Code `steps_unknown`: it has none.
    """
    schema = manifest.game.config_schema
    fields = _object(schema.get("properties"))
    for name in STEP_FIELDS:
        if name in fields and (_types(schema, [name]) or set[str]()) & {"integer", "number"}:
            return name
    others = [name for name in fields if name not in ("tokens", "players")]
    raise UsageError(
        f"{manifest.game.name} has no limit of steps in its config.",
        code="steps_unknown",
        hint=f"It has {listed(others)}." if others else "It has no settings.",
    )


def merge_config(manifest: Manifest, base: JsonObject, changes: JsonObject) -> dict[str, Any]:
    """A copy of a config with changes. Whether the values are valid is for `validate_game_config` to say.

    Args:
        manifest: The manifest.
        base: The config, without tokens.
        changes: The changes.

    Raises:
        UsageError: Code `config_key_unknown` for a key that the game's schema does not allow, or does not declare
            although it has a similar one; `config_index` for an item that a list does not have.
    """
    _refuse_unknown(manifest, manifest.game.config_schema, base, changes, ())
    return _merged(base, changes, ())


def _merged(base: object, changes: object, path: Path) -> Any:
    if not isinstance(changes, Mapping):
        return copy.deepcopy(changes)
    wanted = cast("Mapping[str, Any]", changes)
    if isinstance(base, list) and wanted and all(key.isdecimal() for key in wanted):
        items = copy.deepcopy(cast("list[Any]", base))
        for key in sorted(wanted, key=lambda key: int(key[:9])):
            index = int(key[:9])
            if index > len(items):
                raise UsageError(
                    f"There is no {_dotted((*path, key))}: that list has {len(items)} items.",
                    code="config_index",
                    hint="Items are counted from 0; the next one adds to the list.",
                )
            items[index : index + 1] = [
                _merged(items[index] if index < len(items) else None, wanted[key], (*path, key))
            ]
        return items
    known = _object(cast("object", base))
    return {
        **copy.deepcopy(dict(known)),
        **{key: _merged(known.get(key), value, (*path, key)) for key, value in wanted.items()},
    }


def _refuse_unknown(manifest: Manifest, part: object, base: object, changes: object, path: Path) -> None:
    """Refuse keys that the schema does not know. It may be lenient with others, which are then the game's own."""
    if not isinstance(changes, Mapping):
        return
    root = manifest.game.config_schema
    rule, there = _object(follow(root, part)), _object(base)
    fields = _object(rule.get("properties"))
    for key, value in cast("Mapping[str, Any]", changes).items():
        place = (*path, key)
        if isinstance(base, list):
            items = cast("list[Any]", base)
            now = items[int(key[:9])] if key.isdecimal() and int(key[:9]) < len(items) else None
            _refuse_unknown(manifest, rule.get("items"), now, value, place)
        elif key in fields or key in there:
            _refuse_unknown(manifest, fields.get(key), there.get(key), value, place)
        elif fields and "patternProperties" not in rule:
            known = [name for name in fields if name != "tokens"]
            if rule.get("additionalProperties") is False or closest(key, known) is not None:
                _unknown(manifest, place, known)


def _unknown(manifest: Manifest, path: Path, known: list[str]) -> NoReturn:
    where = f"{_dotted(path[:-1])} of its config" if path[:-1] else "its config"
    raise UsageError(
        f"{manifest.game.name} has no {quoted(path[-1])} in {where}.",
        code="config_key_unknown",
        hint=did_you_mean(str(path[-1]), known),
        context={"key": _dotted(path), "known": known},
    )


def _read_value(text: str, types: frozenset[str] | None) -> Any:
    """A value that was written as JSON or as bare text."""
    try:
        value: Any = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return text if types is not None and "string" in types and not types & _kinds(value) else value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _kinds(value: object) -> frozenset[str]:
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int | float):
        return frozenset({"number", "integer"} if isinstance(value, int) or value.is_integer() else {"number"})
    return frozenset({"string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"})


def _types(schema: JsonObject, names: list[str]) -> frozenset[str] | None:
    """The types that a schema allows at a place; None if it does not say."""
    part: object = schema
    for name in names:
        rule = _object(follow(schema, part))
        fields = _object(rule.get("properties"))
        part = fields[name] if name in fields else rule.get("items" if name.isdecimal() else "additionalProperties")
    return _allowed(schema, part, 8)


def _allowed(schema: JsonObject, part: object, depth: int) -> frozenset[str] | None:
    rule = _object(follow(schema, part))
    named = rule.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(name for name in cast("list[object]", named) if isinstance(name, str))
    choices = rule.get("enum", [rule["const"]] if "const" in rule else None)
    if isinstance(choices, list):
        return frozenset(kind for choice in cast("list[object]", choices) for kind in _kinds(choice))
    for keyword in ("anyOf", "oneOf"):
        branches = rule.get(keyword)
        if isinstance(branches, list) and depth:
            found = [_allowed(schema, branch, depth - 1) for branch in cast("list[object]", branches)]
            return None if None in found else frozenset(kind for one in found if one is not None for kind in one)
    return None


def _dotted(path: Path) -> str:
    return ".".join(str(part) for part in path)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
