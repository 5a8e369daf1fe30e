"""Check and compile authors' JSON Schemas, and report errors in plain words.

The schemas in a manifest are untrusted. The ``jsonschema`` library evaluates them as draft 2020-12, and nothing is
fetched: a reference leads into the schema itself or to the published meta-schemas, and any other is a finding. Three
rules prevent harm: patterns that cannot be matched in linear time are refused, so are schemas that refer to themselves
without descending into the value, and the cost of a validation is limited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from .._findings import Cause, Finding, Findings, Path, did_you_mean, one_per_cause, quoted, type_word
from ..wording import closest, listed
from ._validator import Endless, budget, metaschema, pattern_length, pattern_problem, resolver, validator
from ._words import worded

if TYPE_CHECKING:
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

_MAX_IN_PLACE = 32
"""Maximum nesting of schemas that apply to the same value."""

_MAX_PATTERNS = 10_000
"""Maximum total length of a schema's patterns, with counted repetitions written out."""

_MAX_ERRORS = 100
_MAX_REMEMBERED = 256 * 1024


@dataclass(frozen=True, eq=False)
class CheckedSchema:
    """A checked schema: the findings about it, and its validator."""

    findings: tuple[Finding, ...]
    _validator: Validator | None

    @property
    def ok(self) -> bool:
        """Whether it can be used to validate."""
        return self._validator is not None

    def check(self, value: object, *, code: str, secret: Callable[[Path], bool] | None = None) -> tuple[Finding, ...]:
        """Validate a value.

        Args:
            value: Plain JSON.
            code: Code of the findings, except for misspelt keys (``misspelt_field``).
            secret: Whether the value at a path must not be quoted.

        Returns:
            One finding per cause, in the order of the schema; empty for a schema that cannot be used.
        """
        if self._validator is None:
            return ()
        return _validated(self._validator, value, code, secret or (lambda _: False))


def check_schema(schema: Mapping[str, Any]) -> CheckedSchema:
    """Check and compile a schema. The result is cached by the schema's text.

    Args:
        schema: Plain JSON.
    """
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    # The cache stays in memory, so it only holds schemas of ordinary size.
    return _checked(text) if len(text) <= _MAX_REMEMBERED else _checked.__wrapped__(text)


@lru_cache(maxsize=256)
def _checked(text: str) -> CheckedSchema:
    schema: dict[str, Any] = json.loads(text)
    findings = Findings()
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
        # If kept, it would make the library switch to another draft's rules at each reference to the root.
        body = {key: value for key, value in schema.items() if key != "$schema"}
    findings.extend(_against_metaschema(schema))
    if not findings.failed:
        findings.extend(_parts_findings(body))
    if findings.failed:
        return CheckedSchema(tuple(findings.items), None)
    for _, part in list(parts(body)):
        # The library does not report the path of a property whose schema is just false.
        for name, below in part.get("properties", {}).items():
            part["properties"][name] = {"not": {}} if below is False else below
    return CheckedSchema(tuple(findings.items), validator(body))


def parts(schema: object) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A schema and all its subschemas, each with its path, outermost first."""
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
    """The schema that a chain of local ``$ref`` leads to; the part itself without a ``$ref``, None if it is unresolved.

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
    """Findings that the meta-schema does not give: references, patterns, misspelt keywords."""
    written = list(parts(schema))
    yield from _reference_findings(schema, written)
    yield from _pattern_findings(written)
    for path, part in written:
        if path and "$schema" in part:
            yield Finding(
                code="schema_dialect",
                path=(*path, "$schema"),
                message="A schema inside a schema names its own dialect.",
                hint="Remove it; all of a manifest's schemas are read as draft 2020-12.",
            )
        for key in part:
            if key not in _KEYWORDS and not key.startswith("x-") and (guess := closest(key, _KEYWORDS, cutoff=0.85)):
                yield Finding(
                    code="unknown_schema_keyword",
                    path=(*path, key),
                    message=f"JSON Schema has no keyword {quoted(key)}, so it has no effect.",
                    hint=f"Did you mean {quoted(guess)}?",
                    severity="warning",
                    at_key=True,
                )


def _reference_findings(schema: dict[str, Any], written: list[tuple[Path, dict[str, Any]]]) -> Iterator[Finding]:
    from graphlib import CycleError, TopologicalSorter

    from referencing.exceptions import Unresolvable

    lookup = _lookup(schema)
    places = {id(part): path for path, part in written}
    # For each part, the subschemas that it applies to the same value.
    in_place: dict[int, list[int]] = {}
    for path, part in written:
        below: list[object] = [part.get(key) for key in ("not", "if", "then", "else")]
        below += [entry for key in ("allOf", "anyOf", "oneOf") for entry in part.get(key, ())]
        below += part.get("dependentSchemas", {}).values()
        for keyword in ("$ref", "$dynamicRef"):
            ref = part.get(keyword)
            if not isinstance(ref, str):
                continue
            try:
                target = lookup(path, ref)
            except (Unresolvable, ValueError, LookupError, RecursionError, AttributeError, TypeError):
                yield _bad_reference((*path, keyword), ref)
                continue
            # A pointer may lead anywhere; only the parts where a schema is expected have been checked to be schemas.
            if id(target) in places:
                below.append(target)
            elif not isinstance(target, bool) and not ref.startswith("https://json-schema.org/"):
                yield Finding(
                    code="unresolved_reference",
                    path=(*path, keyword),
                    message=f"The reference {quoted(ref)} points to a place that is not a schema.",
                    hint="Write it like #/$defs/name, and define that name.",
                )
        in_place[id(part)] = [id(entry) for entry in below if id(entry) in places]
    depths: dict[int, int] = {}
    try:
        for part in TopologicalSorter(in_place).static_order():
            depths[part] = 1 + max((depths[below] for below in in_place[part]), default=0)
            if depths[part] > _MAX_IN_PLACE:
                message = f"More than {_MAX_IN_PLACE} nested schemas apply to the same value."
                yield Finding(code="schema_too_costly", path=places[part], message=message, hint="Write fewer.")
                return
    except CycleError as error:
        yield Finding(
            code="schema_too_costly",
            path=min((places[part] for part in error.args[1]), key=str),
            message="The schema refers to itself for the same value, so it has no end.",
            hint="A schema may refer to itself only for what is inside the value, below properties or items.",
        )


def _pattern_findings(written: list[tuple[Path, dict[str, Any]]]) -> Iterator[Finding]:
    unevaluated = any("unevaluatedProperties" in part for _, part in written)
    room = _MAX_PATTERNS
    for path, part in written:
        patterns = [((*path, "pattern"), part["pattern"], False)] if "pattern" in part else []
        patterns += [((*path, "patternProperties", key), key, True) for key in part.get("patternProperties", ())]
        for place, pattern, at_key in patterns:
            room -= pattern_length(pattern)
            if room < 0:
                problem = "all of the schema's patterns together are too long"
            elif at_key and unevaluated:
                # For unevaluatedProperties, the library matches these again with Python's engine, which may take
                # exponential time.
                problem = "patternProperties cannot be combined with unevaluatedProperties"
            else:
                problem = pattern_problem(pattern)
            if problem is not None:
                yield Finding(
                    code="bad_pattern",
                    path=place,
                    message=f"The pattern {quoted(pattern)} cannot be matched in linear time: {problem}.",
                    hint="Patterns have no look-around, no back-references and no large counts.",
                    at_key=at_key,
                )


def _bad_reference(path: Path, ref: str) -> Finding:
    if ref.startswith("#"):
        return Finding(
            code="unresolved_reference",
            path=path,
            message=f"The reference {quoted(ref)} does not exist in this schema.",
            hint="Write it like #/$defs/name, and define that name.",
        )
    return Finding(
        code="remote_reference",
        path=path,
        message=f"The reference {quoted(ref)} points outside the manifest; nothing is fetched.",
        hint="Copy what it names into $defs of this schema and refer to #/$defs/name.",
    )


def _lookup(schema: dict[str, Any]) -> Callable[[Path, str], object]:
    from referencing.jsonschema import DRAFT202012

    root = resolver(schema)
    resolvers: dict[Path, Any] = {(): root}

    def resolver_at(path: Path) -> Any:
        # An $id changes what the references inside it are relative to, so each is looked up from its own place.
        if path not in resolvers:
            place: Any = schema
            here = root
            for index, key in enumerate(path, start=1):
                place = place[key]
                if isinstance(getattr(place, "get", dict[str, Any]().get)("$id"), str):
                    here = here.in_subresource(DRAFT202012.create_resource(place))
                resolvers.setdefault(path[:index], here)
        return resolvers[path]

    return lambda path, ref: resolver_at(path).lookup(ref).contents


def _against_metaschema(schema: dict[str, Any]) -> Iterator[Finding]:
    found: dict[Path, Finding] = {}
    try:
        with budget():
            for error in metaschema().iter_errors(schema):
                path = tuple(error.absolute_path)
                # Patterns have their own check, which reports the reason.
                if path not in found and not (error.validator == "format" and error.validator_value == "regex"):
                    found[path] = _schema_error(path, error)
                if len(found) >= _MAX_ERRORS:
                    break
    except Endless:
        message = "The schema is too large, or nested too deeply, to be checked."
        yield Finding(code="schema_too_costly", path=(), message=message, hint="Write a smaller one.")
    yield from found.values()


def _schema_error(path: Path, error: Any) -> Finding:
    keyword = next((part for part in reversed(path) if isinstance(part, str)), "")
    value: Any = error.instance
    hint = None
    if keyword == "type" and isinstance(value, str):
        message = f"{quoted(value)} is not a type of JSON Schema."
        hint = did_you_mean(value, _TYPES) if closest(value, _TYPES, cutoff=0.7) else f"It has {listed(_TYPES)}."
    elif keyword == "type":
        message = f'"type" must name a type, or several in a list, not {type_word(value)}.'
        hint = f"There are {listed(_TYPES)}."
    else:
        message = worded(error, path, "schema_invalid", lambda _: False)[0].finding.message
    return Finding(code="schema_invalid", path=path, message=message, hint=hint)


def _validated(validator: Validator, value: object, code: str, secret: Callable[[Path], bool]) -> tuple[Finding, ...]:
    causes: list[Cause] = []
    try:
        with budget():
            for error in islice(cast("Any", validator).iter_errors(value), _MAX_ERRORS):
                causes.extend(worded(error, tuple(error.absolute_path), code, secret))
    except Endless:
        # Earlier findings may be artefacts of the loop.
        message = "There is too much to validate here; the schema may refer to itself over and over."
        hint = "Look for $ref that lead back to themselves."
        return (Finding(code="schema_too_costly", path=(), message=message, hint=hint),)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The library does not expect hostile schemas.
        message = f"The value cannot be compared with its schema: {error}."
        causes.append(Cause(finding=Finding(code=code, path=(), message=message)))
    return tuple(one_per_cause(causes))
