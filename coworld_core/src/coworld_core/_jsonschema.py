"""JSON Schemas of authors: checked once, compiled once, and their errors put into words.

Schemas in a manifest are anyone's. They are evaluated as draft 2020-12 by the ``jsonschema`` library with nothing to
fetch from: a reference leads into the schema itself or to the published meta-schemas, everything else is a finding.
Patterns are matched in linear time wherever their syntax allows it, and a validation that unfolds without end is
stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from ._findings import Cause, Finding, Findings, Path, did_you_mean, listed, meant, one_per_cause, quoted, type_word
from ._schema_patterns import pattern_problem
from ._schema_validator import Endless, metaschema_validator, offline, steps_left, validator_class
from ._schema_words import worded

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

_MAX_CONTAINERS = 5_000
_MAX_NODES = 20_000
"""Size of a schema, in objects and lists, and in values of all kinds; checking it takes some seconds, too."""

_MAX_ERRORS = 100
_MAX_REMEMBERED = 256 * 1024


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
    return CheckedSchema(schema, tuple(findings.items), validator_class()(body, **offline()))


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
        if isinstance(pattern, str) and (problem := pattern_problem(pattern)):
            yield Finding(code=problem[0], path=(*path, "pattern"), message=problem[1], hint=problem[2])
        for pattern in part.get("patternProperties", ()):
            # The library matches these with Python's engine itself, so they have to be cheap there.
            if problem := pattern_problem(pattern, python=True):
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

    root = offline()["registry"].resolver_with_root(DRAFT202012.create_resource(schema))
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


def _against_metaschema(schema: dict[str, Any]) -> Iterator[Finding]:
    seen: set[Path] = set()
    try:
        for error in metaschema_validator().iter_errors(schema):
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
        message = worded(error, path, "schema_invalid", lambda _: False)[0].finding.message
    return Finding(code="schema_invalid", path=path, message=message, hint=hint)


def _validated(validator: Validator, value: object, code: str, secret: Callable[[Path], bool]) -> tuple[Finding, ...]:
    token = steps_left.set([0])
    causes: list[Cause] = []
    try:
        for count, error in enumerate(cast("Any", validator).iter_errors(value)):
            causes.extend(worded(error, tuple(error.absolute_path), code, secret))
            if count >= _MAX_ERRORS:
                break
    except (RecursionError, Endless) as error:
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
        steps_left.reset(token)
    return tuple(one_per_cause(causes))
