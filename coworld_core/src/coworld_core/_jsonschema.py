"""JSON Schemas of authors: checked once, compiled once, and their errors put into words.

Schemas in a manifest are anyone's. They are evaluated as draft 2020-12 by the ``jsonschema`` library with nothing to
fetch from: a reference leads into the schema itself or to the published meta-schemas, everything else is a finding.
Patterns are matched in linear time wherever their syntax allows it, and a validation that unfolds without end is
stopped.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ._findings import Cause, Finding, Findings, Path, did_you_mean, listed, meant, one_per_cause, quoted, type_word

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["CheckedSchema", "check_schema", "follow", "parts"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SINGLE = (
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "unevaluatedItems",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
)
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_KEYWORDS = (
    *_SINGLE,
    *_LISTS,
    *_MAPS,
    *("$id", "$schema", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment", "$vocabulary"),
    *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "format", "maxItems", "minItems", "uniqueItems", "maxContains"),
    *("minContains", "maxProperties", "minProperties", "required", "dependentRequired", "title", "description"),
    *("default", "deprecated", "readOnly", "writeOnly", "examples", "contentEncoding", "contentMediaType"),
)
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_MAX_STEPS = 400_000
"""Elements looked at and references followed (which count twice) in one validation: some seconds of work."""

_MAX_CONTAINERS = 5_000
_MAX_NODES = 20_000
"""Size of a schema, in objects and lists, and in values of all kinds; checking it takes some seconds, too."""

_MAX_ERRORS = 100
_MAX_PATTERN = 2_000
_MAX_REMEMBERED = 256 * 1024


class _Endless(Exception):
    """The step budget of one validation is used up."""


_steps: ContextVar[list[int] | None] = ContextVar("_steps", default=None)


@dataclass(frozen=True, eq=False)
class CheckedSchema:
    """A schema that was checked: what is wrong with it, and the way to validate with it."""

    schema: Any
    findings: tuple[Finding, ...]
    _validator: Validator | None

    @property
    def ok(self) -> bool:
        """Whether it can be used."""
        return self._validator is not None

    def check(self, value: object, *, code: str, secret: Callable[[Path], bool] | None = None) -> tuple[Finding, ...]:
        """Validate a value.

        Args:
            value: Plain JSON.
            code: Code of the findings; a misspelt key has its own (``misspelt_field``).
            secret: Tells paths whose values must not be quoted.

        Returns:
            One finding per cause, in the order of the schema; empty for a schema that cannot be used.
        """
        if self._validator is None:
            return ()
        return _validated(self._validator, value, code, secret or (lambda _: False))


def check_schema(schema: Mapping[str, Any]) -> CheckedSchema:
    """Check and compile a schema; the answer is remembered by the schema's text.

    Args:
        schema: Plain JSON.
    """
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    # What is remembered stays in memory, so only what is of an ordinary size is.
    return _checked(text) if len(text) <= _MAX_REMEMBERED else _checked.__wrapped__(text)


@lru_cache(maxsize=256)
def _checked(text: str) -> CheckedSchema:
    schema: dict[str, Any] = json.loads(text)
    findings = Findings()
    if not _is_of_ordinary_size(schema):
        message = f"The schema has more than {_MAX_CONTAINERS} parts; that many are not checked."
        findings.add("schema_too_costly", (), message, "Write a smaller one.")
        return CheckedSchema(schema, tuple(findings.items), None)
    body = schema
    dialect = schema.get("$schema")
    if isinstance(dialect, str):
        if dialect.rstrip("#") != DIALECT:
            findings.add(
                "schema_dialect",
                ("$schema",),
                f"The schema names {quoted(dialect)}, but schemas in a manifest are read as draft 2020-12.",
                f'Write "{DIALECT}", or leave it out.',
                severity="warning",
            )
        # Left in, it would make the library change to another draft's rules at each reference to the root.
        body = {key: value for key, value in schema.items() if key != "$schema"}
    findings.extend(_against_metaschema(schema))
    if not findings.failed:
        findings.extend(_parts_findings(body))
    if findings.failed:
        return CheckedSchema(schema, tuple(findings.items), None)
    return CheckedSchema(schema, tuple(findings.items), _validator_class()(body, **_offline()))


def _is_of_ordinary_size(schema: object) -> bool:
    containers = nodes = 0
    stack = [schema]
    while stack:
        item = stack.pop()
        nodes += 1
        if isinstance(item, dict):
            stack.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            stack.extend(cast("list[Any]", item))
        else:
            continue
        containers += 1
        if containers > _MAX_CONTAINERS or nodes + len(stack) > _MAX_NODES:
            return False
    return True


def parts(schema: object) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A schema and all schemas written inside it, with their places, outermost first."""
    stack: list[tuple[Path, object]] = [((), schema)]
    while stack:
        path, part = stack.pop()
        if not isinstance(part, dict):
            continue
        keywords = cast("dict[str, Any]", part)
        yield path, keywords
        below: list[tuple[Path, object]] = [((*path, key), keywords[key]) for key in _SINGLE if key in keywords]
        for key in _LISTS:
            if isinstance(entries := keywords.get(key), list):
                below += [((*path, key, index), entry) for index, entry in enumerate(cast("list[Any]", entries))]
        for key in _MAPS:
            if isinstance(entries := keywords.get(key), dict):
                below += [((*path, key, name), entry) for name, entry in cast("dict[str, Any]", entries).items()]
        stack.extend(reversed(below))


def follow(root: Mapping[str, Any], part: object) -> object:
    """The schema a chain of local ``$ref`` leads to; the part itself when it is none, None when it leads nowhere.

    Only JSON pointers into the same schema (``#/$defs/...``) are followed, and at most 32 of them.
    """
    for _ in range(32):
        if not isinstance(part, dict) or not isinstance(ref := cast("dict[str, Any]", part).get("$ref"), str):
            return cast("object", part)
        if not ref.startswith("#"):
            return None
        part = _at(root, ref[1:])
    return None


def _at(root: Mapping[str, Any], fragment: str) -> object:
    from urllib.parse import unquote

    place: Any = root
    for raw in unquote(fragment).split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = cast("Mapping[str, Any]", place).get(key)
        elif isinstance(place, list) and key.isdecimal() and int(key[:9]) < len(cast("list[Any]", place)):
            place = cast("list[Any]", place)[int(key[:9])]
        else:
            return None
    return cast("object", place)


def _parts_findings(schema: dict[str, Any]) -> Iterator[Finding]:
    """What the meta-schema cannot see: references, patterns, misspelt keywords."""
    from referencing.exceptions import Unresolvable

    lookup = _lookup(schema)
    written = list(parts(schema))
    schemas = {id(part) for _, part in written}
    for path, part in written:
        for keyword in ("$ref", "$dynamicRef"):
            ref = part.get(keyword)
            if not isinstance(ref, str):
                continue
            try:
                target = lookup(path, ref)
            except (Unresolvable, ValueError, LookupError, RecursionError, AttributeError, TypeError):
                yield _bad_reference((*path, keyword), ref)
                continue
            # A pointer may lead anywhere; only what stands where schemas stand has been checked to be one.
            published = ref.startswith("https://json-schema.org/")
            if not isinstance(target, bool) and not published and id(target) not in schemas:
                yield Finding(
                    code="unresolved_reference",
                    path=(*path, keyword),
                    message=f"The reference {quoted(ref)} leads to a place that is no schema.",
                    hint="Write it like #/$defs/name, and define that name.",
                )
        if path and "$schema" in part:
            yield Finding(
                code="schema_dialect",
                path=(*path, "$schema"),
                message="A schema inside a schema names its own dialect.",
                hint="Remove it; all of a manifest's schemas are read as draft 2020-12.",
            )
        pattern = part.get("pattern")
        if isinstance(pattern, str) and (problem := _pattern_problem(pattern)):
            yield Finding(code=problem[0], path=(*path, "pattern"), message=problem[1], hint=problem[2])
        for pattern in part.get("patternProperties", ()):
            # The library matches these with Python's engine itself, so they have to be cheap there.
            if problem := _pattern_problem(pattern, python=True):
                yield Finding(
                    code=problem[0],
                    path=(*path, "patternProperties", pattern),
                    message=problem[1],
                    hint=problem[2],
                    at_key=True,
                )
        for key in part:
            if key not in _KEYWORDS and not key.startswith("x-") and (guess := meant(key, _KEYWORDS, cutoff=0.85)):
                yield Finding(
                    code="unknown_schema_keyword",
                    path=(*path, key),
                    message=f"JSON Schema has no keyword {quoted(key)}, so it has no effect.",
                    hint=f"Did you mean {quoted(guess)}?",
                    severity="warning",
                    at_key=True,
                )


def _bad_reference(path: Path, ref: str) -> Finding:
    if ref.startswith("#"):
        return Finding(
            code="unresolved_reference",
            path=path,
            message=f"The reference {quoted(ref)} leads nowhere in this schema.",
            hint="Write it like #/$defs/name, and define that name.",
        )
    return Finding(
        code="remote_reference",
        path=path,
        message=f"The reference {quoted(ref)} leads out of the manifest; nothing is fetched.",
        hint="Copy what it names into $defs of this schema and refer to #/$defs/name.",
    )


def _lookup(schema: dict[str, Any]) -> Callable[[Path, str], object]:
    from referencing.jsonschema import DRAFT202012

    root = _offline()["registry"].resolver_with_root(DRAFT202012.create_resource(schema))
    resolvers: dict[Path, Any] = {(): root}

    def resolver_at(path: Path) -> Any:
        # An $id below changes what references are relative to, so each is looked up from where it stands.
        if path not in resolvers:
            place: Any = schema
            resolver = root
            for index, key in enumerate(path, start=1):
                place = place[key]
                if isinstance(getattr(place, "get", dict[str, Any]().get)("$id"), str):
                    resolver = resolver.in_subresource(DRAFT202012.create_resource(place))
                resolvers.setdefault(path[:index], resolver)
        return resolvers[path]

    return lambda path, ref: resolver_at(path).lookup(ref).contents


@cache
def _offline() -> dict[str, Any]:
    from jsonschema_specifications import REGISTRY

    # The published meta-schemas, and no way to retrieve anything else.
    return {"registry": REGISTRY, "format_checker": _format_checker()}


@cache
def _validator_class() -> Callable[..., Validator]:
    from jsonschema import validators
    from jsonschema.exceptions import ValidationError

    library = cast("Any", validators)
    base = library.Draft202012Validator

    def count(steps: int) -> None:
        counter = _steps.get()
        if counter is not None:
            counter[0] += steps
            if counter[0] > _MAX_STEPS:
                raise _Endless

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
        if validator.is_type(instance, "string") and not _compiled(value)(instance):
            yield ValidationError("pattern")

    # The library's own say which key is meant only in English; these say nothing else.
    def required(validator: Any, value: list[str], instance: Any, schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "object"):
            yield from (ValidationError(name) for name in value if name not in instance)

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        patterns = [_compiled(text) for text in schema.get("patternProperties", ())]
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


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Callable[[str], bool]:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        # Matches in linear time whatever the pattern, but knows no look-around and no back-references.
        linear = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        expression = re.compile(pattern)
        return lambda text: expression.search(text) is not None
    return lambda text: linear.isinstance_python(text)


def _is_linear(pattern: str) -> bool:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return False
    return True


def _pattern_problem(pattern: str, *, python: bool = False) -> tuple[str, str, str | None] | None:
    if len(pattern) > _MAX_PATTERN:
        return "pattern_too_costly", f"The pattern is longer than {_MAX_PATTERN} characters.", "Write a shorter one."
    if not python and _is_linear(pattern):
        return None
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return "schema_invalid", f"The pattern {quoted(pattern)} is not a regular expression: {error}.", None
    if _backtracks(pattern):
        return (
            "pattern_too_costly",
            f"The pattern {quoted(pattern)} may take for ever: it repeats something that itself repeats.",
            "Write it without a repetition inside a repetition.",
        )
    return None


def _backtracks(pattern: str) -> bool:
    """Whether an unbounded repetition has a body in which only repetitions need to match, like ``(a+)*``.

    That is the usual way to exponential time in an engine that backtracks. It is asked only of patterns the linear
    engine cannot run, so a wrong "yes" costs an author a rewrite and a wrong "no" costs time on their own config.
    """
    try:
        import re._parser as parser  # pyright: ignore[reportMissingImports]
    except ImportError:
        # The engine's own parser is not a public module; without it nothing can be vouched for.
        return True

    repeats = ("MAX_REPEAT", "MIN_REPEAT")

    def bodies(item: Any) -> Iterator[Any]:
        operation, argument = str(item[0]), item[1]
        if operation in repeats or operation == "POSSESSIVE_REPEAT":
            yield argument[2]
        elif operation == "SUBPATTERN":
            yield argument[-1]
        elif operation == "BRANCH":
            yield from argument[1]
        elif operation in ("ASSERT", "ASSERT_NOT"):
            yield argument[1]
        elif operation == "ATOMIC_GROUP":
            yield argument
        elif operation == "GROUPREF_EXISTS":
            yield from (branch for branch in argument[1:] if branch is not None)

    def loose(body: Any) -> bool:
        """Whether nothing in the body is a fixed landmark between repetitions, and there is a repetition."""
        found = False
        for item in body:
            operation = str(item[0])
            if operation in repeats:
                if item[1][1] > 1:
                    found = True
            elif operation in ("SUBPATTERN", "BRANCH"):
                if any(loose(inner) for inner in bodies(item)):
                    found = True
                elif operation == "SUBPATTERN":
                    return False
                else:
                    found = True
            elif operation not in ("AT", "ASSERT", "ASSERT_NOT"):
                return False
        return found

    def search(body: Any) -> bool:
        for item in body:
            if str(item[0]) in repeats and item[1][1] > 100 and loose(item[1][2]):
                return True
            if any(search(inner) for inner in bodies(item)):
                return True
        return False

    parse = cast("Callable[[str], Any]", parser.parse)  # pyright: ignore[reportUnknownMemberType]
    return search(parse(pattern))


@cache
def _metaschema_validator() -> Validator:
    from jsonschema.validators import Draft202012Validator

    cls = cast("Any", Draft202012Validator)
    return cls(cls.META_SCHEMA, **_offline())


def _against_metaschema(schema: dict[str, Any]) -> Iterator[Finding]:
    seen: set[Path] = set()
    try:
        for error in _metaschema_validator().iter_errors(schema):
            path = tuple(error.absolute_path)
            # Patterns have a check of their own, which can say what is wrong with one.
            if path in seen or (error.validator == "format" and error.validator_value == "regex"):
                continue
            seen.add(path)
            yield _schema_error(path, error)
            if len(seen) >= _MAX_ERRORS:
                return
    except RecursionError:
        yield Finding(code="schema_too_costly", path=(), message="The schema is nested too deeply to be checked.")


def _schema_error(path: Path, error: Any) -> Finding:
    keyword = next((part for part in reversed(path) if isinstance(part, str)), "")
    value: Any = error.instance
    hint = None
    if keyword == "type" and isinstance(value, str):
        message = f"{quoted(value)} is not a type of JSON Schema."
        hint = did_you_mean(value, _TYPES) if meant(value, _TYPES) else f"It has {listed(_TYPES, word='and')}."
    elif keyword == "type":
        message = f'"type" must name a type, or several in a list, not {type_word(value)}.'
        hint = f"There are {listed(_TYPES, word='and')}."
    else:
        message = _worded(error, path, "schema_invalid", lambda _: False)[0].finding.message
    return Finding(code="schema_invalid", path=path, message=message, hint=hint)


def _validated(validator: Validator, value: object, code: str, secret: Callable[[Path], bool]) -> tuple[Finding, ...]:
    token = _steps.set([0])
    causes: list[Cause] = []
    try:
        for count, error in enumerate(cast("Any", validator).iter_errors(value)):
            causes.extend(_worded(error, tuple(error.absolute_path), code, secret))
            if count >= _MAX_ERRORS:
                break
    except (RecursionError, _Endless) as error:
        # What was found until then may be a product of the loop.
        if isinstance(error, RecursionError):
            message = "The schema refers to itself without end, so nothing can be validated with it."
        else:
            message = "There is too much to validate here; the schema may refer to itself over and over."
        return (
            Finding(code="schema_too_costly", path=(), message=message, hint="Look for $ref that lead back to itself."),
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The library was not written for what anyone may write into a schema.
        message = f"The value cannot be compared with its schema: {error}."
        causes.append(Cause(finding=Finding(code=code, path=(), message=message)))
    finally:
        _steps.reset(token)
    return tuple(one_per_cause(causes))


def _worded(error: Any, path: Path, code: str, secret: Callable[[Path], bool]) -> list[Cause]:
    """One error of the library as findings. Values are quoted short, never dumped."""
    keyword, limit, value = error.validator, error.validator_value, error.instance
    where = quoted(path[-1]) if path and isinstance(path[-1], str) else f"Element {path[-1]}" if path else "The value"
    shown = "it" if secret(path) else quoted(value)

    def one(message: str, hint: str | None = None) -> list[Cause]:
        return [Cause(finding=Finding(code=code, path=path, message=message, hint=hint))]

    if keyword in ("anyOf", "oneOf"):
        return _worded_choice(error, path, code, secret, where)
    if keyword == "required":
        message = f"{quoted(error.message)} is missing."
        return [Cause(finding=Finding(code=code, path=path, message=message), missing=error.message)]
    if keyword == "additionalProperties" and limit is False:
        name, known = error.message, _known_properties(error.schema)
        message = f"The key {quoted(name)} is not known here."
        finding = Finding(code=code, path=(*path, name), message=message, at_key=True)
        return [Cause(finding=finding, known=known)]
    if keyword == "unevaluatedProperties" and limit is False and isinstance(value, dict):
        # The library gives one error for all such keys, and names them only in its text.
        names = [name for name in cast("dict[str, Any]", value) if repr(name) in error.message]
        message = "The key {} is not known here."
        return [
            Cause(finding=Finding(code=code, path=(*path, name), message=message.format(quoted(name)), at_key=True))
            for name in names
        ] or one(f"{where} has a key that is not known here.")
    if keyword == "type":
        names = _type_names(limit)
        return one(f"{where} must be {' or '.join(_type_words(name) for name in names)}, not {_kind(value, names)}.")
    if keyword == "enum" and isinstance(limit, list):
        choices = cast("list[Any]", limit)
        texts = [choice for choice in choices if isinstance(choice, str)]
        guess = meant(value, texts) if isinstance(value, str) and not secret(path) else None
        hint = f"Did you mean {quoted(guess)}?" if guess else None
        return one(f"{where} is {shown}; allowed: {_choices(choices)}.", hint)
    template = _SENTENCES.get(keyword or "")
    if template is not None:
        return one(f"{where} {template.format(limit=quoted(limit), value=shown, size=_size(value))}.")
    if not keyword:
        return one(f"{where} is not allowed here.")
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
    """Several shapes are allowed and none (or two) fits: follow the one that was probably meant."""
    branches: dict[object, list[Any]] = {}
    for below in error.context or ():
        branches.setdefault(below.relative_schema_path[0], []).append(below)
    if not branches:
        message = f"{where} fits more than one of the shapes allowed here."
        return [Cause(finding=Finding(code=code, path=path, message=message))]

    def refuses_type(below: Any) -> bool:
        return below.validator == "type" and not below.relative_path

    def is_tag(below: Any) -> bool:
        return below.validator in ("const", "enum") and len(below.relative_path) <= 1

    def strangeness(branch: list[Any]) -> tuple[int, int]:
        # A branch that refuses the whole value by its type, or by the const or enum that tells shapes apart, was not
        # meant; among the others the one with the fewest complaints was.
        return sum(1 for below in branch if refuses_type(below) or is_tag(below)), len(branch)

    ordered = sorted(branches.values(), key=strangeness)
    everything = [below for branch in ordered for below in branch]
    if strangeness(ordered[0])[0] and len(ordered) > 1:
        if all(any(refuses_type(below) for below in branch) for branch in ordered):
            types = sorted(
                {name for below in everything if refuses_type(below) for name in _type_names(below.validator_value)}
            )
            words = " or ".join(_type_words(name) for name in types)
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
    return [cause for below in ordered[0] for cause in _worded(below, (*path, *below.relative_path), code, secret)]


def _choices(choices: list[Any]) -> str:
    words = list(dict.fromkeys(quoted(choice, 30) for choice in choices))
    return ", ".join(words[:12]) + (", …" if len(words) > 12 else "")


def _known_properties(schema: Any) -> tuple[str, ...]:
    properties = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    return tuple(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else ()


def _type_names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else cast("list[str]", value)


def _type_words(name: str) -> str:
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
