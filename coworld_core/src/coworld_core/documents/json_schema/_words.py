"""Turn errors of the `jsonschema` library into readable findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from ...text.phrases import closest
from ..findings import Cause, Finding, Path, quoted, type_word

__all__ = ["worded"]


def worded(error: Any, path: Path, code: str, secret: Callable[[Path], bool]) -> list[Cause]:
    """Turn one error of the library into findings. Values are quoted in shortened form."""
    keyword, limit, value = error.validator, error.validator_value, error.instance
    where = quoted(path[-1]) if path and isinstance(path[-1], str) else f"Element {path[-1]}" if path else "The value"
    shown = "it" if secret(path) else quoted(value)

    def one(message: str, hint: str | None = None) -> list[Cause]:
        return [Cause(finding=Finding(code=code, path=path, message=message, hint=hint))]

    if keyword in ("anyOf", "oneOf"):
        return _worded_choice(error, path, code, secret, where)
    if keyword == "required":
        # The library reports each key separately, and names it only in its text; duplicates are removed later.
        return [
            Cause(finding=Finding(code=code, path=path, message=f"{quoted(name)} is missing."), missing=name)
            for name in limit
            if name not in value
        ]
    if keyword == "additionalProperties" and limit is False:
        name, known = error.message, _known_properties(error.schema)
        message = f"The key {quoted(name)} is not known here."
        finding = Finding(code=code, path=(*path, name), message=message, at_key=True)
        return [Cause(finding=finding, known=known)]
    if keyword == "unevaluatedProperties" and limit is False and isinstance(value, dict):
        # The library reports one error for all such keys, and names them only in its text.
        names = [name for name in cast("dict[str, Any]", value) if repr(name) in error.message]
        message = "The key {} is not known here."
        return [
            Cause(finding=Finding(code=code, path=(*path, name), message=message.format(quoted(name)), at_key=True))
            for name in names
        ] or one(f"{where} has a key that is not known here.")
    if keyword == "type":
        names = _type_names(limit)
        return one(f"{where} must be {' or '.join(_describe_type(name) for name in names)}, not {_kind(value, names)}.")
    if keyword == "enum" and isinstance(limit, list):
        choices = cast("list[Any]", limit)
        texts = [choice for choice in choices if isinstance(choice, str)]
        guess = closest(value, texts, cutoff=0.7) if isinstance(value, str) and not secret(path) else None
        hint = f"Did you mean {quoted(guess)}?" if guess else None
        return one(f"{where} is {shown}; allowed: {_choices(choices)}.", hint)
    if not keyword or (keyword == "not" and limit == {}):
        return one(f"{where} is not allowed here.")
    template = _SENTENCES.get(keyword or "")
    if template is not None:
        return one(f"{where} {template.format(limit=quoted(limit), value=shown, size=_size(value))}.")
    return one(f"{where} does not satisfy {quoted(keyword)} of its schema.")


_SENTENCES = {
    "const": "is {value}; it must be {limit}",
    "minimum": "is {value}; it must be at least {limit}",
    "maximum": "is {value}; it must be at most {limit}",
    "exclusiveMinimum": "is {value}; it must be more than {limit}",
    "exclusiveMaximum": "is {value}; it must be less than {limit}",
    "multipleOf": "is {value}; it must be a multiple of {limit}",
    "minLength": "has {size} characters; it must have at least {limit}",
    "maxLength": "has {size} characters; it must have at most {limit}",
    "minItems": "has {size} elements; it must have at least {limit}",
    "maxItems": "has {size} elements; it must have at most {limit}",
    "minProperties": "has {size} keys; it must have at least {limit}",
    "maxProperties": "has {size} keys; it must have at most {limit}",
    "uniqueItems": "has the same element twice",
    "pattern": "is {value}; it must match the pattern {limit}",
    "format": "is {value}; it must be a valid {limit}",
    "not": "is what its schema excludes",
    "contains": "has no element of the kind its schema asks for",
    "items": "has an element too many",
    "unevaluatedItems": "has an element too many",
    "dependentRequired": "lacks a key that another key asks for",
    "propertyNames": "has a key that is not allowed",
}


def _worded_choice(error: Any, path: Path, code: str, secret: Callable[[Path], bool], where: str) -> list[Cause]:
    """The findings when a value fits none, or more than one, of several shapes: those of the one probably meant."""
    branches: dict[object, list[Any]] = {}
    for below in error.context or ():
        branches.setdefault(below.relative_schema_path[0], []).append(below)
    if not branches:
        message = f"{where} matches more than one of the forms allowed here."
        return [Cause(finding=Finding(code=code, path=path, message=message))]

    def refuses_type(below: Any) -> bool:
        return below.validator == "type" and not below.relative_path

    def is_tag(below: Any) -> bool:
        return below.validator in ("const", "enum") and len(below.relative_path) <= 1

    def strangeness(branch: list[Any]) -> tuple[int, int]:
        # A branch that refuses the type of the whole value, or the const or enum that tells the shapes apart, was not
        # meant. Among the others, assume the one with the fewest errors.
        return sum(1 for below in branch if refuses_type(below) or is_tag(below)), len(branch)

    ordered = sorted(branches.values(), key=strangeness)
    everything = [below for branch in ordered for below in branch]
    if strangeness(ordered[0])[0] and len(ordered) > 1:
        if all(any(refuses_type(below) for below in branch) for branch in ordered):
            types = sorted(
                {name for below in everything if refuses_type(below) for name in _type_names(below.validator_value)}
            )
            words = " or ".join(_describe_type(name) for name in types)
            message = f"{where} must be {words}, not {_kind(error.instance, types)}."
            return [Cause(finding=Finding(code=code, path=path, message=message))]
        tags = [below for below in everything if is_tag(below)]
        if len({tuple(tag.relative_path) for tag in tags}) == 1:
            at = (*path, *tags[0].relative_path)
            choices = [
                choice
                for tag in tags
                for choice in (tag.validator_value if tag.validator == "enum" else [tag.validator_value])
            ]
            name = quoted(at[-1]) if at and isinstance(at[-1], str) else where
            shown = "it" if secret(at) else quoted(tags[0].instance)
            message = f"{name} is {shown}; allowed: {_choices(choices)}."
            return [Cause(finding=Finding(code=code, path=at, message=message))]
    return [cause for below in ordered[0] for cause in worded(below, (*path, *below.relative_path), code, secret)]


def _choices(choices: list[Any]) -> str:
    words = list(dict.fromkeys(quoted(choice, 30) for choice in choices))
    return ", ".join(words[:12]) + (", …" if len(words) > 12 else "")


def _known_properties(schema: Any) -> tuple[str, ...]:
    properties = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    return tuple(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else ()


def _type_names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else cast("list[str]", value)


def _describe_type(name: str) -> str:
    return {
        "array": "a list",
        "boolean": "true or false",
        "integer": "a whole number",
        "null": "null",
        "number": "a number",
        "object": "an object",
        "string": "text",
    }.get(name, name)


def _kind(value: object, expected: Iterable[str]) -> str:
    if "integer" in expected and isinstance(value, float):
        return quoted(value)
    return type_word(value)


def _size(value: object) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, list | dict | str) else 0
