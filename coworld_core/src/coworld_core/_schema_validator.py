"""The ``jsonschema`` library's validator with a budget, quick lists, formats of our own, and nothing to fetch from."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ._schema_patterns import compiled

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["Endless", "metaschema_validator", "offline", "steps_left", "validator_class"]


_MAX_STEPS = 400_000
"""Elements looked at and references followed (which count twice) in one validation: some seconds of work."""


class Endless(Exception):
    """The step budget of one validation is used up."""


steps_left: ContextVar[list[int] | None] = ContextVar("steps_left", default=None)


@cache
def offline() -> dict[str, Any]:
    from jsonschema_specifications import REGISTRY

    # The published meta-schemas, and no way to retrieve anything else.
    return {"registry": REGISTRY, "format_checker": _format_checker()}


@cache
def validator_class() -> Callable[..., Validator]:
    from jsonschema import validators
    from jsonschema.exceptions import ValidationError

    library = cast("Any", validators)
    base = library.Draft202012Validator

    def count(steps: int) -> None:
        counter = steps_left.get()
        if counter is not None:
            counter[0] += steps
            if counter[0] > _MAX_STEPS:
                raise Endless

    def counted(keyword: str) -> Callable[..., Any]:
        original: Callable[..., Any] = base.VALIDATORS[keyword]

        def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            count(2)
            return original(validator, value, instance, schema)

        return run

    def items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "array"):
            return
        first = len(schema.get("prefixItems", ()))
        if value is False:
            if len(instance) > first:
                yield ValidationError("items")
            return
        # Long lists of plain values are what results are made of; the library takes microseconds for each.
        plain = _plain_types(value)
        for index, item in enumerate(instance[first:] if first else instance, start=first):
            if plain is None or type(item) not in plain:
                count(1)
                yield from validator.descend(item, value, path=index)

    def unique(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if (
            value
            and validator.is_type(instance, "array")
            and len({_hashable(item) for item in instance}) < len(instance)
        ):
            yield ValidationError("uniqueItems")

    def pattern(validator: Any, value: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "string") and not compiled(value)(instance):
            yield ValidationError("pattern")

    # The library's own say which key is meant only in English; these say nothing else.
    def required(validator: Any, value: list[str], instance: Any, schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "object"):
            yield from (ValidationError(name) for name in value if name not in instance)

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        patterns = [compiled(text) for text in schema.get("patternProperties", ())]
        for name in instance:
            if name in schema.get("properties", ()) or any(matches(name) for matches in patterns):
                continue
            count(1)
            if value is False:
                yield ValidationError(name)
            else:
                yield from validator.descend(instance[name], value, path=name)

    # The library forgets where a property was whose schema is plainly false.
    def properties(validator: Any, value: dict[str, Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        for name, below in value.items():
            if name not in instance:
                continue
            count(1)
            if below is False:
                yield ValidationError("false", validator="", path=(name,), instance=instance[name])
            else:
                yield from validator.descend(instance[name], below, path=name, schema_path=name)

    own = {
        "$ref": counted("$ref"),
        "$dynamicRef": counted("$dynamicRef"),
        "additionalProperties": additional,
        "items": items,
        "pattern": pattern,
        "properties": properties,
        "required": required,
        "uniqueItems": unique,
    }
    return library.extend(base, own)


_PLAIN: dict[object, tuple[type, ...]] = {
    "number": (int, float),
    "integer": (int,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}
"""Types of Python whose values are certainly of a JSON type."""

_TELLING_TYPE = {"type", "title", "description", "$comment", "examples", "default"}
"""Keywords of a schema that asks for nothing but a type."""


def _plain_types(schema: Any) -> tuple[type, ...] | None:
    keywords = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    declared = keywords.get("type")
    return _PLAIN.get(declared) if isinstance(declared, str) and _TELLING_TYPE.issuperset(keywords) else None


def _hashable(value: Any) -> object:
    """A value to compare by: equal when JSON Schema calls two values equal."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in cast("dict[str, Any]", value).items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in cast("list[Any]", value))
    # True is 1 in Python and is not in JSON.
    return (bool, value) if isinstance(value, bool) else value


@cache
def metaschema_validator() -> Validator:
    from jsonschema.validators import Draft202012Validator

    cls = cast("Any", Draft202012Validator)
    return cls(cls.META_SCHEMA, **offline())


@cache
def _format_checker() -> FormatChecker:
    """Formats this package vouches for, without the library's optional helpers: one grammar compiler costs a second."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())

    def add(name: str, accepts: Callable[[str], object]) -> None:
        def check(value: object) -> bool:
            return not isinstance(value, str) or bool(accepts(value))

        checker.checks(name, raises=(ValueError, re.error, RecursionError, OverflowError))(check)

    date = r"\d{4}-\d\d-\d\d"
    time = r"\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
    label = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
    add("date", lambda text: re.fullmatch(date, text) and dt.date.fromisoformat(text))
    add("time", lambda text: re.fullmatch(time, text) and dt.time.fromisoformat(_short_fraction(text)))
    add(
        "date-time",
        lambda text: re.fullmatch(f"{date}[Tt]{time}", text) and dt.datetime.fromisoformat(_short_fraction(text)),
    )
    add("email", lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text))
    add("idn-email", lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text))
    add("hostname", lambda text: len(text) <= 253 and re.fullmatch(rf"{label}(\.{label})*", text))
    add("ipv4", lambda text: ipaddress.IPv4Address(text))
    add("ipv6", lambda text: "%" not in text and ipaddress.IPv6Address(text))
    add("uuid", lambda text: len(text) == 36 and text[8] == "-" and uuid.UUID(text))
    add("uri", lambda text: _is_uri(text) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text))
    add("uri-reference", _is_uri)
    add("regex", lambda text: re.compile(text))
    add("json-pointer", lambda text: re.fullmatch(r"(/([^~/]|~[01])*)*", text) is not None)
    return checker


def _short_fraction(text: str) -> str:
    # The standard library reads at most microseconds, and only capital letters before Python 3.12.
    return re.sub(r"(\.\d{6})\d+", r"\1", text).upper()


def _is_uri(text: str) -> bool:
    urlsplit(text)
    return re.fullmatch(r"([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*", text) is not None
