"""The results of a game: a JSON object with one score per slot, as described by the game's own schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .._findings import Finding, Findings, quoted, type_word
from .._findings import Path as Place
from ..errors import ManifestError
from ..issues import Report
from ..json_schema._checking import check_schema, follow
from ..jsonedit import Edit
from ..jsontext import JsonDocument, json_report, parse_json
from .models import JsonObject

__all__ = ["MAX_RESULTS_BYTES", "Results", "check_results", "read_results", "score_bounds"]

MAX_RESULTS_BYTES = 2 * 1024 * 1024
"""Maximum size of results in bytes; anything larger belongs in the replay."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Valid results of one episode."""

    scores: tuple[float, ...]
    """One finite number per slot."""

    raw: JsonObject
    """The whole object, as the game wrote it."""

    def __repr__(self) -> str:
        return f"<Results {', '.join(f'{score:g}' for score in self.scores)}>"


def read_results(
    source: Path | str | bytes, results_schema: JsonObject, slots: int, *, max_bytes: int = MAX_RESULTS_BYTES
) -> Results:
    """Read and check a game's results.

    Args:
        source: The file, or its content as bytes.
        results_schema: ``game.results_schema`` of the manifest.
        slots: How many slots the episode had.
        max_bytes: Refuse results larger than this.

    Raises:
        ManifestError: Code ``results_missing`` if the file does not exist, otherwise ``results_malformed``, with a
            report of everything that is wrong.
    """
    results, report = check_results(source, results_schema, slots, max_bytes=max_bytes)
    if results is None:
        missing = any(issue.code == "results_missing" for issue in report.errors)
        raise ManifestError(report, code="results_missing" if missing else "results_malformed")
    return results


def check_results(
    source: Path | str | bytes, results_schema: JsonObject, slots: int, *, max_bytes: int = MAX_RESULTS_BYTES
) -> tuple[Results | None, Report]:
    """Like ``read_results``, but returns the report; the results are None exactly if the report has errors."""
    document = _read(source, max_bytes)
    findings = Findings(list(document.findings))
    if document.usable:
        findings.extend(_results_findings(document.value, results_schema, slots))
    report = json_report(document, findings.items, dropped=findings.dropped)
    if findings.failed:
        return None, report
    raw = cast("dict[str, Any]", document.value)
    return Results(scores=tuple(float(score) for score in raw["scores"]), raw=raw), report


def _read(source: Path | str | bytes, max_bytes: int) -> JsonDocument:
    if isinstance(source, bytes):
        return parse_json(source, source="results", max_bytes=max_bytes)
    path = Path(source)
    try:
        with path.open("rb") as file:
            # Reading one byte more than allowed shows that there is more, without reading all of it.
            data = file.read(max_bytes + 1)
    except OSError as error:
        code = "results_missing" if isinstance(error, FileNotFoundError) else "results_unreadable"
        message = (
            "The game wrote no results."
            if isinstance(error, FileNotFoundError)
            else f"The results cannot be read: {error.strerror or error}."
        )
        finding = Finding(code=code, path=(), message=message)
        return JsonDocument(str(path), None, None, (finding,), usable=False)
    return parse_json(data, source=str(path), max_bytes=max_bytes)


def _results_findings(value: object, results_schema: JsonObject, slots: int) -> list[Finding]:
    findings = Findings()
    if not isinstance(value, dict):
        findings.add("not_an_object", (), f"Results are a JSON object, not {type_word(value)}.")
        return findings.items
    results = cast("dict[str, Any]", value)
    checked = check_schema(results_schema)
    if not checked.ok:
        first = checked.findings[0].message
        findings.add("results_schema_invalid", (), f"results_schema itself cannot be used: {first}")
    by_schema = checked.check(results, code="results_break_schema")
    findings.extend(by_schema)
    if any(finding.path[:1] == ("scores",) or quoted("scores") in finding.message for finding in by_schema):
        return findings.items
    scores = results.get("scores")
    if not isinstance(scores, list):
        what = "are missing" if "scores" not in results else f"must be a list, not {type_word(scores)}"
        findings.add("scores_malformed", ("scores",), f"`scores` {what}; results have one number per slot.")
        return findings.items
    numbers = cast("list[Any]", scores)
    if len(numbers) != slots:
        message = f"`scores` has {len(numbers)} {'entry' if len(numbers) == 1 else 'entries'} for {slots} slots."
        findings.add("scores_length", ("scores",), message)
    for index, score in enumerate(numbers):
        if isinstance(score, bool) or not isinstance(score, int | float) or not _finite(score):
            message = f"The score of slot {index} is {quoted(score)}; it must be a finite number."
            findings.add("scores_malformed", ("scores", index), message)
    return findings.items


def _finite(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def results_schema_findings(schema: Mapping[str, Any], *, strict: bool = True) -> list[Finding]:
    """Findings about a results schema, with paths relative to it.

    Args:
        schema: The schema.
        strict: Whether a schema that does not require scores is an error. If not, the game can be played, and results
            without scores are reported when they arrive.
    """
    checked = check_schema(schema)
    findings = Findings(list(checked.findings))
    hint = 'Write "required": ["scores", ...] and "scores": {"type": "array", "items": {"type": "number"}}.'
    if not _requires(schema, schema, "scores", {}):
        findings.add(
            "scores_not_required",
            ("required",) if "required" in schema else (),
            "results_schema must require `scores`: the point of an episode is one number per slot.",
            hint,
            severity="error" if strict else "warning",
            edits=_requiring(schema),
        )
        return findings.items
    if not checked.ok:
        # Invalid types would be reported twice.
        return findings.items
    known: dict[int, frozenset[str] | None] = {}
    types = _types(schema, schema, known)
    if types is not None and "object" not in types:
        findings.add("scores_not_numbers", ("type",), "results_schema must allow an object, which results are.", hint)
    rules = list(_facets(schema, [((), schema)], "scores"))
    if not rules:
        findings.add(
            "scores_undeclared",
            ("properties",) if "properties" in schema else (),
            "results_schema does not say that `scores` is a list of numbers.",
            hint,
            severity="warning",
        )
    told = False
    for path, rule in rules:
        types = _types(schema, rule, known)
        if types is not None and "array" not in types:
            findings.add("scores_not_numbers", path, "`scores` in results_schema is not a list.", hint)
            told = True
        elements: list[tuple[Place, object]] = []
        if "items" in rule:
            elements.append((_below(path, "items"), rule["items"]))
        if isinstance(prefix := rule.get("prefixItems"), list):
            elements += [(_below(path, "prefixItems", i), item) for i, item in enumerate(cast("list[Any]", prefix))]
        for place, element in elements:
            types = _types(schema, element, known)
            if types is not None and not types & {"number", "integer"}:
                findings.add("scores_not_numbers", place, "`scores` in results_schema is not a list of numbers.", hint)
                told = True
    if rules and not told and all(_types(schema, rule, known) is None for _, rule in rules):
        message = "results_schema does not say that `scores` is a list."
        findings.add("scores_undeclared", rules[0][0], message, hint, severity="warning")
    return findings.items


def score_bounds(
    schema: Mapping[str, Any], seats: int, *, pointer: str = "/scores"
) -> tuple[float | None, float | None]:
    """The lowest and the highest score that a results schema allows in any seat; None where it does not say.

    Args:
        schema: The game's results schema.
        seats: Number of seats in the game.
        pointer: JSON pointer to the list of one number for each seat.
    """
    lists: list[object] = [schema]
    for part in pointer.split("/")[1:]:
        lists = _inside(schema, lists, part.replace("~1", "/").replace("~0", "~"))
    lowest: list[float | None] = []
    highest: list[float | None] = []
    for slot in range(seats):
        rules = [
            keywords for _, keywords in _applying(schema, [((), one) for one in _inside(schema, lists, str(slot))])
        ]
        lowest.append(max(_limits(rules, "minimum", "exclusiveMinimum", min), default=None))
        highest.append(min(_limits(rules, "maximum", "exclusiveMaximum", max), default=None))
    low = [bound for bound in lowest if bound is not None]
    high = [bound for bound in highest if bound is not None]
    return (min(low) if len(low) == seats else None, max(high) if len(high) == seats else None)


def _inside(root: Mapping[str, Any], schemas: Sequence[object], key: str) -> list[object]:
    """The schemas of the value under a key, or at an index, of a value with these schemas."""
    found: list[object] = []
    for _, keywords in _applying(root, [((), schema) for schema in schemas]):
        properties, first = keywords.get("properties"), _branches(keywords, "prefixItems")
        if isinstance(properties, Mapping) and key in properties:
            found.append(cast("Mapping[str, object]", properties)[key])
        if key.isdecimal():
            found.append(first[int(key)] if int(key) < len(first) else keywords.get("items"))
    return found


def _limits(
    rules: Sequence[Mapping[str, Any]], bound: str, strict: str, end: Callable[[Iterable[float]], float]
) -> list[float]:
    """The bounds on one side that schemas set for a number; all of them apply."""
    found: list[float] = []
    for keywords in rules:
        listed: list[Any] = [keywords["const"]] if "const" in keywords else _branches(keywords, "enum")
        if listed and all(map(_is_finite_number, listed)):
            found.append(float(end(listed)))
        found += [float(keywords[name]) for name in (bound, strict) if _is_finite_number(keywords.get(name))]
    return found


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)


def _requiring(schema: Mapping[str, Any]) -> tuple[Edit, ...]:
    """The change that makes a schema require the scores it describes."""
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or "scores" not in properties or not isinstance(required, list):
        return ()
    return (Edit("set", ("required",), [*cast("list[Any]", required), "scores"]),)


def _requires(root: Mapping[str, Any], schema: object, name: str, known: dict[int, bool], room: int = 64) -> bool:
    """Whether a schema, through local references and combinations, makes a key required."""
    if not isinstance(schema, dict) or room <= 0:
        return False
    keywords = cast("dict[str, Any]", schema)
    if id(keywords) not in known:
        # A schema that contains itself adds nothing. Each is visited once, however often it is referenced.
        known[id(keywords)] = False
        known[id(keywords)] = _requires_itself(root, keywords, name, known, room - 1)
    return known[id(keywords)]


def _requires_itself(
    root: Mapping[str, Any], schema: Mapping[str, Any], name: str, known: dict[int, bool], room: int
) -> bool:
    required = schema.get("required")
    if isinstance(required, list) and name in required:
        return True
    if "$ref" in schema and _requires(root, follow(root, schema), name, known, room):
        return True
    if any(_requires(root, branch, name, known, room) for branch in _branches(schema, "allOf")):
        return True
    return any(
        branches and all(_requires(root, branch, name, known, room) for branch in branches)
        for branches in (_branches(schema, "anyOf"), _branches(schema, "oneOf"))
    )


def _branches(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    branches = schema.get(keyword)
    return cast("list[Any]", branches)[:64] if isinstance(branches, list) else []


def _facets(
    root: Mapping[str, Any], start: list[tuple[Place, object]], name: str
) -> list[tuple[Place, dict[str, Any]]]:
    """Every schema that certainly applies to a property, with its path in the schema as written."""
    applying = _applying(root, start)
    below: list[tuple[Place, object]] = []
    for path, part in applying:
        properties = part.get("properties")
        if isinstance(properties, dict) and name in properties:
            below.append((_below(path, "properties", name), cast("dict[str, Any]", properties)[name]))
    return _applying(root, below)


def _below(path: Place, *parts: str | int) -> Place:
    """A path deeper in the schema. The target of a reference is reported at the reference."""
    return path if path[-1:] == ("$ref",) else (*path, *parts)


def _applying(root: Mapping[str, Any], start: list[tuple[Place, object]]) -> list[tuple[Place, dict[str, Any]]]:
    result: list[tuple[Place, dict[str, Any]]] = []
    stack = list(reversed(start))
    seen: set[int] = set()
    while stack and len(seen) < 256:
        path, part = stack.pop()
        if not isinstance(part, dict) or id(cast("object", part)) in seen:
            continue
        keywords = cast("dict[str, Any]", part)
        seen.add(id(keywords))
        result.append((path, keywords))
        if "$ref" in keywords:
            stack.append((_below(path, "$ref"), follow(root, keywords)))
        stack += [(_below(path, "allOf", index), branch) for index, branch in enumerate(_branches(keywords, "allOf"))]
    return result


def _types(
    root: Mapping[str, Any], schema: object, known: dict[int, frozenset[str] | None], room: int = 64
) -> frozenset[str] | None:
    """The JSON types that a schema certainly restricts a value to, or None if it does not say."""
    if not isinstance(schema, dict) or room <= 0:
        return None
    keywords = cast("dict[str, Any]", schema)
    if id(keywords) not in known:
        known[id(keywords)] = None
        known[id(keywords)] = _types_itself(root, keywords, known, room - 1)
    return known[id(keywords)]


def _types_itself(
    root: Mapping[str, Any], schema: Mapping[str, Any], known: dict[int, frozenset[str] | None], room: int
) -> frozenset[str] | None:
    found: list[frozenset[str]] = []
    declared = schema.get("type")
    if isinstance(declared, str):
        found.append(frozenset([declared]))
    elif isinstance(declared, list):
        found.append(frozenset(name for name in cast("list[Any]", declared) if isinstance(name, str)))
    conditions = [follow(root, schema)] if "$ref" in schema else []
    for branch in [*conditions, *_branches(schema, "allOf")]:
        if (types := _types(root, branch, known, room)) is not None:
            found.append(types)
    for keyword in ("anyOf", "oneOf"):
        options = [_types(root, branch, known, room) for branch in _branches(schema, keyword)]
        sure = [types for types in options if types is not None]
        if options and len(sure) == len(options):
            found.append(frozenset[str]().union(*sure))
    if not found:
        return None
    common = _with_integers(found[0])
    for types in found[1:]:
        common &= _with_integers(types)
    return common


def _with_integers(types: frozenset[str]) -> frozenset[str]:
    # Every integer is a number, so {"number"} and {"integer"} have the integers in common.
    return types | {"integer"} if "number" in types else types
