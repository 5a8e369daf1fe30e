"""Building blocks of the manifest models: their base class, and string types with validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from ..documents.findings import quoted
from ..ids import MAX_ID_LENGTH, SAFE_ID_PATTERN, id_problem
from ..images import image_problem
from ..quantities import quantity_problem

__all__ = [
    "Env",
    "Image",
    "JsonObject",
    "Model",
    "NonEmpty",
    "Place",
    "Run",
    "SafeId",
    "fitting",
    "glimpse",
    "quantity",
    "refuse",
]

JsonObject: TypeAlias = Mapping[str, Any]
"""A JSON object whose shape is defined elsewhere: a game config, a JSON Schema, results."""


def refuse(code: str, message: str, hint: str | None = None) -> PydanticCustomError:
    # A message continues the name of the field: "player[0].id", then "contains a slash". The text is passed in the
    # context, because a message template would interpret its braces.
    context: dict[str, Any] = {"text": message}
    if hint:
        context["hint"] = hint
    return PydanticCustomError(code, "{text}", context)  # pyright: ignore[reportArgumentType]


def _check_id(value: str) -> str:
    problem = id_problem(value)
    if problem is None:
        return value
    hint = "Use letters, digits, hyphens and underscores; ids become directory names and labels."
    raise refuse(
        "empty_value" if not value else "unsafe_id", f"{quoted(value)} {problem}." if value else "is empty.", hint
    )


def _check_image(value: str) -> str:
    problem = None if value.startswith("file://") else image_problem(value)
    if problem is None:
        return value
    code = "empty_image" if problem == "is empty" else "bad_image"
    hint = "Write [registry/]name[:tag] or name@sha256:digest, e.g. ghcr.io/me/game:1.0."
    raise refuse(code, f"{quoted(value, 80)} {problem}." if value else "is empty.", hint)


def fitting(pattern: str, problem: str, *, hint: str | None = None, longest: int = 500) -> AfterValidator:
    """A validator that requires the whole text to match a pattern.

    Args:
        pattern: Regular expression.
        problem: The end of the sentence that says what is wrong.
        hint: What to write.
        longest: Maximum number of characters.
    """
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if len(value) <= longest and compiled.fullmatch(value):
            return value
        raise refuse("not_allowed", f"is {quoted(value)}; {problem}.", hint)

    return AfterValidator(check)


def _check_place(value: str) -> str:
    if re.fullmatch("sha256:[0-9a-f]{64}", value):
        return value
    parts = value.split("/")
    if value and value.isprintable() and not {"", ".", ".."} & set(parts) and not set("\\:") & set(value):
        return value
    raise refuse(
        "bad_place",
        f"is {quoted(value)}; it must be a path inside the package, or sha256: and 64 hexadecimal digits.",
        "Write a relative path with /, without . and .. in it.",
    )


def _check_env_name(value: str) -> str:
    if value.isascii() and value.replace("_", "a").replace(".", "a").replace("-", "a").isalnum():
        if value[0].isalpha() or value[0] == "_":
            return value
        problem = "begins with neither a letter nor an underscore"
    elif not value:
        problem = "is empty"
    else:
        problem = "contains something other than letters, digits, underscores, dots and hyphens"
    raise refuse(
        "bad_env_name",
        f"has the name {quoted(value)}, which {problem}.",
        "Write it like MY_SETTING.",
    )


def _check_text(value: str) -> str:
    if "\0" in value:
        raise refuse("bad_env_value", "contains a NUL character, which no process can be given.")
    return value


def _check_run(value: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in part for part in value):
        raise refuse("bad_run", "contains a NUL character, which no process can be given.")
    if value and not value[0].strip():
        raise refuse(
            "bad_run",
            "begins with an empty element.",
            "Name the program first, then its arguments; leave the list empty for the image's own command.",
        )
    return value


def quantity(resource: str) -> AfterValidator:
    def check(value: str) -> str:
        problem = quantity_problem(resource, value)
        if problem is None:
            return value
        raise refuse("bad_quantity", f"{quoted(value, 40)} {problem[0]}.", problem[1])

    return AfterValidator(check)


Place: TypeAlias = Annotated[str, AfterValidator(_check_place)]
"""A path inside the package, or the digest of an upload."""
NonEmpty: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
SafeId: TypeAlias = Annotated[
    str,
    AfterValidator(_check_id),
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_ID_LENGTH, "pattern": SAFE_ID_PATTERN}),
]
Image: TypeAlias = Annotated[
    str,
    AfterValidator(_check_image),
    Field(
        description="Docker image reference, or an `img_<uuid>` id in a manifest downloaded before publication.",
        json_schema_extra={"minLength": 1, "pattern": r"^[^\s\-]\S*$"},
    ),
]
Run: TypeAlias = Annotated[
    tuple[str, ...],
    AfterValidator(_check_run),
    Field(description="Command: program first, then arguments. Empty: the image's own entrypoint and command."),
]
_EnvName: TypeAlias = Annotated[str, AfterValidator(_check_env_name)]
Env: TypeAlias = Annotated[
    Mapping[_EnvName, Annotated[str, AfterValidator(_check_text)]],
    Field(
        description="Public environment variables. Never secrets: everyone who can read the manifest reads them.",
        json_schema_extra={"propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_.-]*$"}},
    ),
]


class Model(BaseModel):
    # Built on first use: a nested model is then built with its parent, and not a second time by itself
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_alias=True, validate_by_name=True, defer_build=True
    )

    def __str__(self) -> str:
        return repr(self)


def glimpse(text: str, length: int = 40) -> str:
    return repr(text) if len(text) <= length else f"{text[: length - 1]!r}… ({len(text)} characters)"
