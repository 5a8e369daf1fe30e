"""Finds models whose JSON form is just what their fields hold: no serializer has to be asked for it.

Actions and observations usually are such models, and each move makes some of them.
"""

from __future__ import annotations

from functools import lru_cache
from types import NoneType
from typing import Any, Final, TypeAlias, cast

__all__ = ["SimpleFields", "simple_fields", "simple_form"]

_Kinds: TypeAlias = frozenset[type]

SimpleFields: TypeAlias = tuple[tuple[str, _Kinds, _Kinds], ...]
"""Fields in alphabetical order, each with the exact types of values that are their own JSON form, and the same for the
items if it is a list."""

_NONE: Final[_Kinds] = frozenset()
_OWN_FORM: Final[dict[str, _Kinds]] = {
    "any": frozenset({str, int, bool, NoneType}),
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "literal": frozenset({str, int}),
    "none": frozenset({NoneType}),
    "str": frozenset({str}),
}
"""By pydantic's name of a field's schema."""


# Bounded, because files that are loaded again and again define new types each time.
@lru_cache(maxsize=512)
def simple_fields(kind: Any) -> SimpleFields | None:
    """Return the fields of a model without serializers, aliases or computed fields; None for any other type."""
    if not hasattr(kind, "model_dump"):
        return None
    from pydantic import BaseModel

    if not issubclass(kind, BaseModel) or kind.model_dump is not BaseModel.model_dump:
        return None
    kind.model_rebuild(raise_errors=False)
    schema = cast("Any", kind.__pydantic_core_schema__)
    if not isinstance(schema, dict) or not _is(schema, "model") or kind.model_config.get("extra") == "allow":
        return None
    inside = cast("dict[str, Any]", schema["schema"])
    if not _is(inside, "model-fields") or inside.get("computed_fields"):
        return None
    found: list[tuple[str, _Kinds, _Kinds]] = []
    for name, field in sorted(inside["fields"].items()):
        kinds = None if any(key.startswith("serialization") for key in field) else _kinds(field["schema"])
        if kinds is None:
            return None
        found.append((name, *kinds))
    return tuple(found)


def _is(schema: Any, name: str) -> bool:
    return schema["type"] == name and "serialization" not in schema


def _kinds(schema: Any) -> tuple[_Kinds, _Kinds] | None:
    if "serialization" in schema:
        return None
    name = schema["type"]
    if name in _OWN_FORM:
        return _OWN_FORM[name], _NONE
    if name not in ("default", "list", "nullable"):
        return None
    kinds = _kinds(schema.get("items_schema", {"type": "any"}) if name == "list" else schema["schema"])
    if kinds is None or name == "default":
        return kinds
    if name == "nullable":
        return kinds[0] | {NoneType}, kinds[1]
    return None if kinds[1] else (_NONE, kinds[0])


def simple_form(model: Any, fields: SimpleFields) -> dict[str, Any] | None:
    """Return the JSON form of a model, which shares nothing with it; None if a field holds something else."""
    held = model.__dict__
    if len(held) != len(fields):
        return None
    form: dict[str, Any] = {}
    for name, kinds, items in fields:
        # A missing value is of no type
        value = held.get(name, form)
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind in kinds:
            form[name] = value
        elif kind is list and items and items.issuperset(map(type, value)):
            form[name] = value.copy()
        else:
            return None
    return form
