"""Turn pydantic's validation errors into readable findings, one per cause."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from ..text.phrases import closest, listed
from .findings import Cause, Finding, Path, dotted, one_per_cause, quoted, type_word

__all__ = ["field_names", "parse_shape"]

_Model = TypeVar("_Model", bound=BaseModel)
_MAX_READ = 5000
"""Maximum number of errors of one document that are read; reading a million would take minutes."""
_MAX_WORDED = 500
"""Maximum number of errors of one document that are turned into findings."""


def parse_shape(
    model: type[_Model],
    document: Mapping[str, Any],
    *,
    strict: bool,
    top: str = "the manifest",
    context: dict[str, bool] | None = None,
    optional: Callable[[Path], Path | None] | None = None,
    left_out: list[tuple[Path, Any]] | None = None,
) -> tuple[_Model | None, list[Finding]]:
    """Read a document as a model.

    Args:
        model: The strict model.
        document: Plain JSON; it is not changed.
        strict: Whether unknown keys are errors. Otherwise they are dropped with a warning, unless one is a misspelt
            required key.
        top: The name of the document in messages.
        context: Validation context of the model.
        optional: Returns the dispensable field that contains a path, if any. When reading leniently, such a field is
            dropped with a warning if it is invalid.
        left_out: Receives each dropped value with its path.

    Returns:
        The value, or None if there are errors, and all findings.
    """
    try:
        return model.model_validate(document, context=context, by_alias=True, by_name=False), []
    except ValidationError as error:
        if error.error_count() > _MAX_READ:
            message = f"{error.error_count()} values are invalid: this does not look like {top}."
            return None, [Finding(code="too_many_mistakes", path=(), message=_capital(message))]
        # pydantic also reports a list with an invalid element as too short; only the element is worth reporting.
        raw_errors: list[Any] = error.errors(include_url=False)
        errors = [raw for raw in raw_errors if raw["type"] != "too_short" or not raw["input"]]
    findings = one_per_cause(cause for raw in errors[:_MAX_WORDED] for cause in _causes(model, raw, top))
    if strict:
        return None, findings
    places = [_place(model, raw["loc"])[0] for raw in errors]
    dispensable = [optional(place) if optional is not None else None for place in places]
    if any(
        raw["type"] != "extra_forbidden" and field is None
        for raw, field in zip(errors[_MAX_WORDED:], dispensable[_MAX_WORDED:], strict=True)
    ):
        return None, findings
    findings = [_lenient(finding, optional(finding.path) if optional is not None else None) for finding in findings]
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    reduced = copy.deepcopy(dict(document))
    for field, place in dict.fromkeys(zip(dispensable, places, strict=True)):
        _remove(reduced, field or place, left_out)
    return model.model_validate(reduced, context=context, by_alias=True, by_name=False), findings


def field_names(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a model's JSON."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _lenient(finding: Finding, field: Path | None) -> Finding:
    if finding.code != "unknown_field" and field is None:
        return finding
    consequence = "it is ignored" if finding.code == "unknown_field" else f"{dotted(field or ())} is ignored"
    return replace(finding, message=f"{finding.message[:-1]}; {consequence}.", severity="warning")


def _remove(document: Any, path: Path, left_out: list[tuple[Path, Any]] | None) -> None:
    place = document
    for part in path[:-1]:
        place = place[part]
    if path[-1] in place:
        value = place.pop(path[-1])
        if left_out is not None:
            left_out.append((path, value))


def _causes(model: type[BaseModel], error: Any, top: str) -> list[Cause]:
    kind, value = cast("str", error["type"]), error.get("input")
    context = cast("dict[str, Any]", error.get("ctx") or {})
    loc = cast("tuple[str | int, ...]", error["loc"])
    at_key = loc[-1:] == ("[key]",)
    path, parents = _place(model, loc[:-1] if at_key else loc)
    place = dotted(path, top=top)
    name = str(path[-1]) if path else ""

    def one(code: str, message: str, hint: str | None = None, *, at: Path = path) -> list[Cause]:
        return [Cause(finding=Finding(code=code, path=at, message=message, hint=hint, at_key=at_key))]

    if kind == "missing":
        parent = parents[-1] if parents else model
        message = f"{_capital(dotted(path[:-1], top=top))} lacks {quoted(name)}."
        finding = Finding(code="missing_field", path=path[:-1], message=message, hint=_addition(parent, name))
        return [Cause(finding=finding, missing=name)]
    if kind == "extra_forbidden":
        known = field_names(parents[-1] if parents else model)
        message = f"{quoted(name)} is not a field of {dotted(path[:-1], top=top)}."
        guess = closest(name, known, cutoff=0.7)
        hint = f"Did you mean {quoted(guess)}?" if guess else None
        finding = Finding(code="unknown_field", path=path, message=message, hint=hint, at_key=True)
        return [Cause(finding=finding, known=known)]
    if kind == "union_tag_not_found" and isinstance(value, dict):
        return _untagged(path, cast("dict[str, Any]", value), place)
    if kind == "union_tag_invalid":
        tag = context.get("tag")
        return one(
            "not_allowed",
            f"{dotted((*path, 'type'), top=top)} is {quoted(tag)}; allowed: {_tags(context)}.",
            at=(*path, "type"),
        )
    if kind in ("model_attributes_type", "union_tag_not_found"):
        message = f"{place} must be a document, not {type_word(value)}."
        return one("wrong_type", message, 'Write {"type": "text", "value": "..."} or {"type": "uri", ...}.')
    if kind == "literal_error":
        choices = [part.strip("' ") for part in str(context.get("expected", "")).replace(" or ", ", ").split(",")]
        guess = closest(value, choices, cutoff=0.7) if isinstance(value, str) else None
        message = f"{place} is {quoted(value)}; allowed: {listed(choices, word='or')}."
        return one("not_allowed", message, f"Did you mean {quoted(guess)}?" if guess else None)
    if kind in ("string_too_short", "too_short"):
        return one("empty_value", f"{place} must not be empty.")
    if kind == "string_pattern_mismatch":
        return one("bad_uri", f"{place} is {quoted(value)}; it must begin with http:// or https://.")
    if kind == "greater_than_equal":
        return one("out_of_range", f"{place} is {quoted(value)}; it must be at least {context.get('ge')}.")
    if kind == "less_than_equal":
        return one("out_of_range", f"{place} is {quoted(value)}; it must be at most {context.get('le')}.")
    if kind == "string_too_long":
        return one("out_of_range", f"{place} has more than {context.get('max_length')} characters.")
    expected = _EXPECTED.get(kind)
    if expected is not None:
        if kind.startswith("int_") and isinstance(value, float):
            return one("wrong_type", f"{place} must be {expected}, not {quoted(value)}.")
        return one("wrong_type", f"{place} must be {expected}, not {type_word(value)}.")
    if "text" in context:
        place = dotted(path[:-1], top=top) if at_key else place
        return one(kind, f"{place} {context['text']}", context.get("hint"))
    return one("wrong_type", f"{place}: {error['msg']}.")


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "float_type": "a number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
}


def _untagged(path: Path, value: dict[str, Any], place: str) -> list[Cause]:
    missing = Finding(code="missing_field", path=path, message=f'{place} lacks "type".', hint='It is "text" or "uri".')
    causes = [Cause(finding=missing, missing="type")]
    for name in value:
        if name not in ("type", "value"):
            message = f"{quoted(name)} is not a field of {place}."
            finding = Finding(code="unknown_field", path=(*path, name), message=message, at_key=True)
            causes.append(Cause(finding=finding, known=("type", "value")))
    return causes


def _tags(context: Mapping[str, Any]) -> str:
    return listed([part.strip("' ") for part in str(context.get("expected_tags", "")).split(",")], word="or")


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" if text.startswith("the ") else text


def _small(text: str) -> str:
    """The text for use within a sentence: its first letter in lower case, unless its first word is an acronym."""
    return text if text[:2].isupper() else f"{text[0].lower()}{text[1:]}"


def _addition(model: type[BaseModel], name: str) -> str | None:
    """A hint to add a field, with its description."""
    for key, field in model.model_fields.items():
        if (field.alias or key) == name and field.description:
            return f"Add {quoted(name)}: {_small(field.description)}"
    return None


def _place(model: type[BaseModel], loc: tuple[str | int, ...]) -> tuple[Path, list[type[BaseModel]]]:
    """A location without pydantic's union tags, and the model that has its last part as a field, if any."""
    path: list[str | int] = []
    parents: list[type[BaseModel]] = []
    annotation: Any = model
    for index, part in enumerate(loc):
        annotation = _bare(annotation)
        choices = _choices(annotation)
        if len(choices) > 1:
            # A discriminated union: pydantic adds the name of the branch, which is not in the document.
            annotation = next((choice for choice in choices if part in _tag_of(choice)), choices[0])
            if part in _tag_of(annotation):
                continue
        last = index == len(loc) - 1
        path.append(part)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if last:
                parents.append(annotation)
            field = next((f for name, f in annotation.model_fields.items() if (f.alias or name) == part), None)
            annotation = field.annotation if field is not None else None
        else:
            annotation = next(iter(get_args(annotation)[-1:] if isinstance(part, str) else get_args(annotation)), None)
    return tuple(path), parents


def _bare(annotation: Any) -> Any:
    """The annotation without `Annotated` and `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
            continue
        if get_origin(annotation) in (Union, types.UnionType):
            rest = [choice for choice in get_args(annotation) if choice is not type(None)]
            if len(rest) == 1:
                annotation = rest[0]
                continue
        return annotation


def _choices(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else ()


def _tag_of(choice: Any) -> tuple[Any, ...]:
    """The names that pydantic gives a branch of a union: its tag, or the values of its field `type`."""
    if get_origin(choice) is Annotated:
        return tuple(extra.tag for extra in get_args(choice)[1:] if isinstance(extra, Tag))
    field = getattr(choice, "model_fields", {}).get("type")
    return get_args(field.annotation) if field is not None else ()
