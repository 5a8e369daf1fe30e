"""The `jsonschema` library's validator, with a cost budget, linear-time patterns and no remote references."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator
    from referencing import Registry
    from referencing._core import Resolver

__all__ = ["Endless", "budget", "metaschema", "pattern_length", "pattern_problem", "resolver", "validator"]


_MAX_STEPS = 1_000_000
"""Maximum steps of one validation, a few seconds of work: one per evaluated keyword, more for expensive ones."""

_FRAMES_KEPT = 200
"""Stack frames kept free at each reference: the library's code there does not handle a `RecursionError`."""


class Endless(Exception):
    """A validation has used up its step budget or the stack."""


_steps: ContextVar[list[int]] = ContextVar("_steps")


@contextmanager
def budget() -> Generator[None]:
    """Limit the cost of one validation, which runs in the context.

    Raises:
        Endless: The validation costs more.
    """
    token = _steps.set([0])
    try:
        yield
    except RecursionError as error:
        raise Endless from error
    finally:
        _steps.reset(token)


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> Callable[[str], bool]:
    from pydantic_core import SchemaValidator, core_schema

    # The cost of compiling, counted once for each pattern unless the cache overflows.
    _count(100 * pattern_length(pattern))
    # Rust's engine takes linear time for any pattern, and limits the memory of a compiled pattern.
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")).isinstance_python


def pattern_problem(pattern: str) -> str | None:
    """Why the linear-time engine refuses a pattern, in the engine's words; None if it accepts it."""
    from pydantic_core import SchemaError

    try:
        _matcher(pattern)
    except SchemaError as error:
        return str(error).splitlines()[-1].rpartition("rror: ")[2].rstrip(".")
    return None


def pattern_length(pattern: str) -> int:
    """The length of a pattern with its counted repetitions written out; the time of a match grows with it."""
    length, factor = len(pattern), 1
    for before, counts in re.findall(r"(?<=(.))\{([\d,\s]*)\}", pattern, re.DOTALL):
        times = max([1, *(int(count[:6]) for count in re.findall(r"\d+", counts))])
        if before in ")}?*+" or before.isspace():
            factor *= times
        else:
            length += times
    return length * factor


def _matches(pattern: str, text: str) -> bool:
    _count(len(text) // 10)
    return _matcher(pattern)(text)


def _count(steps: int) -> None:
    counter = _steps.get(None)
    if counter is not None:
        counter[0] += steps
        if counter[0] > _MAX_STEPS:
            raise Endless


@cache
def _published() -> Registry[Any]:
    from jsonschema_specifications import REGISTRY
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    # The published meta-schemas, and no way to retrieve anything else. Their "$schema" is removed, because it would
    # make the library switch from the validator class defined here to its own.
    registry = cast("Any", Registry)()
    for uri in REGISTRY:
        if uri.startswith("https://json-schema.org/draft/2020-12/"):
            contents = {key: value for key, value in cast("Any", REGISTRY).contents(uri).items() if key != "$schema"}
            registry = registry.with_resource(uri, DRAFT202012.create_resource(contents))
    # Without this, the library would look for anchors in all of them at each dynamic reference
    return registry.crawl()


def resolver(schema: dict[str, Any]) -> Resolver[Any]:
    """A resolver for the references of a schema, to itself and to the published meta-schemas."""
    from referencing.jsonschema import DRAFT202012

    return _published().resolver_with_root(DRAFT202012.create_resource(schema))


def validator(schema: dict[str, Any]) -> Validator:
    """A validator for a schema; use it inside a `budget`."""
    return _validator_class()(schema, format_checker=_format_checker(), _resolver=resolver(schema))


@cache
def metaschema() -> Validator:
    """A validator for schemas themselves."""
    return validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})


@cache
def _validator_class() -> Callable[..., Validator]:
    from jsonschema import validators
    from jsonschema.exceptions import ValidationError

    library = cast("Any", validators)
    base = library.Draft202012Validator

    def weighed(error: ValidationError) -> ValidationError:
        # The message quotes the whole value.
        _count(len(error.message) // 100)
        return error

    def counted(keyword: str, evaluate: Callable[..., Any]) -> Callable[..., Any]:
        def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            _count(1 + (len(cast("list[Any]", value)) if isinstance(value, dict | list) else 0))
            if keyword in ("$ref", "$dynamicRef"):
                _leave_stack()
            elif keyword.startswith("unevaluated") and isinstance(instance, dict | list):
                _count(len(cast("list[Any]", instance)) ** 2 // 100)
            # Not a generator, which would add a stack frame for each level of nesting
            return map(weighed, evaluate(validator, value, instance, schema))

        return run

    # The library's own version compares every pair.
    def unique(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if (
            value
            and validator.is_type(instance, "array")
            and len({_hashable(item) for item in instance}) < len(instance)
        ):
            yield ValidationError("uniqueItems")

    # The library's own versions of the next three match with Python's engine, which may take exponential time.
    def pattern(validator: Any, value: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "string") and not _matches(value, instance):
            yield ValidationError("pattern")

    def patterned(validator: Any, value: dict[str, Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "object"):
            for text, below in value.items():
                for name in instance:
                    if _matches(text, name):
                        yield from validator.descend(instance[name], below, path=name, schema_path=text)

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        for name in instance:
            if name in schema.get("properties", ()):
                continue
            if any(_matches(text, name) for text in schema.get("patternProperties", ())):
                continue
            if value is False:
                yield ValidationError(name)
            else:
                yield from validator.descend(instance[name], value, path=name)

    own = {
        **base.VALIDATORS,
        "additionalProperties": additional,
        "pattern": pattern,
        "patternProperties": patterned,
        "uniqueItems": unique,
    }
    return library.extend(base, {keyword: counted(keyword, evaluate) for keyword, evaluate in own.items()})


def _leave_stack() -> None:
    try:
        sys._getframe(sys.getrecursionlimit() - _FRAMES_KEPT)  # pyright: ignore[reportPrivateUsage]
    except ValueError:
        return
    raise Endless


def _hashable(value: Any) -> object:
    """A hashable form of a value: equal for values that JSON Schema considers equal."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in cast("dict[str, Any]", value).items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in cast("list[Any]", value))
    # True is 1 in Python and is not in JSON.
    return (bool, value) if isinstance(value, bool) else value


@cache
def _format_checker() -> FormatChecker:
    """The formats that are checked, without the library's optional helpers, one of which takes a second to load."""
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
